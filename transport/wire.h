/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire format: a header, then payload_bytes of payload. Little endian. The first
 * eight bytes (magic, version, type, header_bytes) keep their meaning in every version,
 * so that a peer of another version is told apart from noise.
 *
 * A header has up to three parts, each sent only with those before it: what every message
 * has, the op of a PUSH, and the dead servers that its sender knows of, if any. A field
 * of a part that was not sent, or not whole, is 0. A receiver skips what a header carries
 * beyond the parts it knows.
 *
 * A payload is never announced first: each message names the place it goes to, a
 * (region, offset) or slot that its receiver chose. See docs/protocol.md.
 */
#pragma once

#include <stdint.h>

#include "transport/addr.h"

#define BPS_WIRE_MAGIC         0x53504254u /* "TBPS" */
#define BPS_WIRE_VERSION       3
#define BPS_WIRE_MIN_HDR       40u    /* a header of the first part alone */
#define BPS_WIRE_PUSH_HDR      68u    /* of two parts: the least that a PUSH has */
#define BPS_WIRE_FULL_HDR      80u    /* of all three: the most that we write */
#define BPS_WIRE_MAX_HDR       512u   /* the most that we take */
#define BPS_WIRE_MAX_SLOTS     65536u /* of a window, spare ones included */
#define BPS_WIRE_ALIGN         64u    /* unit of an offset */
#define BPS_WIRE_MAX_PAYLOAD   (64u << 20)
#define BPS_WIRE_CTL_PAYLOAD   1024u /* bound on the payload of the other types */
#define BPS_WIRE_VERSION_CHARS 16
#define BPS_WIRE_HOST_CHARS    64
#define BPS_WIRE_MAX_ADDRS     16u

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
	/* The first part, of every message. */
	uint8_t type;    /* enum bps_wire_type */
	uint8_t version; /* as received; the sender's own when sending */
	uint32_t payload_bytes;
	uint32_t slot; /* that a PUSH occupies, below BPS_WIRE_MAX_SLOTS; so its ANSWER */
	uint16_t member; /* sender's index in the group, which is the summing order */
	uint64_t group;
	uint64_t op; /* number of the op within its group */
	uint32_t part;
	uint32_t peer; /* world rank of the sending, or lost, leader */
	/* The second, of a PUSH. */
	uint32_t n_parts; /* of the whole op */
	uint16_t n_members;
	uint16_t root;     /* broadcast: the member that has the data */
	uint64_t op_bytes; /* of the whole op */
	uint8_t dtype;     /* enum bps_dtype */
	uint8_t redop;     /* enum bps_redop */
	uint8_t coll;      /* enum bps_coll */
	uint8_t priority;  /* 0 is the most urgent */
	uint32_t region; /* where the answer goes: the receiver's number, modulo 65536 */
	uint64_t offset; /* a multiple of BPS_WIRE_ALIGN, below 2^38 */
	uint64_t acked;  /* all of the ops below are answered; 0: the sender can't say */
	/* The third, of a PUSH whose dead_n is not 0. */
	uint32_t dead_n;    /* size of the set of servers that the sender holds dead */
	uint64_t dead_hash; /* of that set */
};

/* Payload of HELLO and WELCOME. */
struct bps_wire_hello {
	uint8_t job[16];     /* random, made by rank 0: who knows it belongs to the job */
	uint32_t peer;       /* world rank of the leader */
	uint32_t n_peers;    /* world size */
	uint32_t n_slots;    /* window: wanted in HELLO, granted in WELCOME */
	uint32_t slot_bytes; /* likewise */
	uint32_t connection; /* which of the peer's to this server, from 0 on */
	char version[BPS_WIRE_VERSION_CHARS]; /* BPS_VERSION, NUL-terminated */
	char host[BPS_WIRE_HOST_CHARS];
	/* Of a WELCOME alone. */
	uint64_t server; /* random, one a server: told again on each of its addresses */
	uint32_t n_addrs;
	struct bps_card_addr addrs[BPS_WIRE_MAX_ADDRS]; /* where it listens; card < 256 */
	uint64_t left_bytes; /* of its memory, for more windows; 0: it does not say */
};
/* Of a peer to a server. */
#define BPS_WIRE_MAX_CONNECTIONS 16u
#define BPS_WIRE_HELLO_BYTES     (16 + 5 * 4 + BPS_WIRE_VERSION_CHARS + BPS_WIRE_HOST_CHARS)
#define BPS_WIRE_ADDR_BYTES      20u
/* The most that bps_wire_encode_hello() writes. */
#define BPS_WIRE_HELLO_MOST \
	(BPS_WIRE_HELLO_BYTES + 8 + 1 + BPS_WIRE_MAX_ADDRS * BPS_WIRE_ADDR_BYTES + 8)

/*
 * The most that a HELLO or WELCOME has. The first HELLO on each way to a server is filled
 * with zeros, to a little more than the largest packet of that way, and so is its answer:
 * there are ways that lose large packets and carry small ones.
 */
#define BPS_WIRE_GREETING_BYTES (14u << 10)

#define BPS_WIRE_E_MAGIC   1 /* not a peer of ours at all */
#define BPS_WIRE_E_VERSION 2 /* ours, another version: ret_hdr->version says which */
#define BPS_WIRE_E_SHORT   3 /* nothing wrong so far; more bytes are needed */

/**
 * bps_wire_hdr_bytes() - how long @hdr is on the wire: BPS_WIRE_MIN_HDR to
 * BPS_WIRE_FULL_HDR.
 */
uint32_t bps_wire_hdr_bytes(const struct bps_wire_hdr *hdr);

/**
 * bps_wire_encode() - write @hdr at @buf, which has room for BPS_WIRE_FULL_HDR bytes.
 * Fields of parts that its type does not have are not sent; an op more than 65534 beyond
 * acked goes without it.
 *
 * Return: bps_wire_hdr_bytes(@hdr), the bytes written.
 */
uint32_t bps_wire_encode(const struct bps_wire_hdr *hdr, uint8_t *buf);

/**
 * bps_wire_decode() - read a header of which the first @bytes, 0 or more, are at @buf.
 * What is wrong is told as soon as the byte that says so is there: a peer of ours from
 * noise by the first five, lengths and types by the first BPS_WIRE_MIN_HDR.
 * @ret_hdr_bytes: how long the sender's header is in all, BPS_WIRE_MIN_HDR to
 * BPS_WIRE_MAX_HDR; the payload begins there
 *
 * Return: 0; BPS_WIRE_E_SHORT; BPS_WIRE_E_MAGIC; BPS_WIRE_E_VERSION; -EBADMSG when a
 * length or type is out of range. Both lengths are bounded when 0 is returned;
 * payload_bytes by BPS_WIRE_MAX_PAYLOAD in PUSH and ANSWER, BPS_WIRE_GREETING_BYTES in
 * HELLO and WELCOME, else by BPS_WIRE_CTL_PAYLOAD.
 */
int bps_wire_decode(const uint8_t *buf, uint32_t bytes, struct bps_wire_hdr *ret_hdr,
                    uint32_t *ret_hdr_bytes);

/**
 * bps_wire_encode_hello() - write @hello at @buf, which has room for BPS_WIRE_HELLO_MOST
 * bytes. Texts that are too long are cut.
 *
 * Return: the bytes written; BPS_WIRE_HELLO_BYTES where hello->server is 0, and what
 * follows it is not sent.
 */
uint32_t bps_wire_encode_hello(const struct bps_wire_hello *hello, uint8_t *buf);

/**
 * bps_wire_decode_hello() - read a HELLO or WELCOME payload of @bytes bytes.
 * Strings come back terminated and printable. Addresses that are cut off, or some of
 * which cannot be a server's (no port, loopback, link-local, multicast, none at all), are
 * no addresses; more bytes are a newer peer's and are ignored. Return: 0 or -EBADMSG.
 */
int bps_wire_decode_hello(const uint8_t *buf, uint32_t bytes,
                          struct bps_wire_hello *ret_hello);
