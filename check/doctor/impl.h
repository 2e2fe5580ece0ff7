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
#include "transport/wire.h"

/* -- facts -- */

/* One address of an interface. */
struct bps_doctor_nic {
	struct bps_netif netif;
	bool up;       /* switched on, with a cable or without */
	bool hardware; /* a device stands behind it */
	bool half_duplex;
	bool left_out;      /* BPSMPI_INTERFACE names others */
	bool apart;         /* no server of BPSMPI_SERVERS is reached by it */
	uint32_t mbits;     /* negotiated; 0: unknown, or made up by a virtual card */
	uint32_t can_mbits; /* the most that the card can; 0: unknown */
	uint32_t mtu;       /* 0: unknown */
	/* Of an IPv4 address: its network, and what the kernel lets in and says there. */
	uint32_t prefix_bits;        /* 0: unknown */
	char leaves_by[IF_NAMESIZE]; /* what goes from here to its network; "": unknown */
	uint32_t rp_filter;          /* 1: strict */
	bool arp_filter;             /* answers only for what would leave by it */
	bool arp_ignore;             /* answers only for its own addresses */
};

enum bps_doctor_port_state {
	BPS_DOCTOR_PORT_DOWN = 1, /* the kernel's numbers */
	BPS_DOCTOR_PORT_INIT,
	BPS_DOCTOR_PORT_ARMED,
	BPS_DOCTOR_PORT_ACTIVE,
};

/* One port of an RDMA device. */
struct bps_doctor_port {
	char device[64];
	uint32_t number;
	enum bps_doctor_port_state state;
	char link[32];            /* what the kernel says of the cable: "Polling"; "" */
	char netdev[IF_NAMESIZE]; /* of Ethernet; "": unknown, or none */
	bool has_gid;
};

#define BPS_DOCTOR_MAX_PORTS 64

/* An entry of LD_PRELOAD. */
struct bps_doctor_preload {
	char name[256];
	char why[128];    /* it cannot be used; "": it can */
	char version[32]; /* of bytepsmpi, if it is that library; "" */
};

#define BPS_DOCTOR_MAX_PRELOADS 16

enum bps_doctor_answer {
	BPS_DOCTOR_FINE,
	BPS_DOCTOR_NO_NAME,     /* detail: the resolver's reason */
	BPS_DOCTOR_REFUSED,     /* the connection */
	BPS_DOCTOR_TIMED_OUT,   /* likewise */
	BPS_DOCTOR_UNREACHABLE, /* detail: the kernel's reason */
	BPS_DOCTOR_SILENT,      /* connected, and then nothing */
	BPS_DOCTOR_STUCK,       /* connected, and what is sent does not arrive */
	BPS_DOCTOR_FOREIGN,     /* another program; detail: what it did */
	BPS_DOCTOR_PROTOCOL,    /* another version's server; detail: which */
	BPS_DOCTOR_SOFTWARE,    /* the same protocol, another version; detail: which */
	BPS_DOCTOR_REJECTS,     /* a server that takes no jobs; detail: why */
	BPS_DOCTOR_N_ANSWERS
};

struct bps_doctor_server {
	char name[264]; /* as BPSMPI_SERVERS says it, with the port */
	uint16_t port;
	const struct bps_addr *at; /* where to try; borrowed. NULL: by its name */
	uint32_t n_at;             /* at most 8 */
	enum bps_doctor_answer answer;
	char detail[256];       /* printable; "" where the answer has none */
	uint64_t round_trip_ns; /* from HELLO to WELCOME; 0: none came */
	uint64_t id;         /* which server it is, by its WELCOME; 0: it did not say */
	bool reached;        /* another host of the job reaches it */
	uint64_t left_bytes; /* of its memory, for windows; 0: it did not say */
	uint32_t back; /* so many places before it is one on its machine; 0: none is known
	                */
	bool here;     /* it is on this machine */
};

/* Where a server is, by its WELCOME. */
struct bps_doctor_place {
	struct bps_addr at; /* where it answered; bytes 0: it did not */
	char host[BPS_WIRE_HOST_CHARS];
	uint32_t n_addrs;
	struct bps_card_addr addrs[BPS_WIRE_MAX_ADDRS]; /* where else it listens, too */
};

struct bps_doctor_facts {
	char host[65];
	bool no_sysfs;
	/* Memory */
	uint64_t memlock_bytes; /* UINT64_MAX: no limit */
	bool shm;               /* there is a /dev/shm */
	uint64_t shm_free_bytes;
	bool no_huge_pages; /* the kernel gives none to any program */
	/* RDMA */
	struct bps_doctor_port ports[BPS_DOCTOR_MAX_PORTS]; /* a device's together */
	uint32_t n_ports;
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
	struct bps_doctor_preload preloads[BPS_DOCTOR_MAX_PRELOADS];
	uint32_t n_preloads;
	uint32_t n_connections; /* to all servers together, at least; 1 or more */
	char *variables;        /* owned; lines on what is wrong with variables, or "" */
	char *values;           /* owned; those on values that keep jobs native */
	char *readings; /* owned; lines on values that keep those of several boxes so */
	char interface_wrong[1024];        /* why BPSMPI_INTERFACE is none; "" */
	char servers_wrong[512];           /* why BPSMPI_SERVERS cannot be read; "" */
	struct bps_doctor_server *servers; /* owned */
	uint32_t n_servers;
};

/* What rules a job, on all of its boxes; all borrowed. */
struct bps_doctor_job {
	const char *interface;          /* BPSMPI_INTERFACE */
	const struct bps_host *servers; /* [n_servers] of BPSMPI_SERVERS */
	uint32_t n_servers;
	uint32_t connections; /* BPSMPI_CONNECTIONS; 0: auto */
};

/**
 * bps_doctor_collect() - fill in @ret_facts from the running system.
 * @env: as environ, borrowed during the call
 * @job: counts in the place of these variables of @env, and no server is asked: n_servers
 * is 0 then; NULL: there is no job
 *
 * What cannot be found out is left as if nothing were wrong with it. The caller owns what
 * the facts own until bps_doctor_facts_deinit(), on failure too.
 * Return: 0 or a negative errno (logged): out of memory or descriptors.
 */
int bps_doctor_collect(char *const *env, const struct bps_doctor_job *job,
                       struct bps_doctor_facts *ret_facts);
void bps_doctor_facts_deinit(struct bps_doctor_facts *facts);

/** bps_doctor_collect_ports() - @sysfs: "/sys/class/infiniband". */
void bps_doctor_collect_ports(const char *sysfs, struct bps_doctor_facts *facts);

/** bps_doctor_ask_driver() - half_duplex and can_mbits, where the driver tells them.
 * @fd: any socket */
void bps_doctor_ask_driver(int fd, struct bps_doctor_nic *nic);

/** bps_doctor_most_mbits() - the fastest of the kernel's link modes whose bits are set in
 * @n_words words; 0: none. */
uint32_t bps_doctor_most_mbits(const uint32_t *modes, uint32_t n_words);

/** bps_doctor_collect_routes() - the parts of nics that are about IPv4's networks. */
void bps_doctor_collect_routes(struct bps_doctor_facts *facts);

/** bps_doctor_collect_reach() - .apart of each of nics, where the addresses of the
 * servers are known; their names are looked up where there are two cards. */
void bps_doctor_collect_reach(const struct bps_host *servers, uint32_t n_servers,
                              struct bps_doctor_facts *facts);

/** bps_doctor_collect_preloads() - @text: the value of LD_PRELOAD, or NULL. */
void bps_doctor_collect_preloads(const char *text, struct bps_doctor_facts *facts);

/**
 * bps_doctor_probe() - connect to each server, say HELLO, wait for what it says, and
 * leave: fills in the rest of each. Blocks; at most 64 sockets at once.
 * @servers: name and port are there, or where to try; @hosts: what to look up, as many;
 * NULL: nothing. Those that are nowhere stay as they are.
 * Return: 0 or -ENOMEM; nothing is logged.
 */
int bps_doctor_probe(struct bps_doctor_server *servers, const struct bps_host *hosts,
                     uint32_t n_servers);

/**
 * bps_doctor_place() - which servers are together: fills in .back and .here of each.
 * @places: as many; @own: the interfaces of this box
 */
void bps_doctor_place(struct bps_doctor_server *servers,
                      const struct bps_doctor_place *places, uint32_t n_servers,
                      const struct bps_netif *own, int n_own);

/* -- reports -- */

struct bps_doctor_report {
	FILE *out; /* borrowed */
	const char *host;
	const char *check; /* whose turn it is */
	uint32_t columns;  /* of a line; 0: lines are not broken */
	int n_findings;
};

/* What is no finding. */
void bps_doctor_note(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A finding is what was found, then what it costs, then the remedy, then maybe lines to
 * type: these calls, in this order, the last one as often as there are lines. */
void bps_doctor_found(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_cost(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_remedy(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void bps_doctor_type(struct bps_doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** bps_doctor_run_checks() - run all checks on @facts; @report says where to. */
void bps_doctor_run_checks(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report);

/** bps_doctor_tame() - put ? for control characters: what a peer or a file says stays in
 * its line, and is none of a terminal's commands. */
void bps_doctor_tame(char *text);

/** bps_doctor_name_host() - this box's own name into @ret, 65 bytes. */
void bps_doctor_name_host(char *ret);

/* -- checks -- */

typedef void (*bps_doctor_check_fn)(const struct bps_doctor_facts *facts,
                                    struct bps_doctor_report *report);

void bps_doctor_check_sysfs(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);
void bps_doctor_check_memlock(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
void bps_doctor_check_hugepages(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report);
void bps_doctor_check_verbs(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);
void bps_doctor_check_preload(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report);
void bps_doctor_check_mtu(const struct bps_doctor_facts *facts,
                          struct bps_doctor_report *report);
void bps_doctor_check_subnet(const struct bps_doctor_facts *facts,
                             struct bps_doctor_report *report);
void bps_doctor_check_shm(const struct bps_doctor_facts *facts,
                          struct bps_doctor_report *report);
void bps_doctor_check_cpus(const struct bps_doctor_facts *facts,
                           struct bps_doctor_report *report);
void bps_doctor_check_quota(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);
void bps_doctor_check_variables(const struct bps_doctor_facts *facts,
                                struct bps_doctor_report *report);
void bps_doctor_check_interface(const struct bps_doctor_facts *facts,
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
/** bps_doctor_same_server() - whether the one at @at is one before it, *@ret_first, too.
 */
bool bps_doctor_same_server(const struct bps_doctor_server *servers, uint32_t at,
                            uint32_t *ret_first);
/* One server that has two names. */
void bps_doctor_check_twice(const struct bps_doctor_facts *facts,
                            struct bps_doctor_report *report);

/** bps_doctor_has_line() - whether @lines (NULL: none) has the line of @n bytes at @line.
 */
bool bps_doctor_has_line(const char *lines, const char *line, size_t n);
