/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs on the simulator: members with clients, servers of their own boxes or in the
 * members', communicators, and the calls that are made in them. A member stands for a box
 * of some ranks: its contribution is the sum of theirs, in rank order. Every answer is
 * checked, bit by bit, against tests/sim/expect.h.
 *
 * What goes wrong is a failure of the test: it is printed and counted in n_wrong, of
 * which bps_sim_failures() is the sum.
 */
#pragma once

#include "engine/client.h"
#include "engine/server.h"
#include "tests/sim/sim.h"

#define BPS_SIM_NO_END UINT64_MAX

struct bps_sim_server {
	struct bps_sim *sim;
	struct bps_sim_node *node;
	struct bps_server *server;
	char name[32];
};

struct bps_sim_job_config {
	uint32_t n_members;
	uint32_t n_servers;              /* 0: each member has one */
	struct bps_sim_server **servers; /* borrowed */
	struct bps_sim_nic nic;          /* of each member */
	uint32_t slot_bytes, n_slots;
	uint32_t n_connections; /* of a member to each server; 0: 1 */
	uint32_t ring;          /* positions at once in a box's stage; 0: no limit */
	uint32_t max_ranks;     /* of a box */
	uint32_t n_groups;      /* the first has all members */
	uint32_t n_calls;       /* of each group */
	uint32_t max_in_flight; /* calls of a group that are not finished */
	uint64_t max_op_bytes;  /* any size up to it */
	uint64_t op_bytes; /* not 0: this size, allreduce of float32, all groups alike */
	uint64_t gap_ns;   /* up to so much between what a member does */
	uint64_t timeout_ns;
	bool no_bytes; /* nothing is moved, summed or checked */
	bps_reduce_fn *(*kernel)(enum bps_dtype, enum bps_redop); /* of own servers */
	bool may_fail; /* calls may end with an error */
};

/* A member's part in a call. */
struct bps_sim_share {
	struct bps_op op; /* tests may change it before it is started */
	struct bps_sim_call *call;
	struct bps_sim_seat *seat;
	uint8_t *input, *output;
	uint64_t delay_ns; /* the member is so late */
	uint64_t n_ready, n_landed, n_in_order;
	uint8_t *landed; /* by position */
	bool started, over;
	struct bps_reason reason; /* how it ended */
	uint64_t start_ns, end_ns;
};

struct bps_sim_call {
	struct bps_sim_group *group;
	uint32_t number;
	struct bps_cut cut;
	struct bps_slice *slices;
	uint8_t *expected;
	struct bps_sim_share *shares; /* by place in the group */
};

/* A member's place in a group. */
struct bps_sim_seat {
	struct bps_group group;
	struct bps_sim_group *of;
	struct bps_sim_member *member;
	uint32_t n_started, n_over;
	uint64_t not_before_ns; /* of the next call, where it is late */
};

struct bps_sim_group {
	struct bps_sim_job *job;
	char name[32];
	uint32_t n_members, *members; /* which of the job's */
	uint32_t n_servers, *servers, *weights;
	uint32_t *leaders;
	struct bps_sim_seat *seats;
	struct bps_sim_call *calls;
};

struct bps_sim_member {
	struct bps_sim_job *job;
	uint32_t number, first_rank, n_ranks;
	struct bps_sim_node *node;
	struct bps_client *client;
	bool closing, closed, crashed;
};

struct bps_sim_job {
	struct bps_sim *sim;
	struct bps_sim_job_config config;
	struct bps_prng prng;
	uint8_t id[16];
	uint32_t n_ranks;
	struct bps_sim_server **servers;
	struct bps_sim_member *members;
	struct bps_sim_group *groups;
	uint32_t n_closed, n_failed;
	bool open_end;             /* members stay when their calls are over */
	uint64_t start_ns, end_ns; /* of its calls */
};

/* What a share's op does for its client. */
extern const struct bps_op_events bps_sim_op_events;

struct bps_sim_server *bps_sim_server_new(struct bps_sim *sim, struct bps_sim_node *node,
                                          const char *name,
                                          const struct bps_server_config *config);
void bps_sim_server_free(struct bps_sim_server *server);
/** bps_sim_servers_new() - @n of them, "server0" and so on, each a node with @nic. */
void bps_sim_servers_new(struct bps_sim *sim, uint32_t n, const struct bps_sim_nic *nic,
                         const struct bps_server_config *config,
                         struct bps_sim_server **ret_servers);
/** bps_sim_server_accept() - for bps_sim_connect(). */
void bps_sim_server_accept(void *server, struct bps_conn *conn);
/** bps_sim_server_empty() - check that nothing is left on it. */
void bps_sim_server_empty(struct bps_sim_server *server);

/** bps_sim_job_new() - its calls, inputs and expected answers, by the simulator's seed.
 */
struct bps_sim_job *bps_sim_job_new(struct bps_sim *sim,
                                    const struct bps_sim_job_config *config);
/** bps_sim_job_start() - its members connect, and call. */
void bps_sim_job_start(struct bps_sim_job *job);
/** bps_sim_job_close() - members leave, whatever they wait for. */
void bps_sim_job_close(struct bps_sim_job *job);
/** bps_sim_job_crash() - the end of member @member's process, now. */
void bps_sim_job_crash(struct bps_sim_job *job, uint32_t member);
/** bps_sim_job_done() - every call is over and, but with open_end, every member left. */
bool bps_sim_job_done(const struct bps_sim_job *job);
/** bps_sim_job_free() - after bps_sim_free(). */
void bps_sim_job_free(struct bps_sim_job *job);
struct bps_sim_share *bps_sim_job_share(struct bps_sim_job *job, uint32_t group,
                                        uint32_t call, uint32_t member);

/** bps_sim_wrong() - a line, and a failure of the test. */
void bps_sim_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** bps_sim_failures() - how many there were; starts over. */
uint32_t bps_sim_failures(void);
