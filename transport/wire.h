/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire format: a fixed header, then payload_bytes of payload. Little endian. The
 * first eight bytes (magic, version, type, header_bytes) keep their meaning in every
 * version, so that a peer of another version is told apart from noise. A receiver skips
 * what a longer header carries beyond the fields it knows.
 *
 * A payload is never announced first: each message names the place it goes to, a
 * (region, offset) or slot that its receiver chose. See docs/protocol.md.
 */
#pragma once

#include <stdint.h>

#define BPS_WIRE_MAGIC         0x53504254u /* "TBPS" */
#define BPS_WIRE_VERSION       1
#define BPS_WIRE_HDR_BYTES     96u
#define BPS_WIRE_MAX_HDR       512u
#define BPS_WIRE_MAX_PAYLOAD   (64u << 20)
#define BPS_WIRE_CTL_PAYLOAD   1024u /* bound on the payload of all but PUSH and ANSWER */
#define BPS_WIRE_VERSION_CHARS 16
#define BPS_WIRE_HOST_CHARS    64

/* Member -> server: HELLO PUSH PING BYE. Both ways: ERROR. Server -> member: the others.
 */
enum bps_wire_type {
	BPS_WIRE_HELLO = 1,   /* payload: struct bps_wire_hello */
	BPS_WIRE_WELCOME = 2, /* payload: struct bps_wire_hello */
	BPS_WIRE_REFUSE = 3,  /* payload: text, why */
	BPS_WIRE_PUSH = 4, /* payload: the member's part, or none (a broadcast's leaf) */
	BPS_WIRE_ANSWER = 5, /* payload: the total, or none (a broadcast's root) */
	BPS_WIRE_ERROR = 6,  /* payload: text; the group is finished */
	BPS_WIRE_PING = 7,   /* group, op, part: the key that the member waits for */
	BPS_WIRE_PONG = 8,   /* payload: u16 members still missing from that key */
	BPS_WIRE_BYE = 9,    /* the member leaves in order */
	BPS_WIRE_LOST = 10,  /* peer: world rank of a leader whose connection broke */
	BPS_WIRE_N_TYPES
};

/* One header, in host order. (group, op, part) is the key. */
struct bps_wire_hdr {
	uint8_t type;    /* enum bps_wire_type */
	uint8_t version; /* as received; the sender's own when sending */
	uint32_t payload_bytes;
	uint32_t slot; /* window slot that a PUSH occupies; echoed by its ANSWER */
	uint64_t group;
	uint64_t op; /* number of the op within its group */
	uint32_t part;
	uint32_t n_parts;  /* of the whole op */
	uint64_t op_bytes; /* of the whole op */
	uint16_t member;   /* sender's index in the group, which is the summing order */
	uint16_t n_members;
	uint8_t dtype;    /* enum bps_dtype */
	uint8_t redop;    /* enum bps_redop */
	uint8_t coll;     /* enum bps_coll */
	uint8_t priority; /* 0 is the most urgent */
	uint16_t root;    /* broadcast: the member that has the data */
	uint16_t flags;   /* 0 for now; unknown flags are ignored */
	uint32_t region;  /* where the answer goes, as its receiver named it */
	uint64_t offset;
	uint64_t acked;     /* sender has every answer of ops below this, cumulative */
	uint64_t dead_hash; /* of the set of servers that the sender holds dead */
	uint32_t dead_n;    /* size of that set */
	uint32_t peer;      /* world rank of the sending, or lost, leader */
};

/* Payload of HELLO and WELCOME. */
struct bps_wire_hello {
	uint8_t job[16];     /* random, made by rank 0: who knows it belongs to the job */
	uint32_t peer;       /* world rank of the leader */
	uint32_t n_peers;    /* world size */
	uint32_t n_slots;    /* window: wanted in HELLO, granted in WELCOME */
	uint32_t slot_bytes; /* likewise */
	char version[BPS_WIRE_VERSION_CHARS]; /* BPS_VERSION, NUL-terminated */
	char host[BPS_WIRE_HOST_CHARS];
};
#define BPS_WIRE_HELLO_BYTES (16 + 4 * 4 + BPS_WIRE_VERSION_CHARS + BPS_WIRE_HOST_CHARS)

#define BPS_WIRE_E_MAGIC   1 /* not a peer of ours at all */
#define BPS_WIRE_E_VERSION 2 /* ours, another version: ret_hdr->version says which */

/**
 * bps_wire_encode() - write @hdr as BPS_WIRE_HDR_BYTES bytes at @buf.
 */
void bps_wire_encode(const struct bps_wire_hdr *hdr, uint8_t *buf);

/**
 * bps_wire_probe() - tell a peer of ours from noise by the first bytes of a header, as
 * soon as they are there. @bytes: how many are at @buf, 0 or more.
 *
 * Return: 0: nothing wrong so far; BPS_WIRE_E_MAGIC; BPS_WIRE_E_VERSION with the peer's
 * version in @ret_version.
 */
int bps_wire_probe(const uint8_t *buf, uint32_t bytes, uint8_t *ret_version);

/**
 * bps_wire_decode() - read a header from the first BPS_WIRE_HDR_BYTES bytes at @buf.
 * @ret_hdr_bytes: how long the sender's header is in all, BPS_WIRE_HDR_BYTES to
 * BPS_WIRE_MAX_HDR; the caller skips the rest.
 *
 * Return: 0; BPS_WIRE_E_MAGIC; BPS_WIRE_E_VERSION; -EBADMSG when a length or type is out
 * of range. Both lengths are bounded when 0 is returned; payload_bytes by
 * BPS_WIRE_CTL_PAYLOAD unless the type is PUSH or ANSWER.
 */
int bps_wire_decode(const uint8_t *buf, struct bps_wire_hdr *ret_hdr,
                    uint32_t *ret_hdr_bytes);

/**
 * bps_wire_encode_hello() - write @hello as BPS_WIRE_HELLO_BYTES bytes at @buf. Texts
 * that are too long are cut.
 */
void bps_wire_encode_hello(const struct bps_wire_hello *hello, uint8_t *buf);

/**
 * bps_wire_decode_hello() - read a HELLO or WELCOME payload of @bytes bytes.
 * Strings come back terminated and printable; bytes beyond BPS_WIRE_HELLO_BYTES are a
 * newer peer's and are ignored. Return: 0 or -EBADMSG.
 */
int bps_wire_decode_hello(const uint8_t *buf, uint32_t bytes,
                          struct bps_wire_hello *ret_hello);
