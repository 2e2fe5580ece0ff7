/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Where the next field is written, and read. */
struct writer {
	uint8_t *at;
};

struct reader {
	const uint8_t *at;
};

static void put(struct writer *out, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		*out->at++ = (uint8_t)(value >> (8 * i));
}

static uint64_t get(struct reader *in, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)*in->at++ << (8 * i);
	return value;
}

uint32_t bps_wire_hdr_bytes(const struct bps_wire_hdr *hdr)
{
	if (hdr->type != BPS_WIRE_PUSH)
		return BPS_WIRE_MIN_HDR;
	return hdr->dead_n ? BPS_WIRE_FULL_HDR : BPS_WIRE_PUSH_HDR;
}

/* acked goes as its distance from the op; this one means that it is not said. */
#define BEHIND_UNKNOWN UINT16_MAX

static uint64_t behind(const struct bps_wire_hdr *hdr)
{
	if (hdr->acked > hdr->op || hdr->op - hdr->acked > BEHIND_UNKNOWN)
		return BEHIND_UNKNOWN;
	return hdr->op - hdr->acked;
}

static uint64_t acked(uint64_t op, uint64_t behind_by)
{
	return behind_by == BEHIND_UNKNOWN || behind_by > op ? 0 : op - behind_by;
}

static void encode_op(struct writer *out, const struct bps_wire_hdr *hdr)
{
	put(out, hdr->n_parts, 4);
	put(out, hdr->n_members, 2);
	put(out, hdr->root, 2);
	put(out, hdr->op_bytes, 8);
	put(out, hdr->dtype, 1);
	put(out, hdr->redop, 1);
	put(out, hdr->coll, 1);
	put(out, hdr->priority, 1);
	put(out, hdr->region, 2);
	put(out, behind(hdr), 2);
	put(out, hdr->offset / BPS_WIRE_ALIGN, 4);
}

static void encode_dead(struct writer *out, const struct bps_wire_hdr *hdr)
{
	put(out, hdr->dead_n, 4);
	put(out, hdr->dead_hash, 8);
}

uint32_t bps_wire_encode(const struct bps_wire_hdr *hdr, uint8_t *buf)
{
	uint32_t hdr_bytes = bps_wire_hdr_bytes(hdr);
	struct writer out = { buf };

	put(&out, BPS_WIRE_MAGIC, 4);
	put(&out, BPS_WIRE_VERSION, 1);
	put(&out, hdr->type, 1);
	put(&out, hdr_bytes, 2);
	put(&out, hdr->payload_bytes, 4);
	put(&out, hdr->slot, 2);
	put(&out, hdr->member, 2);
	put(&out, hdr->group, 8);
	put(&out, hdr->op, 8);
	put(&out, hdr->part, 4);
	put(&out, hdr->peer, 4);
	if (hdr_bytes >= BPS_WIRE_PUSH_HDR)
		encode_op(&out, hdr);
	if (hdr_bytes >= BPS_WIRE_FULL_HDR)
		encode_dead(&out, hdr);
	return hdr_bytes;
}

/* What follows header_bytes. */
static void decode_key(struct reader *in, struct bps_wire_hdr *hdr)
{
	hdr->payload_bytes = (uint32_t)get(in, 4);
	hdr->slot = (uint32_t)get(in, 2);
	hdr->member = (uint16_t)get(in, 2);
	hdr->group = get(in, 8);
	hdr->op = get(in, 8);
	hdr->part = (uint32_t)get(in, 4);
	hdr->peer = (uint32_t)get(in, 4);
}

static void decode_op(struct reader *in, struct bps_wire_hdr *hdr)
{
	hdr->n_parts = (uint32_t)get(in, 4);
	hdr->n_members = (uint16_t)get(in, 2);
	hdr->root = (uint16_t)get(in, 2);
	hdr->op_bytes = get(in, 8);
	hdr->dtype = (uint8_t)get(in, 1);
	hdr->redop = (uint8_t)get(in, 1);
	hdr->coll = (uint8_t)get(in, 1);
	hdr->priority = (uint8_t)get(in, 1);
	hdr->region = (uint32_t)get(in, 2);
	hdr->acked = acked(hdr->op, get(in, 2));
	hdr->offset = get(in, 4) * BPS_WIRE_ALIGN;
}

static void decode_dead(struct reader *in, struct bps_wire_hdr *hdr)
{
	hdr->dead_n = (uint32_t)get(in, 4);
	hdr->dead_hash = get(in, 8);
}

/* Tell a peer of ours from noise by what there is of a header. */
static int probe(const uint8_t *buf, uint32_t bytes, uint8_t *ret_version)
{
	static const uint8_t magic[4] = {
		BPS_WIRE_MAGIC & 0xff,
		BPS_WIRE_MAGIC >> 8 & 0xff,
		BPS_WIRE_MAGIC >> 16 & 0xff,
		BPS_WIRE_MAGIC >> 24,
	};

	if (memcmp(buf, magic, bytes < 4 ? bytes : 4) != 0)
		return BPS_WIRE_E_MAGIC;
	if (bytes < 5 || buf[4] == BPS_WIRE_VERSION)
		return 0;
	*ret_version = buf[4];
	return BPS_WIRE_E_VERSION;
}

static uint32_t max_payload(uint8_t type)
{
	if (type == BPS_WIRE_PUSH || type == BPS_WIRE_ANSWER)
		return BPS_WIRE_MAX_PAYLOAD;
	if (type == BPS_WIRE_HELLO || type == BPS_WIRE_WELCOME)
		return BPS_WIRE_GREETING_BYTES;
	return BPS_WIRE_CTL_PAYLOAD;
}

static bool in_range(const struct bps_wire_hdr *hdr, uint32_t hdr_bytes)
{
	if (hdr->type == 0 || hdr->type >= BPS_WIRE_N_TYPES)
		return false;
	if (hdr_bytes > BPS_WIRE_MAX_HDR ||
	    hdr_bytes <
	            (hdr->type == BPS_WIRE_PUSH ? BPS_WIRE_PUSH_HDR : BPS_WIRE_MIN_HDR))
		return false;
	return hdr->payload_bytes <= max_payload(hdr->type);
}

/* How much of a header the parts take that are whole, and known here. */
static uint32_t known_bytes(uint32_t hdr_bytes)
{
	if (hdr_bytes >= BPS_WIRE_FULL_HDR)
		return BPS_WIRE_FULL_HDR;
	return hdr_bytes >= BPS_WIRE_PUSH_HDR ? BPS_WIRE_PUSH_HDR : BPS_WIRE_MIN_HDR;
}

int bps_wire_decode(const uint8_t *buf, uint32_t bytes, struct bps_wire_hdr *ret_hdr,
                    uint32_t *ret_hdr_bytes)
{
	struct reader in = { buf + 5 };
	uint32_t hdr_bytes, known;
	int r;

	*ret_hdr = (struct bps_wire_hdr){ .version = BPS_WIRE_VERSION };
	r = probe(buf, bytes, &ret_hdr->version);
	if (r)
		return r;
	if (bytes < BPS_WIRE_MIN_HDR)
		return BPS_WIRE_E_SHORT;
	ret_hdr->type = (uint8_t)get(&in, 1);
	hdr_bytes = (uint32_t)get(&in, 2);
	decode_key(&in, ret_hdr);
	if (!in_range(ret_hdr, hdr_bytes))
		return -EBADMSG;
	known = known_bytes(hdr_bytes);
	if (bytes < known)
		return BPS_WIRE_E_SHORT;
	if (known >= BPS_WIRE_PUSH_HDR)
		decode_op(&in, ret_hdr);
	if (known >= BPS_WIRE_FULL_HDR)
		decode_dead(&in, ret_hdr);
	*ret_hdr_bytes = hdr_bytes;
	return 0;
}

/* A fixed-size text: cut where it is too long, the rest filled with NUL bytes. */
static void put_text(struct writer *out, const char *text, size_t chars)
{
	size_t length = strnlen(text, chars - 1);

	memcpy(out->at, text, length);
	memset(out->at + length, 0, chars - length);
	out->at += chars;
}

/* What is not printable ASCII comes back as '?': the text goes into messages. */
static void get_text(struct reader *in, char *ret_text, size_t chars)
{
	memset(ret_text, 0, chars);
	for (size_t i = 0; i + 1 < chars && in->at[i]; i++) {
		char c = (char)in->at[i];

		ret_text[i] = c < ' ' || c > '~' ? '?' : c;
	}
	in->at += chars;
}

enum { FAMILY_4 = 4, FAMILY_6 = 6 };

static void put_addr(struct writer *out, const struct bps_card_addr *addr)
{
	unsigned n_bits;
	const uint8_t *bytes = bps_addr_bytes(&addr->addr, &n_bits);

	put(out, n_bits == 32 ? FAMILY_4 : FAMILY_6, 1);
	put(out, addr->card, 1);
	put(out, bps_addr_port(&addr->addr), 2);
	memset(out->at, 0, 16);
	memcpy(out->at, bytes, n_bits / 8);
	out->at += 16;
}

/* Whether a server may be there. */
static bool is_plausible(const struct bps_addr *addr)
{
	const struct in6_addr *six = &addr->in6.sin6_addr;
	uint32_t four = ntohl(addr->in.sin_addr.s_addr);

	if (bps_addr_port(addr) == 0)
		return false;
	if (addr->sa.sa_family == AF_INET)
		return four >> 24 != 0 && four >> 24 != IN_LOOPBACKNET &&
		       four >> 16 != 0xa9fe && four >> 28 < 0xe;
	return !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_LOOPBACK(six) &&
	       !IN6_IS_ADDR_MULTICAST(six) && !IN6_IS_ADDR_LINKLOCAL(six) &&
	       !IN6_IS_ADDR_V4MAPPED(six);
}

static bool get_addr(struct reader *in, struct bps_card_addr *ret)
{
	uint64_t family = get(in, 1);

	memset(ret, 0, sizeof(*ret));
	ret->card = (uint32_t)get(in, 1);
	if (family == FAMILY_4) {
		ret->addr.sa.sa_family = AF_INET;
		ret->addr.bytes = sizeof(ret->addr.in);
		memcpy(&ret->addr.in.sin_addr, in->at + 2, 4);
	} else {
		ret->addr.sa.sa_family = AF_INET6;
		ret->addr.bytes = sizeof(ret->addr.in6);
		memcpy(&ret->addr.in6.sin6_addr, in->at + 2, 16);
	}
	bps_addr_set_port(&ret->addr, (uint16_t)get(in, 2));
	in->at += 16;
	return (family == FAMILY_4 || family == FAMILY_6) && is_plausible(&ret->addr);
}

/* What a WELCOME says of its server, in the @bytes that are left. */
static void get_server(struct reader *in, uint32_t bytes, struct bps_wire_hello *hello)
{
	uint32_t n;

	hello->server = 0;
	hello->n_addrs = 0;
	hello->left_bytes = 0;
	if (bytes < 9)
		return;
	hello->server = get(in, 8);
	n = (uint32_t)get(in, 1);
	if (n > BPS_WIRE_MAX_ADDRS || bytes - 9 < n * BPS_WIRE_ADDR_BYTES)
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (!get_addr(in, &hello->addrs[i]))
			return;
	}
	hello->n_addrs = n;
	if (bytes - 9 - n * BPS_WIRE_ADDR_BYTES >= 8)
		hello->left_bytes = get(in, 8);
}

uint32_t bps_wire_encode_hello(const struct bps_wire_hello *hello, uint8_t *buf)
{
	struct writer out = { buf };

	memcpy(out.at, hello->job, sizeof(hello->job));
	out.at += sizeof(hello->job);
	put(&out, hello->peer, 4);
	put(&out, hello->n_peers, 4);
	put(&out, hello->n_slots, 4);
	put(&out, hello->slot_bytes, 4);
	put(&out, hello->connection, 4);
	put_text(&out, hello->version, sizeof(hello->version));
	put_text(&out, hello->host, sizeof(hello->host));
	if (hello->server) {
		put(&out, hello->server, 8);
		put(&out, hello->n_addrs, 1);
		for (uint32_t i = 0; i < hello->n_addrs; i++)
			put_addr(&out, &hello->addrs[i]);
		put(&out, hello->left_bytes, 8);
	}
	return (uint32_t)(out.at - buf);
}

int bps_wire_decode_hello(const uint8_t *buf, uint32_t bytes,
                          struct bps_wire_hello *ret_hello)
{
	struct reader in = { buf };

	if (bytes < BPS_WIRE_HELLO_BYTES)
		return -EBADMSG;
	memcpy(ret_hello->job, in.at, sizeof(ret_hello->job));
	in.at += sizeof(ret_hello->job);
	ret_hello->peer = (uint32_t)get(&in, 4);
	ret_hello->n_peers = (uint32_t)get(&in, 4);
	ret_hello->n_slots = (uint32_t)get(&in, 4);
	ret_hello->slot_bytes = (uint32_t)get(&in, 4);
	ret_hello->connection = (uint32_t)get(&in, 4);
	get_text(&in, ret_hello->version, sizeof(ret_hello->version));
	get_text(&in, ret_hello->host, sizeof(ret_hello->host));
	get_server(&in, bytes - BPS_WIRE_HELLO_BYTES, ret_hello);
	return 0;
}
