/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the unit tests of the doctor share: the facts of a box, and what is found about
 * them.
 */
#pragma once

#include "tests/unit/base/unit.h"

#include <arpa/inet.h>

#include "check/doctor/impl.h"

/* A box that is fine: one card of 10 Gbit/s, a bridge that is off, and loopback. */
static struct bps_doctor_facts facts;
static char report[16384];

static inline struct bps_addr address(const char *text)
{
	struct bps_addr addr = { .bytes = sizeof(addr.in) };

	addr.in.sin_family = AF_INET;
	assert_int_equal(inet_pton(AF_INET, text, &addr.in.sin_addr), 1);
	return addr;
}

static inline struct bps_doctor_nic *add_nic(const char *name, const char *addr)
{
	struct bps_doctor_nic *nic = &facts.nics[facts.n_nics++];

	*nic = (struct bps_doctor_nic){
		.netif = { .addr = address(addr), .usable = true },
		.up = true,
	};
	(void)snprintf(nic->netif.name, sizeof(nic->netif.name), "%s", name);
	return nic;
}

static inline int set_up(void **state)
{
	struct bps_doctor_nic *nic;

	facts = (struct bps_doctor_facts){
		.host = "cpu3",
		.memlock_bytes = UINT64_MAX,
		.shm = true,
		.shm_free_bytes = UINT64_C(1) << 30,
		.n_online = 8,
		.n_usable = 8,
		.n_granted = UINT32_MAX,
		.own = { address("10.1.2.3") },
		.n_own = 1,
		.tcp_rmem = { 4096, 131072, 6291456 },
		.tcp_wmem = { 4096, 16384, 4194304 },
		.n_connections = 1,
	};
	nic = add_nic("eth0", "10.1.2.3");
	nic->hardware = true;
	nic->mbits = nic->can_mbits = 10000;
	nic = add_nic("docker0", "172.17.0.1");
	nic->netif.inner = true;
	nic->netif.usable = nic->up = false;
	add_nic("lo", "127.0.0.1")->netif.loopback = true;
	return 0;
}

/* Findings and report, whose line ends and indents are single blanks. */
static inline int examine(void)
{
	struct bps_doctor_report to = { .host = facts.host };
	size_t used = 0;

	to.out = fmemopen(report, sizeof(report), "w");
	assert_non_null(to.out);
	bps_doctor_run_checks(&facts, &to);
	assert_int_equal(fclose(to.out), 0);
	for (const char *at = report; *at; at++) {
		char c = *at == '\n' ? ' ' : *at;

		if (c != ' ' || (used && report[used - 1] != ' '))
			report[used++] = c;
	}
	report[used] = '\0';
	return to.n_findings;
}

/* One finding of this check, with these parts. */
static inline void assert_finding(const char *check, const char *found, const char *type)
{
	char head[128];

	(void)snprintf(head, sizeof(head), "cpu3, %s: ", check);
	assert_int_equal(examine(), 1);
	assert_memory_equal(report, head, strlen(head));
	assert_contains(report, found);
	assert_contains(report, " cost: ");
	assert_contains(report, " remedy: ");
	assert_contains(report, type);
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)
