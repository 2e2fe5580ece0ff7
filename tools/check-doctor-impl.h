/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the doctor: facts are collected first, then every check looks at them and
 * reports. Checks read nothing but the facts, so tests make up their own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/hostlist.h"
#include "transport/addr.h"
#include "transport/netif.h"

/* -- facts -- */

/* One address of an interface. */
struct bps_doctor_nic {
	struct bps_netif netif;
	bool up;       /* switched on, with a cable or without */
	bool hardware; /* a device stands behind it */
	bool half_duplex;
	uint32_t mbits;     /* negotiated; 0: unknown, or made up by a virtual card */
	uint32_t can_mbits; /* the most that the card can; 0: unknown */
};

enum bps_doctor_answer {
	BPS_DOCTOR_FINE,
	BPS_DOCTOR_NO_NAME,     /* detail: the resolver's reason */
	BPS_DOCTOR_REFUSED,     /* the connection */
	BPS_DOCTOR_TIMED_OUT,   /* likewise */
	BPS_DOCTOR_UNREACHABLE, /* detail: the kernel's reason */
	BPS_DOCTOR_SILENT,      /* connected, and then nothing */
	BPS_DOCTOR_FOREIGN,     /* another program; detail: what it did */
	BPS_DOCTOR_PROTOCOL,    /* another version's server; detail: which */
	BPS_DOCTOR_SOFTWARE,    /* the same protocol, another version; detail: which */
	BPS_DOCTOR_REJECTS,     /* a server that takes no jobs; detail: why */
	BPS_DOCTOR_N_ANSWERS
};

struct bps_doctor_server {
	char name[264]; /* as BPSMPI_SERVERS says it, with the port */
	uint16_t port;
	enum bps_doctor_answer answer;
	char detail[256]; /* printable; "" where the answer has none */
};

struct bps_doctor_facts {
	char host[65];
	/* Memory */
	uint64_t memlock_bytes; /* UINT64_MAX: no limit */
	char verbs[64];         /* the first verbs device; "": there is none */
	bool shm;               /* there is a /dev/shm */
	uint64_t shm_free_bytes;
	/* CPUs: of the box, of this process, and whose time control groups grant */
	uint32_t n_online, n_usable;
	uint32_t n_granted; /* UINT32_MAX: no limit */
	/* Network */
	struct bps_doctor_nic nics[BPS_NETIF_MAX]; /* the best first */
	int n_nics;
	struct bps_addr own[8]; /* what the host's own name stands for */
	int n_own;
	char own_why[160];    /* why n_own is 0 */
	uint64_t tcp_rmem[3]; /* least, first and most bytes; 0: unknown */
	uint64_t tcp_wmem[3]; /* likewise */
	/* Configuration */
	char *variables;                   /* owned; lines on BPSMPI_* variables, or "" */
	char servers_wrong[512];           /* why BPSMPI_SERVERS cannot be read; "" */
	struct bps_doctor_server *servers; /* owned */
	uint32_t n_servers;
};

/**
 * bps_doctor_collect() - fill in @ret_facts from the running system.
 * @env: as environ, borrowed during the call
 *
 * What cannot be found out is left as if nothing were wrong with it. The caller owns what
 * the facts own until bps_doctor_facts_deinit(), on failure too.
 * Return: 0 or a negative errno (logged): out of memory or descriptors.
 */
int bps_doctor_collect(char *const *env, struct bps_doctor_facts *ret_facts);
void bps_doctor_facts_deinit(struct bps_doctor_facts *facts);

/**
 * bps_doctor_probe() - connect to each server, say HELLO, wait for what it says, and
 * leave: fills in answer and detail of each. Blocks; at most 64 sockets at once.
 * @servers: name and port are there; @hosts: what to look up, as many
 * Return: 0 or -ENOMEM; nothing is logged.
 */
int bps_doctor_probe(struct bps_doctor_server *servers, const struct bps_host *hosts,
                     uint32_t n_servers);

/* -- reports -- */

struct bps_doctor_report {
	FILE *out; /* borrowed */
	const char *host;
	const char *check; /* whose turn it is */
	int n_findings;
};

/* A finding is what was found, then what it costs, then the remedy, then maybe lines to
 * type. */
void bps_doctor_found(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_cost(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_remedy(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_type(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * bps_doctor_examine() - run all checks on @facts and write what they find to @out.
 * Return: the number of findings.
 */
int bps_doctor_examine(const struct bps_doctor_facts *facts, FILE *out);

/* -- checks -- */

typedef void (*bps_doctor_check_fn)(const struct bps_doctor_facts *facts,
                                    struct bps_doctor_report *report);

void bps_doctor_check_memlock(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
void bps_doctor_check_shm(const struct bps_doctor_facts *facts,
                          struct bps_doctor_report *report);
void bps_doctor_check_cpus(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report);
void bps_doctor_check_quota(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);
void bps_doctor_check_variables(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report);
void bps_doctor_check_down(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report);
void bps_doctor_check_speed(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);
void bps_doctor_check_duplex(const struct bps_doctor_facts *facts,
                             struct bps_doctor_report *report);
void bps_doctor_check_bridges(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
void bps_doctor_check_name(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report);
void bps_doctor_check_buffers(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
void bps_doctor_check_servers(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
