/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What client.c (groups, ops, time), rails.c (the connections to one server), uplink.c
 * (the conversation on one of them) and push.c (what goes out when) share. Everything
 * belongs to the client's thread.
 */
#pragma once

#include "engine/client.h"

#define BPS_NO_SLOT UINT32_MAX

/* A slot of the window that a server granted a connection, and the push in it. */
struct bps_push {
	struct bps_send send;
	struct bps_uplink *uplink;
	struct bps_op *op; /* NULL: the op failed, the slot waits for its answer */
	uint64_t position;
	uint32_t part_bytes;
	bool sending;    /* the transport has it */
	bool unanswered; /* the slot is taken */
	uint32_t next_free;
};

enum bps_uplink_state {
	BPS_UPLINK_GREETING, /* HELLO queued or sent; not welcomed yet */
	BPS_UPLINK_OPEN,
	BPS_UPLINK_DEAD,
};

/* One connection to a server. */
struct bps_uplink {
	struct bps_client *client;
	struct bps_rails *rails;
	struct bps_conn *conn; /* NULL when it is over */
	enum bps_uplink_state state;
	bool up;
	struct bps_addr here, there; /* once it is open; bytes 0: of no network */
	struct bps_reason reason;    /* why it is dead, or about to be */
	struct bps_push *slots;
	uint32_t n_slots; /* granted: the window, and spare ones beyond it */
	uint32_t free_slot, n_unanswered;
	uint64_t heard_ns, asked_ns;
	bool ping_sending, ping_unanswered;
	uint32_t n_sending; /* sends that the transport has */
	struct bps_send hello, ping, bye;
	uint8_t greeting[BPS_WIRE_GREETING_BYTES]; /* HELLO's payload, then WELCOME's */
	uint8_t control[BPS_WIRE_CTL_PAYLOAD];
	void *scratch; /* where the answers of a failed op go */
	/* members that were missing from an op, as last reported */
	uint64_t missing_group, missing_op;
	uint32_t n_missing;
	uint16_t missing[BPS_WIRE_CTL_PAYLOAD / 2];
	char name[96];
};

/*
 * One server, as this client sees it: the connections to it, and the ops that have
 * something left to push. A push goes to the connection that has answered most.
 */
struct bps_rails {
	struct bps_client *client;
	uint32_t server;
	bool carried; /* it is part of another process of the job */
	struct bps_uplink *uplinks[BPS_WIRE_MAX_CONNECTIONS];
	uint32_t n; /* the first of them, which are used */
	uint32_t
		n_all; /* the others were closed, and may still have something under way;
	                  as many were ever made, and each has the number of its making */
	uint32_t n_welcomes;
	uint64_t id; /* the server's own number, from its first WELCOME; 0: not said */
	struct bps_card_addr addrs[BPS_WIRE_MAX_ADDRS]; /* where it listens, by that */
	uint32_t n_addrs;
	struct bps_list lanes; /* struct bps_op_lane */
	/* of all connections together */
	uint32_t window, n_unanswered;
	uint32_t limit; /* of n_unanswered: what the latest op wants of the window */
	bool full;      /* n_unanswered has reached it */
	uint64_t full_ns, full_since_ns;
};

/* An op's place in the queue of one server; in order of parts, which all members share.
 */
struct bps_op_lane {
	struct bps_op *op;
	struct bps_list link;
	uint32_t server; /* index in the group's servers */
	uint32_t slice;  /* its place in a round of the op */
	uint32_t n_pushed;
	uint64_t position; /* of the next push; n_parts or more: none */
};

/*
 * A process of the job is gone, it seems: a leader that lost its connection to a server,
 * or one to whose own server we lost ours. The groups that need it end after a grace,
 * time for the launcher's own message to come first.
 */
struct bps_lost {
	struct bps_list link;
	const struct bps_uplink *uplink; /* to its server; NULL: see peer */
	uint32_t peer;                   /* the leader */
	uint64_t at_ns;
	bool over; /* the grace is */
	struct bps_reason reason;
};

struct bps_client {
	struct bps_client_config config;
	char host[BPS_WIRE_HOST_CHARS];
	struct bps_rails **rails; /* by server number; NULL: never attached */
	uint32_t n_rails;
	struct bps_list groups;
	struct bps_list lost; /* struct bps_lost */
	uint64_t now_ns, ticked_ns;
};

/* -- client.c -- */

void bps_reason_set(struct bps_reason *reason, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** bps_coll_name() - the call's name, for messages. */
const char *bps_coll_name(uint32_t coll);

/** bps_client_group() - the group with this id, NULL when there is none. */
struct bps_group *bps_client_group(struct bps_client *client, uint64_t id);

/**
 * bps_group_break() - the end of @group: its ops finish with @reason. The servers that
 * are left are told @text, so that nobody waits for this member; its groups' other
 * members find it in their reasons.
 */
void bps_group_break(struct bps_client *client, struct bps_group *group,
                     const struct bps_reason *reason, const char *text);

/** bps_client_now() - the time; that of the last tick where there is no clock. */
uint64_t bps_client_now(struct bps_client *client);

/**
 * bps_client_server_died() - @uplink is dead now: groups that need its server end, at
 * once or, where that is part of a process of the job, and there was a connection, after
 * the grace.
 */
void bps_client_server_died(struct bps_client *client, const struct bps_uplink *uplink,
                            bool was_open);

/** bps_client_leader_lost() - the leader of world rank @peer is gone. 0 or -ENOMEM. */
int bps_client_leader_lost(struct bps_client *client, uint32_t peer,
                           const struct bps_reason *reason);

/** bps_op_landed() - the answer at @position is complete. */
void bps_op_landed(struct bps_client *client, struct bps_op *op, uint64_t position);

/** bps_op_late() - @uplink reported who is missing from @op: warn once a timeout. */
void bps_op_late(const struct bps_uplink *uplink, struct bps_op *op);

/* -- rails.c -- */

/** bps_rails_new() - no connection yet. Return: 0 or -ENOMEM. */
int bps_rails_new(struct bps_client *client, uint32_t server,
                  struct bps_rails **ret_rails);
/** bps_rails_free() - takes NULL; closed before. */
void bps_rails_free(struct bps_rails *rails);
/** bps_rails_add() - consumes @conn, see bps_client_attach(). */
int bps_rails_add(struct bps_rails *rails, struct bps_conn *conn, const char *name,
                  uint32_t fill_bytes);
/** bps_rails_keep() - see bps_client_keep(). */
void bps_rails_keep(struct bps_rails *rails, uint32_t n);
/** bps_rails_drop() - see bps_client_drop(). */
void bps_rails_drop(struct bps_rails *rails, uint32_t i);
/** bps_rails_closed() - whether the transport gave everything back. */
bool bps_rails_closed(const struct bps_rails *rails);
/** bps_rails_worst() - the connection in the worst state. */
struct bps_uplink *bps_rails_worst(const struct bps_rails *rails);
/** bps_rails_load() - see bps_client_load(). */
void bps_rails_load(const struct bps_rails *rails, struct bps_load *ret_load);

/* -- uplink.c -- */

/** bps_uplink_new() - consumes @conn and says HELLO on it, its number @number;
 * @fill_bytes as of bps_client_attach(). 0 or -ENOMEM. */
int bps_uplink_new(struct bps_rails *rails, uint32_t number, struct bps_conn *conn,
                   const char *name, uint32_t fill_bytes, struct bps_uplink **ret_uplink);
/** bps_uplink_close() - a BYE, then the end of the connection. Idempotent. */
void bps_uplink_close(struct bps_uplink *uplink);
/** bps_uplink_closed() - whether the transport gave everything back. */
bool bps_uplink_closed(const struct bps_uplink *uplink);
/** bps_uplink_free() - takes NULL; closed before. */
void bps_uplink_free(struct bps_uplink *uplink);

/** bps_uplink_cancel() - tell the server that group @id is finished, and why. */
void bps_uplink_cancel(struct bps_uplink *uplink, uint64_t id, const char *text);
/** bps_uplink_silence() - why @uplink, not welcomed yet, may hear nothing; static. */
const char *bps_uplink_silence(const struct bps_uplink *uplink);
/** bps_uplink_tick() - find out whether it is silent; ask it what it waits for. @stopped:
 * this process did not run since the last one, so nobody could be heard. */
void bps_uplink_tick(struct bps_uplink *uplink, bool stopped);

/* -- push.c -- */

/** bps_push_slots() - the server granted @n_slots. 0 or -ENOMEM. */
int bps_push_slots(struct bps_uplink *uplink, uint32_t n_slots);
/** bps_push_answered() - its slot is free again. */
void bps_push_answered(struct bps_push *push);

/** bps_rails_push() - queue @lane, which is filled but for its link and position. */
void bps_rails_push(struct bps_rails *rails, struct bps_op_lane *lane);
/** bps_rails_forget() - @op is over: its lane leaves; its slots wait for their answers.
 */
void bps_rails_forget(struct bps_rails *rails, struct bps_op *op,
                      struct bps_op_lane *lane);
/** bps_rails_pump() - push what is ready into the slots that are free. */
void bps_rails_pump(struct bps_rails *rails);
/** bps_rails_full_ns() - how long it owed a whole window of answers. */
uint64_t bps_rails_full_ns(const struct bps_rails *rails);
