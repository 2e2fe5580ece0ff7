/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's part in the job: what MPI_Init found out, and what every collective
 * looks at. There is one; it is written in MPI_Init and MPI_Finalize, where no other
 * thread is in MPI, and read by all threads in between.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "base/config.h"
#include "base/cpuset.h"
#include "base/hostlist.h"
#include "base/list.h"
#include "engine/engine.h"
#include "topology/boxes.h"
#include "transport/netif.h"
#include "transport/reach.h"

#define BPS_HOST_CHARS 64
#define BPS_MAX_NICS   32
#define BPS_WHY_CHARS  240

/* What every rank tells every other one in MPI_Init. */
struct bps_rank_card {
	uint32_t root;           /* lowest rank of its box */
	int32_t error;           /* 0, or why this rank cannot take part */
	char why[BPS_WHY_CHARS]; /* the same for people; "": it has said so itself */
	struct bps_addr addr;    /* of the server that it carries; bytes 0: none */
	char host[BPS_HOST_CHARS];
};

/* One rank of a box, in the words of interpose/nodes.h. */
struct bps_box_rank {
	struct bps_cpuset cpus; /* where it may run */
	uint32_t node;          /* the system's number; BPS_NUMA_NONE: not known */
};

/* Shared by the ranks of a box for the whole job. */
struct bps_box_page {
	uint64_t nonce;
	uint64_t staging_bytes; /* of all stages of this box now; atomic */
	/* Of the box among others, see engine/levels.h: home's node. */
	uint32_t home_node, wire_node;
	struct bps_box_rank ranks[]; /* of the world; those of other boxes are not used */
};

/** bps_box_page_bytes() - of the page in a world of @n_ranks. */
static inline size_t bps_box_page_bytes(uint32_t n_ranks)
{
	return sizeof(struct bps_box_page) + n_ranks * sizeof(struct bps_box_rank);
}

/* One summation server. */
struct bps_job_server {
	char name[160];
	struct bps_addr addrs[8];
	int n_addrs;
	bool local;
	uint64_t id; /* which one it is, as it told who reached it; 0: nobody yet */
	/* Where this process is connected: [n_rails] of BPS_REACH_MAX_RAILS; owned. */
	struct bps_rail *rails;
	uint32_t n_rails;
};

/* The links of boxes and of dedicated servers, in bytes a second each way. */
struct bps_rates {
	double *boxes;   /* [boxes] */
	double *servers; /* [hosts] */
	/* while they are found out: boxes, then servers */
	double *said;
	int64_t *mine, *all;
};

struct bps_job {
	bool active;                  /* calls are taken; false: everything passes */
	bool seen;                    /* MPI_Init went through us */
	uint64_t least_bytes;         /* smaller calls pass; set while active, as is: */
	const struct bps_mpi *direct; /* where they go at once; NULL: a tool sees them */
	struct bps_mpi *mpi;
	struct bps_config config; /* rank 0's, but for hostid and cpus */
	uint32_t rank, size;
	uint8_t id[16];
	struct bps_rank_card *cards; /* [size] */
	struct bps_boxes boxes;
	uint32_t box; /* of this rank */
	struct bps_box_page *page;
	struct bps_addr local; /* where the server that it carries listens first */
	struct bps_netif nics[BPS_MAX_NICS]; /* a leader's, that may carry */
	int n_nics;
	struct bps_hostlist hosts;      /* the dedicated servers; empty: colocated ones */
	struct bps_job_server *servers; /* [n_servers], on every rank where boxes > 1 */
	uint32_t n_servers;
	uint32_t n_connections; /* of a leader to each of them, on each rail */
	uint32_t n_rails;       /* the most that a leader has to a server */
	char idle_card[720];    /* a line on a card of this leader that carries nothing */
	struct bps_rates rates;
	int keyval;  /* of our attribute on communicators */
	int fd_sock; /* fdpass; -1: none */

	pthread_mutex_t lock;      /* of all below */
	struct bps_engine *engine; /* NULL until this process leads something */
	bool connected;            /* the engine greeted the servers */
	struct bps_list comms;     /* struct bps_comm */
	struct bps_list mailbox;   /* descriptors that came for another communicator */
	int *wake_fds;             /* [size]: of each leader's engine; -1: not known */
	uint32_t n_cookies;        /* communicators that this process has named */
	uint32_t n_regions;
};

extern struct bps_job bps_job;

/**
 * bps_job_engine() - the engine, started and connected to the job's servers when this
 * process leads something for the first time. Collective calls only.
 * Return: 0 or a negative errno (logged).
 */
int bps_job_engine(struct bps_job *job, struct bps_engine **ret_engine);

/** bps_job_start() - after the library's MPI_Init succeeded. Never fails: at worst inert.
 */
void bps_job_start(struct bps_job *job);
/** bps_job_stop() - before the library's MPI_Finalize. */
void bps_job_stop(struct bps_job *job);
