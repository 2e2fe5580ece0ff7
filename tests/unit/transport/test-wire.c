/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "transport/wire.h"

static const struct bps_wire_hdr sample = {
	.type = BPS_WIRE_PUSH,
	.version = BPS_WIRE_VERSION,
	.payload_bytes = 0x01020304,
	.slot = 0x1112,
	.member = 0x1314,
	.group = 0x2122232425262728,
	.op = 0x3132333435363738,
	.part = 0x41424344,
	.peer = 0x1a1b1c1d,
	.n_parts = 0x51525354,
	.n_members = 0x8182,
	.root = 0xa1a2,
	.op_bytes = 0x6162636465666768,
	.dtype = 0x91,
	.redop = 0x92,
	.coll = 0x93,
	.priority = 0x94,
	.region = 0xc1c2,
	.acked = 0x3132333435363738 - 0xe1e2,
	.offset = 0xd1d2d3d4ull * 64,
	.dead_n = 0x0a0b0c0d,
	.dead_hash = 0xf1f2f3f4f5f6f7f8,
};

/* Written down here by hand, so that a change of the format cannot go unseen. */
#define FIRST_HEX(type, bytes)                                     \
	"5442505303" type bytes                                    \
	"00040302011211141328272625242322213837363534333231444342" \
	"411d1c1b1a"
#define SECOND_HEX "545352518281a2a1686766656463626191929394c2c1e2e1d4d3d2d1"
#define THIRD_HEX  "0d0c0b0af8f7f6f5f4f3f2f1"

static void assert_bytes(const struct bps_wire_hdr *hdr, const char *expected)
{
	uint8_t buf[BPS_WIRE_FULL_HDR];
	char hex[2 * BPS_WIRE_FULL_HDR + 1];
	uint32_t bytes = bps_wire_encode(hdr, buf);

	assert_int_equal(bytes, strlen(expected) / 2);
	assert_int_equal(bytes, bps_wire_hdr_bytes(hdr));
	for (uint32_t i = 0; i < bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", buf[i]);
	assert_string_equal(hex, expected);
}

static void test_bytes(void **state)
{
	struct bps_wire_hdr hdr = sample;

	assert_bytes(&hdr, FIRST_HEX("04", "50") SECOND_HEX THIRD_HEX);
	hdr.dead_n = 0;
	assert_bytes(&hdr, FIRST_HEX("04", "44") SECOND_HEX);
	hdr.type = BPS_WIRE_ANSWER;
	assert_bytes(&hdr, FIRST_HEX("05", "28"));
	hdr.dead_n = 1;
	assert_bytes(&hdr, FIRST_HEX("05", "28"));
}

/* What the other end makes of @hdr, by this file's own reading of the format. */
static struct bps_wire_hdr expected_of(const struct bps_wire_hdr *hdr)
{
	struct bps_wire_hdr want = {
		.type = hdr->type,
		.version = 3,
		.payload_bytes = hdr->payload_bytes,
		.slot = hdr->slot,
		.member = hdr->member,
		.group = hdr->group,
		.op = hdr->op,
		.part = hdr->part,
		.peer = hdr->peer,
	};

	if (hdr->type != BPS_WIRE_PUSH)
		return want;
	want = *hdr;
	want.version = 3;
	if (hdr->acked > hdr->op || hdr->op - hdr->acked > 65534)
		want.acked = 0;
	if (hdr->dead_n == 0)
		want.dead_hash = 0;
	return want;
}

static void assert_same(const struct bps_wire_hdr *a, const struct bps_wire_hdr *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
	assert_int_equal(a->slot, b->slot);
	assert_int_equal(a->member, b->member);
	assert_int_equal(a->group, b->group);
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->part, b->part);
	assert_int_equal(a->peer, b->peer);
	assert_int_equal(a->n_parts, b->n_parts);
	assert_int_equal(a->n_members, b->n_members);
	assert_int_equal(a->root, b->root);
	assert_int_equal(a->op_bytes, b->op_bytes);
	assert_int_equal(a->dtype, b->dtype);
	assert_int_equal(a->redop, b->redop);
	assert_int_equal(a->coll, b->coll);
	assert_int_equal(a->priority, b->priority);
	assert_int_equal(a->region, b->region);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->acked, b->acked);
	assert_int_equal(a->dead_n, b->dead_n);
	assert_int_equal(a->dead_hash, b->dead_hash);
}

static void round_trip(const struct bps_wire_hdr *hdr)
{
	struct bps_wire_hdr want = expected_of(hdr), back;
	uint8_t buf[BPS_WIRE_FULL_HDR + 1];
	uint32_t bytes, hdr_bytes = 0;

	/* Where it lies does not matter. */
	bytes = bps_wire_encode(hdr, buf + 1);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(bps_wire_decode(buf + 1, i, &back, &hdr_bytes),
		                 BPS_WIRE_E_SHORT);
	assert_int_equal(bps_wire_decode(buf + 1, bytes, &back, &hdr_bytes), 0);
	assert_int_equal(hdr_bytes, bytes);
	assert_same(&back, &want);
}

/* One of the bounds of what fits below @limit, or anything that does; @limit 0: 2^64. */
static uint64_t any(struct bps_prng *prng, uint64_t limit)
{
	uint64_t last = limit - 1;

	switch (bps_prng_below(prng, 4)) {
	case 0:
		return 0;
	case 1:
		return last;
	default:
		return limit ? bps_prng_below(prng, limit) : bps_prng_u64(prng);
	}
}

static struct bps_wire_hdr any_hdr(struct bps_prng *prng)
{
	static const uint64_t distances[] = { 0, 1, 65533, 65534, 65535, 65536 };
	struct bps_wire_hdr hdr = {
		.type = (uint8_t)(1 + bps_prng_below(prng, 10)),
		.slot = (uint32_t)any(prng, 1 << 16),
		.member = (uint16_t)any(prng, 1 << 16),
		.group = any(prng, 0),
		.op = any(prng, 0),
		.part = (uint32_t)any(prng, 1ull << 32),
		.peer = (uint32_t)any(prng, 1ull << 32),
		.n_parts = (uint32_t)any(prng, 1ull << 32),
		.n_members = (uint16_t)any(prng, 1 << 16),
		.root = (uint16_t)any(prng, 1 << 16),
		.op_bytes = any(prng, 0),
		.dtype = (uint8_t)any(prng, 256),
		.redop = (uint8_t)any(prng, 256),
		.coll = (uint8_t)any(prng, 256),
		.priority = (uint8_t)any(prng, 256),
		.region = (uint32_t)any(prng, 1 << 16),
		.offset = 64 * any(prng, 1ull << 32),
		.dead_n = (uint32_t)any(prng, 1ull << 32),
		.dead_hash = any(prng, 0),
	};
	bool data = hdr.type == BPS_WIRE_PUSH || hdr.type == BPS_WIRE_ANSWER;

	hdr.payload_bytes = (uint32_t)any(prng, data ? (64 << 20) + 1 : 1025);
	hdr.acked = hdr.op - (bps_prng_below(prng, 2) ? distances[bps_prng_below(prng, 6)]
	                                              : any(prng, 0));
	return hdr;
}

static void test_round_trip(void **state)
{
	struct bps_prng prng;

	round_trip(&sample);
	bps_prng_init(&prng, 1);
	for (int i = 0; i < 20000; i++) {
		struct bps_wire_hdr hdr = any_hdr(&prng);

		round_trip(&hdr);
	}
}

/* @hdr as a peer sends it whose headers have @hdr_bytes. */
static int decode_as(const struct bps_wire_hdr *hdr, uint32_t hdr_bytes,
                     struct bps_wire_hdr *ret_hdr)
{
	uint8_t buf[BPS_WIRE_FULL_HDR + 1];
	uint32_t known = bps_wire_encode(&sample, buf), got = 0;
	int r;

	bps_wire_encode(hdr, buf);
	buf[6] = (uint8_t)hdr_bytes;
	buf[7] = (uint8_t)(hdr_bytes >> 8);
	r = bps_wire_decode(buf, hdr_bytes < known ? hdr_bytes : known, ret_hdr, &got);
	if (r == 0)
		assert_int_equal(got, hdr_bytes);
	return r;
}

/* What is not there, or in part, is 0; what is beyond the parts is left out. */
static void test_lengths(void **state)
{
	struct bps_wire_hdr push = sample, answer = sample, want, back;

	answer.type = BPS_WIRE_ANSWER;
	for (uint32_t bytes = 40; bytes <= BPS_WIRE_MAX_HDR; bytes++) {
		want = sample;
		if (bytes < 80)
			want.dead_n = 0;
		want = expected_of(&want);
		assert_int_equal(decode_as(&push, bytes, &back),
		                 bytes < 68 ? -EBADMSG : 0);
		if (bytes >= 68)
			assert_same(&back, &want);
		want.type = BPS_WIRE_ANSWER;
		if (bytes < 68)
			want = expected_of(&want);
		assert_int_equal(decode_as(&answer, bytes, &back), 0);
		assert_same(&back, &want);
	}
	assert_int_equal(decode_as(&push, BPS_WIRE_MAX_HDR + 1, &back), -EBADMSG);
	assert_int_equal(decode_as(&answer, BPS_WIRE_MAX_HDR + 1, &back), -EBADMSG);
	assert_int_equal(decode_as(&answer, 65535, &back), -EBADMSG);
}

/* The header @sample with the byte at @at set to @value. */
static int decode_with(int at, uint8_t value, struct bps_wire_hdr *ret_hdr)
{
	uint8_t buf[BPS_WIRE_FULL_HDR];
	uint32_t hdr_bytes;

	bps_wire_encode(&sample, buf);
	buf[at] = value;
	return bps_wire_decode(buf, sizeof(buf), ret_hdr, &hdr_bytes);
}

static void test_rejects(void **state)
{
	struct bps_wire_hdr hdr;

	for (int i = 0; i < 4; i++)
		assert_int_equal(decode_with(i, 'x', &hdr), BPS_WIRE_E_MAGIC);
	assert_int_equal(decode_with(4, 1, &hdr), BPS_WIRE_E_VERSION);
	assert_int_equal(hdr.version, 1);
	assert_int_equal(decode_with(4, 0, &hdr), BPS_WIRE_E_VERSION);
	assert_int_equal(decode_with(5, 0, &hdr), -EBADMSG);
	assert_int_equal(decode_with(5, BPS_WIRE_N_TYPES, &hdr), -EBADMSG);
	assert_int_equal(decode_with(5, 255, &hdr), -EBADMSG);
	assert_int_equal(decode_with(6, 0, &hdr), -EBADMSG);
	assert_int_equal(decode_with(6, 39, &hdr), -EBADMSG);
	/* A payload of more than 64 MiB. */
	assert_int_equal(decode_with(11, 0x04, &hdr), -EBADMSG);
	assert_int_equal(decode_with(11, 0xff, &hdr), -EBADMSG);
}

static int decode_type(uint8_t type, uint32_t payload_bytes)
{
	struct bps_wire_hdr hdr = { .type = type, .payload_bytes = payload_bytes };
	uint8_t buf[BPS_WIRE_FULL_HDR];
	uint32_t bytes = bps_wire_encode(&hdr, buf), hdr_bytes;

	return bps_wire_decode(buf, bytes, &hdr, &hdr_bytes);
}

static void test_payload_bounds(void **state)
{
	for (uint8_t type = 1; type < BPS_WIRE_N_TYPES; type++) {
		bool data = type == BPS_WIRE_PUSH || type == BPS_WIRE_ANSWER;
		bool greets = type == BPS_WIRE_HELLO || type == BPS_WIRE_WELCOME;
		uint32_t max = data ? 64u << 20 : greets ? 14u << 10 : 1024;

		assert_int_equal(decode_type(type, 0), 0);
		assert_int_equal(decode_type(type, max), 0);
		assert_int_equal(decode_type(type, max + 1), -EBADMSG);
		assert_int_equal(decode_type(type, UINT32_MAX), -EBADMSG);
	}
}

static int decode_first(const char *text, struct bps_wire_hdr *ret_hdr)
{
	uint32_t hdr_bytes;

	return bps_wire_decode((const uint8_t *)text, (uint32_t)strlen(text), ret_hdr,
	                       &hdr_bytes);
}

/* A few bytes are enough to tell a stranger. */
static void test_first_bytes(void **state)
{
	struct bps_wire_hdr hdr;

	assert_int_equal(decode_first("", &hdr), BPS_WIRE_E_SHORT);
	assert_int_equal(decode_first("T", &hdr), BPS_WIRE_E_SHORT);
	assert_int_equal(decode_first("TBPS", &hdr), BPS_WIRE_E_SHORT);
	assert_int_equal(decode_first("TBPS\3", &hdr), BPS_WIRE_E_SHORT);
	assert_int_equal(decode_first("G", &hdr), BPS_WIRE_E_MAGIC);
	assert_int_equal(decode_first("TBPX", &hdr), BPS_WIRE_E_MAGIC);
	assert_int_equal(decode_first("TBPS\7", &hdr), BPS_WIRE_E_VERSION);
	assert_int_equal(hdr.version, 7);
}

static void test_hello(void **state)
{
	struct bps_wire_hello hello = { .peer = 3, .n_peers = 8, .n_slots = 4 }, back;
	uint8_t buf[BPS_WIRE_HELLO_BYTES + 9];

	hello.slot_bytes = 32768;
	memcpy(hello.job, "0123456789abcdef", 16);
	strcpy(hello.version, "0.1.0");
	strcpy(hello.host, "cpu3");
	bps_wire_encode_hello(&hello, buf);
	assert_int_equal(bps_wire_decode_hello(buf, BPS_WIRE_HELLO_BYTES, &back), 0);
	assert_memory_equal(back.job, hello.job, 16);
	assert_int_equal(back.peer, 3);
	assert_int_equal(back.n_peers, 8);
	assert_int_equal(back.n_slots, 4);
	assert_int_equal(back.slot_bytes, 32768);
	assert_string_equal(back.version, "0.1.0");
	assert_string_equal(back.host, "cpu3");
	/* A newer peer's may be longer; nobody's is shorter. */
	assert_int_equal(bps_wire_decode_hello(buf, sizeof(buf), &back), 0);
	for (uint32_t bytes = 0; bytes < BPS_WIRE_HELLO_BYTES; bytes++)
		assert_int_equal(bps_wire_decode_hello(buf, bytes, &back), -EBADMSG);
}

static struct bps_card_addr make_addr(int family, uint16_t port, uint32_t card)
{
	struct bps_card_addr addr = { .card = card };

	addr.addr.sa.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		addr.addr.bytes = sizeof(addr.addr.in);
		addr.addr.in.sin_addr.s_addr = htonl(0x0a4d0003);
	} else {
		addr.addr.bytes = sizeof(addr.addr.in6);
		addr.addr.in6.sin6_addr.s6_addr[0] = 0xfd;
		addr.addr.in6.sin6_addr.s6_addr[15] = 3;
	}
	bps_addr_set_port(&addr.addr, port);
	return addr;
}

/* Behind the 116 bytes: 8 of the server's number, one of how many, 20 an address, 8 of
 * what memory is left. */
static void test_welcome(void **state)
{
	struct bps_wire_hello welcome = { .server = 0x1122334455667788,
		                          .n_addrs = 2,
		                          .left_bytes = 0xa1a2a3a4a5a6a7a8 };
	struct bps_wire_hello back;
	uint8_t buf[BPS_WIRE_HELLO_MOST];

	welcome.addrs[0] = make_addr(AF_INET, 7000, 1);
	welcome.addrs[1] = make_addr(AF_INET6, 40000, 255);
	assert_int_equal(BPS_WIRE_HELLO_MOST, 116 + 9 + 16 * 20 + 8);
	assert_int_equal(bps_wire_encode_hello(&welcome, buf), 116 + 9 + 2 * 20 + 8);
	assert_int_equal(buf[116], 0x88);
	assert_int_equal(buf[124], 2);
	assert_memory_equal(buf + 125, "\4\1\x58\x1b\x0a\x4d\0\3", 8);
	assert_int_equal(buf[165], 0xa8);
	assert_int_equal(bps_wire_decode_hello(buf, 173, &back), 0);
	assert_true(back.left_bytes == welcome.left_bytes);
	assert_int_equal(bps_wire_decode_hello(buf, 172, &back), 0);
	assert_true(back.left_bytes == 0);
	assert_true(back.server == welcome.server);
	assert_int_equal(back.n_addrs, 2);
	for (int i = 0; i < 2; i++) {
		assert_true(bps_addr_equal(&back.addrs[i].addr, &welcome.addrs[i].addr));
		assert_int_equal(back.addrs[i].card, welcome.addrs[i].card);
	}
	/* More is a newer peer's; less is none at all. */
	assert_int_equal(bps_wire_decode_hello(buf, sizeof(buf), &back), 0);
	assert_int_equal(back.n_addrs, 2);
	for (uint32_t bytes = 116; bytes < 165; bytes++) {
		assert_int_equal(bps_wire_decode_hello(buf, bytes, &back), 0);
		assert_int_equal(back.n_addrs, 0);
		assert_int_equal(back.server != 0, bytes >= 125);
	}
}

/* One byte of a list is wrong: there is no list. */
static void test_welcome_hostile(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t value;
	} cases[] = {
		{ 124, 17 },               /* too many */
		{ 124, 255 },  { 125, 0 }, /* families that there are not */
		{ 125, 5 },    { 129, 0 }, /* this network */
		{ 129, 127 },              /* loopback */
		{ 129, 224 },              /* multicast */
		{ 129, 255 },              /* broadcast */
		{ 149, 0xff },             /* multicast */
		{ 165, 9 },
	};
	struct bps_wire_hello welcome = { .server = 1, .n_addrs = 16 }, back;
	uint8_t buf[BPS_WIRE_HELLO_MOST], bad[BPS_WIRE_HELLO_MOST];

	for (uint32_t i = 0; i < 16; i++)
		welcome.addrs[i] = make_addr(i % 2 ? AF_INET6 : AF_INET, 1, i);
	assert_int_equal(bps_wire_encode_hello(&welcome, buf), sizeof(buf));
	assert_int_equal(bps_wire_decode_hello(buf, sizeof(buf), &back), 0);
	assert_int_equal(back.n_addrs, 16);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(bad, buf, sizeof(buf));
		bad[cases[i].at] = cases[i].value;
		assert_int_equal(bps_wire_decode_hello(bad, sizeof(bad), &back), 0);
		if (back.n_addrs != 0)
			fail_msg("case %zu", i);
	}
	memcpy(bad, buf, sizeof(buf));
	bad[127] = 0; /* no port */
	assert_int_equal(bps_wire_decode_hello(bad, sizeof(bad), &back), 0);
	assert_int_equal(back.n_addrs, 0);
}

static void test_hello_text(void **state)
{
	struct bps_wire_hello hello = { 0 }, back;
	uint8_t buf[BPS_WIRE_HELLO_BYTES];

	memset(hello.version, 'v', sizeof(hello.version));
	memset(hello.host, 'h', sizeof(hello.host));
	bps_wire_encode_hello(&hello, buf);
	memset(buf, 0xff, sizeof(buf));
	assert_int_equal(bps_wire_decode_hello(buf, sizeof(buf), &back), 0);
	assert_int_equal(strlen(back.version), BPS_WIRE_VERSION_CHARS - 1);
	assert_int_equal(strlen(back.host), BPS_WIRE_HOST_CHARS - 1);
	assert_int_equal(strspn(back.host, "?"), BPS_WIRE_HOST_CHARS - 1);
	memcpy(buf + BPS_WIRE_HELLO_BYTES - BPS_WIRE_HOST_CHARS, "a\n\033[1mb\0c", 10);
	assert_int_equal(bps_wire_decode_hello(buf, sizeof(buf), &back), 0);
	assert_string_equal(back.host, "a??[1mb");
}

/* Any bytes behind a good start: what is taken is within bounds, and says itself again.
 */
static void test_random(void **state)
{
	uint8_t buf[BPS_WIRE_FULL_HDR], again[BPS_WIRE_FULL_HDR];
	struct bps_prng prng;
	int n_pushes = 0;

	bps_prng_init(&prng, 1);
	for (int i = 0; i < 200000; i++) {
		struct bps_wire_hdr hdr;
		uint32_t hdr_bytes, bytes;

		bps_prng_fill(&prng, buf, sizeof(buf));
		memcpy(buf, "TBPS\3", 5);
		buf[5] %= 16;
		buf[7] %= 4;
		buf[11] %= 8;
		if (bps_wire_decode(buf, sizeof(buf), &hdr, &hdr_bytes) != 0)
			continue;
		assert_in_range(hdr_bytes, BPS_WIRE_MIN_HDR, BPS_WIRE_MAX_HDR);
		assert_true(hdr.payload_bytes <= BPS_WIRE_MAX_PAYLOAD);
		bytes = bps_wire_encode(&hdr, again);
		assert_true(bytes <= hdr_bytes);
		memcpy(again + 6, buf + 6, 2);
		assert_memory_equal(buf, again, bytes);
		n_pushes += hdr.type == BPS_WIRE_PUSH;
	}
	assert_true(n_pushes > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_rejects),
		cmocka_unit_test(test_payload_bounds),
		cmocka_unit_test(test_first_bytes),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_welcome),
		cmocka_unit_test(test_welcome_hostile),
		cmocka_unit_test(test_hello_text),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
