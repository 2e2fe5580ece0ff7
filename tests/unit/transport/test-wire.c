/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "transport/wire.h"

static const struct bps_wire_hdr sample = {
	.type = BPS_WIRE_PUSH,
	.version = BPS_WIRE_VERSION,
	.payload_bytes = 0x01020304,
	.slot = 0x11121314,
	.group = 0x2122232425262728,
	.op = 0x3132333435363738,
	.part = 0x41424344,
	.n_parts = 0x51525354,
	.op_bytes = 0x6162636465666768,
	.member = 0x7172,
	.n_members = 0x8182,
	.dtype = 0x91,
	.redop = 0x92,
	.coll = 0x93,
	.priority = 0x94,
	.root = 0xa1a2,
	.flags = 0xb1b2,
	.region = 0xc1c2c3c4,
	.offset = 0xd1d2d3d4d5d6d7d8,
	.acked = 0xe1e2e3e4e5e6e7e8,
	.dead_hash = 0xf1f2f3f4f5f6f7f8,
	.dead_n = 0x0a0b0c0d,
	.peer = 0x1a1b1c1d,
};

/* Written down here by hand, so that a change of the format cannot go unseen. */
static const char sample_hex[] = "54425053010460000403020114131211"
				 "28272625242322213837363534333231"
				 "44434241545352516867666564636261"
				 "7271828191929394a2a1b2b1c4c3c2c1"
				 "d8d7d6d5d4d3d2d1e8e7e6e5e4e3e2e1"
				 "f8f7f6f5f4f3f2f10d0c0b0a1d1c1b1a";

static void test_bytes(void **state)
{
	uint8_t buf[BPS_WIRE_HDR_BYTES];
	char hex[2 * BPS_WIRE_HDR_BYTES + 1];

	bps_wire_encode(&sample, buf);
	for (size_t i = 0; i < sizeof(buf); i++)
		snprintf(hex + 2 * i, 3, "%02x", buf[i]);
	assert_string_equal(hex, sample_hex);
}

static void assert_same(const struct bps_wire_hdr *a, const struct bps_wire_hdr *b)
{
	uint8_t bytes_a[BPS_WIRE_HDR_BYTES], bytes_b[BPS_WIRE_HDR_BYTES];

	bps_wire_encode(a, bytes_a);
	bps_wire_encode(b, bytes_b);
	assert_memory_equal(bytes_a, bytes_b, sizeof(bytes_a));
}

static void test_round_trip(void **state)
{
	uint8_t buf[BPS_WIRE_HDR_BYTES];
	struct bps_wire_hdr hdr;
	uint32_t hdr_bytes = 0;

	bps_wire_encode(&sample, buf);
	assert_int_equal(bps_wire_decode(buf, &hdr, &hdr_bytes), 0);
	assert_int_equal(hdr_bytes, BPS_WIRE_HDR_BYTES);
	assert_int_equal(hdr.version, BPS_WIRE_VERSION);
	assert_same(&hdr, &sample);
}

static void test_unaligned(void **state)
{
	uint8_t buf[BPS_WIRE_HDR_BYTES + 1];
	struct bps_wire_hdr hdr;
	uint32_t hdr_bytes;

	bps_wire_encode(&sample, buf + 1);
	assert_int_equal(bps_wire_decode(buf + 1, &hdr, &hdr_bytes), 0);
	assert_same(&hdr, &sample);
}

/* The header @sample with the byte at @at set to @value. */
static int decode_with(int at, uint8_t value, struct bps_wire_hdr *ret_hdr)
{
	uint8_t buf[BPS_WIRE_HDR_BYTES];
	uint32_t hdr_bytes = 0;
	int r;

	bps_wire_encode(&sample, buf);
	buf[at] = value;
	r = bps_wire_decode(buf, ret_hdr, &hdr_bytes);
	if (r == 0)
		assert_in_range(hdr_bytes, BPS_WIRE_HDR_BYTES, BPS_WIRE_MAX_HDR);
	return r;
}

static void test_rejects(void **state)
{
	struct bps_wire_hdr hdr;

	for (int i = 0; i < 4; i++)
		assert_int_equal(decode_with(i, 'x', &hdr), BPS_WIRE_E_MAGIC);
	assert_int_equal(decode_with(4, 9, &hdr), BPS_WIRE_E_VERSION);
	assert_int_equal(hdr.version, 9);
	assert_int_equal(decode_with(4, 0, &hdr), BPS_WIRE_E_VERSION);
	assert_int_equal(decode_with(5, 0, &hdr), -EBADMSG);
	assert_int_equal(decode_with(5, BPS_WIRE_N_TYPES, &hdr), -EBADMSG);
	assert_int_equal(decode_with(5, 255, &hdr), -EBADMSG);
	/* A header of 95, of 97, of 352 and of 608 bytes. */
	assert_int_equal(decode_with(6, 95, &hdr), -EBADMSG);
	assert_int_equal(decode_with(6, 97, &hdr), 0);
	assert_int_equal(decode_with(7, 1, &hdr), 0);
	assert_int_equal(decode_with(7, 2, &hdr), -EBADMSG);
	assert_int_equal(decode_with(7, 255, &hdr), -EBADMSG);
	/* A payload of more than 64 MiB. */
	assert_int_equal(decode_with(11, 0x04, &hdr), -EBADMSG);
	assert_int_equal(decode_with(11, 0xff, &hdr), -EBADMSG);
}

static int decode_type(uint8_t type, uint32_t payload_bytes)
{
	struct bps_wire_hdr hdr = { .type = type, .payload_bytes = payload_bytes };
	uint8_t buf[BPS_WIRE_HDR_BYTES];
	uint32_t hdr_bytes;

	bps_wire_encode(&hdr, buf);
	return bps_wire_decode(buf, &hdr, &hdr_bytes);
}

static void test_payload_bounds(void **state)
{
	for (uint8_t type = 1; type < BPS_WIRE_N_TYPES; type++) {
		bool data = type == BPS_WIRE_PUSH || type == BPS_WIRE_ANSWER;
		uint32_t max = data ? BPS_WIRE_MAX_PAYLOAD : BPS_WIRE_CTL_PAYLOAD;

		assert_int_equal(decode_type(type, 0), 0);
		assert_int_equal(decode_type(type, max), 0);
		assert_int_equal(decode_type(type, max + 1), -EBADMSG);
		assert_int_equal(decode_type(type, UINT32_MAX), -EBADMSG);
	}
}

static void test_probe(void **state)
{
	uint8_t version = 0;

	assert_int_equal(bps_wire_probe((const uint8_t *)"", 0, &version), 0);
	assert_int_equal(bps_wire_probe((const uint8_t *)"T", 1, &version), 0);
	assert_int_equal(bps_wire_probe((const uint8_t *)"TBPS", 4, &version), 0);
	assert_int_equal(bps_wire_probe((const uint8_t *)"TBPS\1", 5, &version), 0);
	assert_int_equal(bps_wire_probe((const uint8_t *)"G", 1, &version),
	                 BPS_WIRE_E_MAGIC);
	assert_int_equal(bps_wire_probe((const uint8_t *)"TBPX", 4, &version),
	                 BPS_WIRE_E_MAGIC);
	assert_int_equal(bps_wire_probe((const uint8_t *)"TBPS\7", 5, &version),
	                 BPS_WIRE_E_VERSION);
	assert_int_equal(version, 7);
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

static void test_random(void **state)
{
	struct bps_prng prng;
	uint8_t buf[BPS_WIRE_HDR_BYTES], again[BPS_WIRE_HDR_BYTES];

	bps_prng_init(&prng, 1);
	for (int i = 0; i < 200000; i++) {
		struct bps_wire_hdr hdr;
		uint32_t hdr_bytes = BPS_WIRE_HDR_BYTES;

		bps_prng_fill(&prng, buf, sizeof(buf));
		memcpy(buf, "TBPS\1", 5);
		buf[5] %= 16;
		buf[7] %= 4;
		buf[11] %= 8;
		if (bps_wire_decode(buf, &hdr, &hdr_bytes) != 0)
			continue;
		assert_in_range(hdr_bytes, BPS_WIRE_HDR_BYTES, BPS_WIRE_MAX_HDR);
		assert_true(hdr.payload_bytes <= BPS_WIRE_MAX_PAYLOAD);
		bps_wire_encode(&hdr, again);
		memcpy(again + 6, buf + 6, 2);
		assert_memory_equal(buf, again, sizeof(buf));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),          cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_unaligned),      cmocka_unit_test(test_rejects),
		cmocka_unit_test(test_payload_bounds), cmocka_unit_test(test_probe),
		cmocka_unit_test(test_hello),          cmocka_unit_test(test_hello_text),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
