/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member's network half: it pushes an op's partitions to their servers, within the
 * window that each server granted, and takes the answers in. A state machine: it has no
 * thread, clock or socket; it is fed connections (transport/transport.h), the time, and
 * how many partitions are ready. All of it belongs to one thread.
 *
 * Positions, not parts: an op's parts are visited in this member's order (engine/plan.h);
 * position p is the p-th part in that order. Parts become ready in order of position.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/types.h"
#include "engine/plan.h"
#include "transport/transport.h"

struct bps_client;
struct bps_op;

#define BPS_REASON_CHARS 512

/* Why something failed, for people: what happened, to whom, what to do. */
struct bps_reason {
	int error; /* negative errno, 0: nothing failed */
	char text[BPS_REASON_CHARS];
};

struct bps_client_config {
	uint8_t job[16];     /* random, the same for the whole job */
	uint32_t peer;       /* world rank of this process */
	uint32_t n_peers;    /* world size */
	const char *host;    /* of this process; copied */
	uint32_t slot_bytes; /* largest partition */
	uint32_t n_slots;    /* partitions that may be unanswered at one server, >= 1 */
	uint64_t timeout_ns; /* a server that says nothing for so long is dead */
	/* monotonic; NULL: nothing is measured for bps_client_load(), and it is the time
	 * of the last tick */
	uint64_t (*clock)(void *owner);
	void *clock_owner;
};

/* How a server and the way to it kept up; all since the beginning. */
struct bps_load {
	uint64_t full_ns; /* the time in which it owed a whole window of answers */
	struct bps_conn_counts packets;
};

/* A group that this process is a member of; the caller owns it, until bps_group_leave().
 */
struct bps_group {
	/* set by the caller before bps_group_join() */
	uint64_t id;
	uint16_t member, n_members;
	uint32_t n_servers;
	const uint32_t *servers; /* their numbers, as in bps_client_attach(); borrowed */
	const char *name;        /* the communicator's, for messages; borrowed */
	/* the ranks behind @member, for messages ("ranks 4-7 on h2"); may be NULL */
	void (*describe)(const struct bps_group *group, uint16_t member, char *buf,
	                 size_t bytes);
	const uint32_t *leaders; /* world rank of each member's leader; borrowed */
	void *owner;
	/* the client's */
	struct bps_list link;
	struct bps_list ops; /* unfinished, in order */
	uint64_t next_op;    /* number of the next op */
	struct bps_reason broken;
};

/* What an op's owner does for the client. */
struct bps_op_events {
	/*
	 * The bytes of the part at @position, unchanged until it landed; NULL when this
	 * member contributes none (a broadcast's leaf).
	 */
	const void *(*source)(struct bps_op *op, uint64_t position);
	/*
	 * Where the answer at @position goes: part-sized memory, and its name on the
	 * wire. NULL when no bytes come back (a broadcast's root).
	 */
	void *(*place)(struct bps_op *op, uint64_t position, uint32_t *ret_region,
	               uint64_t *ret_offset);
	/* The answer at @position is complete. */
	void (*landed)(struct bps_op *op, uint64_t position);
	/*
	 * Every part landed (reason NULL), or the op failed. The client forgets the op.
	 * The memory that a failed op named stays where it is until the client is closed:
	 * messages that are under way still read and write it.
	 */
	void (*finished)(struct bps_op *op, const struct bps_reason *reason);
};

struct bps_op_lane; /* an op's place in the queue of one server */

/* One collective op; owned by the caller, from bps_op_start() until finished(). */
struct bps_op {
	/* set by the caller */
	enum bps_coll coll;
	enum bps_dtype dtype;
	enum bps_redop redop;
	uint16_t root;      /* broadcast: the member that has the data */
	uint8_t priority;   /* 0 goes first */
	uint32_t window;    /* parts unanswered at a server; 0: as many as it granted */
	struct bps_cut cut; /* its slices are borrowed until finished() */
	const struct bps_op_events *events;
	void *owner;
	/* the client's */
	struct bps_group *group;
	struct bps_list link;
	uint64_t number;
	uint64_t n_ready, n_landed;
	uint64_t started_ns, warned_ns;
	struct bps_op_lane *lanes; /* one a server of the group */
};

/**
 * bps_client_new() - Return: 0 and a client owned by the caller, -EINVAL or -ENOMEM.
 */
int bps_client_new(const struct bps_client_config *config,
                   struct bps_client **ret_client);

/**
 * bps_client_close() - begin the end: groups are left, connections closed after a BYE.
 * What is under way is still sent; bps_client_closed() says when it is.
 */
void bps_client_close(struct bps_client *client);
bool bps_client_closed(const struct bps_client *client);
/** bps_client_free() - takes NULL; a client that is closed. */
void bps_client_free(struct bps_client *client);

/**
 * bps_client_attach() - consumes @conn, a connection (up or on its way up) to server
 * number @server of the job, the first one or one more: says HELLO on it and takes its
 * events. @name is what messages call the server; copied. @fill_bytes: how long
 * the greetings have to be at least, to show that this way carries large packets; at most
 * BPS_WIRE_GREETING_BYTES.
 * Return: 0; -ENOMEM; -ENOSPC beyond BPS_WIRE_MAX_CONNECTIONS (@conn is closed then).
 */
int bps_client_attach(struct bps_client *client, uint32_t server, struct bps_conn *conn,
                      const char *name, uint32_t fill_bytes);

/**
 * bps_client_carried() - server @server is part of another process of the job. That it
 * died is told a little later: what ends an MPI process is the launcher's to say first.
 */
void bps_client_carried(struct bps_client *client, uint32_t server);

/**
 * bps_client_keep() - close the connections to server @server but for the first @n, at
 * least 1, before any group uses it.
 */
void bps_client_keep(struct bps_client *client, uint32_t server, uint32_t n);

/**
 * bps_client_drop() - close connection @i (below bps_client_n_connections()) to server
 * @server, before any group uses it; those after it move up.
 */
void bps_client_drop(struct bps_client *client, uint32_t server, uint32_t i);

/** bps_client_n_connections() - to server @server, those closed not counted. */
uint32_t bps_client_n_connections(const struct bps_client *client, uint32_t server);

/**
 * bps_client_status() - of server @server, its worst connection: 0 it granted a window;
 * -EINPROGRESS not yet; -ENOENT never attached; else the error that ended it, with the
 * reason (borrowed until the next call into the client) in *@ret_reason unless that is
 * NULL.
 */
int bps_client_status(const struct bps_client *client, uint32_t server,
                      const struct bps_reason **ret_reason);

/* One connection to a server. */
struct bps_connection {
	int status;                      /* as of bps_client_status() */
	bool up;                         /* its messages can be sent */
	const struct bps_reason *reason; /* borrowed until the next call */
	const char *silence; /* -EINPROGRESS: what is known of why, static; else NULL */
	struct bps_addr here, there; /* bytes 0: there is no network between the two */
	uint64_t sent_bytes, received_bytes;
};

/** bps_client_look() - at connection @i. Return: 0; -ENOENT: there is none. */
int bps_client_look(const struct bps_client *client, uint32_t server, uint32_t i,
                    struct bps_connection *ret);

/**
 * bps_client_told() - the addresses that server @server says it listens on; borrowed
 * while @client lives. Return: how many, at most BPS_WIRE_MAX_ADDRS.
 */
uint32_t bps_client_told(const struct bps_client *client, uint32_t server,
                         const struct bps_card_addr **ret_addrs);

/** bps_client_id() - which server @server is, by its WELCOME; 0: it has not said. */
uint64_t bps_client_id(const struct bps_client *client, uint32_t server);

/**
 * bps_client_load() - of server @server, all 0 where it is not attached.
 */
void bps_client_load(const struct bps_client *client, uint32_t server,
                     struct bps_load *ret_load);

/**
 * bps_group_join() - make @group known; its servers were attached.
 * Return: 0, -EINVAL for a server that never was.
 */
int bps_group_join(struct bps_client *client, struct bps_group *group);
/** bps_group_leave() - unfinished ops finish with -ECANCELED. Idempotent. */
void bps_group_leave(struct bps_client *client, struct bps_group *group);

/**
 * bps_op_start() - begin @op as the next op of @group; the client borrows it until
 * finished(), which is not called when this fails.
 * Return: 0; -ENOMEM; or the group's error, the reason in group->broken.
 */
int bps_op_start(struct bps_client *client, struct bps_group *group, struct bps_op *op,
                 uint64_t now_ns);

/** bps_op_ready() - the first @n_ready positions of @op have their source; only grows. */
void bps_op_ready(struct bps_client *client, struct bps_op *op, uint64_t n_ready);

/**
 * bps_client_tick() - it is @now_ns (monotonic). Call it at least once a second while ops
 * are unfinished. Finds silent servers, warns of late members.
 */
void bps_client_tick(struct bps_client *client, uint64_t now_ns);

/** bps_client_busy() - whether bps_client_tick() has anything to watch. */
bool bps_client_busy(const struct bps_client *client);
