/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the report on a job. Each rank fills a struct bps_job_said, the first rank of
 * each box with the box in it, and they travel to rank 0 as parcels. There the checks
 * and printers read struct bps_job, which nobody changes any more then.
 *
 * One thread in each rank; MPI is called from it alone.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "abi/abi.h"
#include "base/config.h"
#include "base/cpuset.h"
#include "base/hostlist.h"
#include "check/box/plan.h"
#include "check/check.h"
#include "check/doctor/impl.h"
#include "check/job/parcel.h"
#include "topology/machine.h"
#include "transport/addr.h"

#define BPS_JOB_HOST_BYTES 65
#define BPS_JOB_NAME_BYTES (BPS_JOB_HOST_BYTES + 24) /* "HOST (rank N)" */
#define BPS_JOB_NICS       8
#define BPS_JOB_WHY_BYTES  256
#define BPS_JOB_LIST_BYTES 1024 /* of a list of hosts or ranks, for people */

/* -- what ranks say -- */

enum bps_job_preload {
	BPS_PRELOAD_NONE,
	BPS_PRELOAD_LOST,    /* LD_PRELOAD names the library, but it is not there */
	BPS_PRELOAD_CARRIED, /* the library is in this process */
	BPS_PRELOAD_N
};

struct bps_job_rank {
	char host[BPS_JOB_HOST_BYTES];
	struct bps_cpuset cpus; /* where it may run */
	uint32_t preload;       /* enum bps_job_preload */
	char library[256];      /* its path, or what LD_PRELOAD says */
	char version[32];       /* of the library; "": not known */
	char mpi[BPS_MPI_VERSION_BYTES];
	char *settings;             /* owned: lines NAME=VALUE of BPSMPI_ variables */
	bool cpus_wrong;            /* BPSMPI_CPUS names none that it may use */
	struct bps_cpuset own_cpus; /* that it leaves to an engine; none: it is not set */
	uint32_t box;               /* set by rank 0 */
};

/* A box that does not answer as a server. */
struct bps_job_deaf {
	uint32_t box;
	uint32_t answer; /* enum bps_doctor_answer */
};

/* A way that does not carry, from a card of a box to one of a server. */
struct bps_job_way {
	uint32_t server; /* of the charter, or behind these of a box */
	char card[IF_NAMESIZE];
	char to[BPS_ADDR_CHARS];
	char why[BPS_JOB_WHY_BYTES]; /* and what to do */
};

struct bps_job_box {
	/* the host's name; at rank 0 with the first rank where several have that */
	char host[BPS_JOB_NAME_BYTES];
	const struct bps_machine *machine;    /* owned; may be NULL where a rank failed */
	char nics[BPS_JOB_NICS][IF_NAMESIZE]; /* that the job can use, the best first */
	uint32_t n_nics;
	bool inside;         /* loopback alone: no other box reaches it */
	uint32_t port_error; /* errno of the port of BPSMPI_PORT; 0 */
	struct bps_job_deaf
		*deaf; /* owned: boxes whose servers are not there for this one */
	uint32_t n_deaf;
	uint32_t *uses; /* [machine->n_nics], enum bps_box_use of each; owned */
	uint32_t n_uses;
	struct bps_doctor_server
		*servers; /* owned: how the job's servers answered here */
	uint32_t n_servers;
	struct bps_job_way *lost; /* owned; of servers that other cards reach */
	uint32_t n_lost;
	char *findings; /* owned: the doctor's, no line is broken */
	/* set by rank 0 */
	uint32_t *ranks; /* [n_ranks], rising; owned */
	uint32_t n_ranks;
	uint32_t
		like; /* the first box that looks the same; its own number: none before */
};

struct bps_job_said {
	char problem[BPS_JOB_WHY_BYTES]; /* why this rank could not look; "" */
	struct bps_job_rank rank;
	bool has_box;
	struct bps_job_box box;
};

/* What rank 0 tells all before they look. */
struct bps_job_charter {
	bool measure;
	char interface[256];    /* BPSMPI_INTERFACE */
	uint32_t connections;   /* BPSMPI_CONNECTIONS; 0: auto */
	uint32_t port;          /* BPSMPI_PORT, where boxes carry servers; 0: any */
	struct bps_host *hosts; /* owned: the servers of BPSMPI_SERVERS */
	uint32_t n_hosts;
};

/** bps_job_said_carry() - write or read it. Read: the caller ends it with
 * bps_job_said_deinit(), whatever parcel->error is. */
void bps_job_said_carry(struct bps_parcel *parcel, struct bps_job_said *said);
void bps_job_said_deinit(struct bps_job_said *said);

/** bps_job_charter_carry() - likewise. */
void bps_job_charter_carry(struct bps_parcel *parcel, struct bps_job_charter *charter);
void bps_job_charter_deinit(struct bps_job_charter *charter);

/** bps_job_machine_carry() - likewise; *@machine is NULL after an error. */
void bps_job_machine_carry(struct bps_parcel *parcel, const struct bps_machine **machine);

/** bps_job_look_rank() - fill in all of @ret but .box. Return: 0, or -ENOMEM. */
int bps_job_look_rank(const struct bps_mpi *mpi, struct bps_job_rank *ret);

/**
 * bps_job_look_box() - describe this box, ask the servers, have the doctor look.
 * @doctor: the variables of this rank count: it is rank 0
 *
 * Lets this thread run on all CPUs that its control group allows, so that what the
 * launcher bound it to is not taken for the box.
 * Return: 0; a negative errno with a reason in @ret_why.
 */
int bps_job_look_box(const struct bps_job_charter *charter, bool variables,
                     struct bps_job_box *ret, char *ret_why, size_t why_bytes);

/* -- measured bandwidths -- */

struct bps_job;

/*
 * Exchanges of box b in round r lie at [b * n_rounds + r], in bytes a second each way; 0:
 * there was none. Who exchanged with whom is bps_job_partner()'s to say.
 */
#define BPS_JOB_NOBODY UINT32_MAX

struct bps_job_rates {
	uint32_t n_rounds; /* 0: nothing was measured */
	/* owned: [n_rounds][n_boxes + n_hosts], boxes first: whom each meets, by that
	 * number, or BPS_JOB_NOBODY */
	uint32_t *peers;
	int64_t *alone; /* owned: this pair of links had nothing else to do */
	/* owned: what came over each in one stretch of time in which all pairs were at
	 * work; so what shares a link adds up to what it carried then */
	int64_t *together;
	char why[BPS_JOB_WHY_BYTES]; /* why an exchange failed, with its box; "" */
};

/**
 * bps_job_schedule() - fill in rates.n_rounds and rates.peers, and job->on where it is
 * not yet. In no round has any link two exchanges. Return: 0 or -ENOMEM.
 */
int bps_job_schedule(struct bps_job *job);

/**
 * bps_job_partner() - with whom box @box exchanges bytes in round @round.
 * @ret: the server, or without any the other box
 * Return: whether it begins an exchange.
 */
bool bps_job_partner(const struct bps_job *job, uint32_t box, uint32_t round,
                     uint32_t *ret);

/** bps_job_exchange() - the place in rates of the exchange over link @link (of boxes,
 * then of servers) in round @round, below n_rounds. Return: whether there is one. */
bool bps_job_exchange(const struct bps_job *job, uint32_t link, uint32_t round,
                      uint32_t *ret_at);

/** bps_job_alike() - which part of a measured rate may be chance. */
double bps_job_alike(double bytes_per_s);

/** bps_job_doubtful() - an exchange that was slower, while others were not, may have met
 * something else on its way, or busy cores: it is measured again. */
double bps_job_doubtful(const struct bps_job *job);

/** bps_job_fastest() - of the exchanges over link @link, one at a time; 0: of none. */
double bps_job_fastest(const struct bps_job *job, uint32_t link);

/** bps_job_one_by_one() - what links could exchange at once, by their fastest exchanges.
 */
double bps_job_one_by_one(const struct bps_job *job);

/** bps_job_at_once() - what they did exchange: the sum of @together, as in rates. */
double bps_job_at_once(const struct bps_job *job, const int64_t *together);

/** bps_job_is_crowded() - whether that is less, by more than chance. */
bool bps_job_is_crowded(const struct bps_job *job);

/* -- at rank 0 -- */

/* Where a bandwidth comes from. */
enum bps_job_source {
	BPS_RATE_UNKNOWN,
	BPS_RATE_KERNEL,
	BPS_RATE_MEASURED,
	BPS_RATE_SAID, /* BPSMPI_BANDWIDTH */
	BPS_RATE_N_SOURCES
};

struct bps_job_link {
	double bytes_per_s; /* one way; 0: not known */
	enum bps_job_source source;
};

struct bps_job_plan {
	bool made; /* there are two boxes or more */
	bool runs; /* the library carries a job that is started like this one */
	bool told; /* it does not, and a check of its own says why */
	char why[BPS_JOB_WHY_BYTES]; /* it does not; "" */
	bool known;                  /* bandwidths are; else all are taken as alike */
	double *shares; /* owned: [n_servers + n_boxes], as engine/shares.h has them */
	double *bcast;  /* likewise, from the first box */
	/* owned: [n_boxes + n_servers], boxes first: what links carry, and what a job
	 * takes them for; 1 each where nothing is known */
	double *rates, *taken;
	bool *apart; /* owned, likewise: a job divides as if it had a link of its own */
	double allreduce_s, bcast_s, ring_s; /* for a byte */
	double slowest_s;                    /* a byte over the link of the slowest box */
};

/* A finding, on one or several boxes. */
struct bps_job_finding {
	char *check, *found, *cost, *remedy; /* owned */
	char *types;     /* owned: lines to type, each with its newline; "" */
	uint32_t *boxes; /* [n_boxes], rising; owned; none: of the whole job */
	uint32_t n_boxes;
};

struct bps_job_findings {
	struct bps_job_finding *list; /* owned */
	uint32_t n;
};

struct bps_job {
	const struct bps_check_options *options;
	struct bps_mpi *mpi;
	uint32_t rank, size;
	uint32_t n_boxes;
	uint32_t *box_of;         /* [size]: owned */
	uint32_t *first;          /* [n_boxes]: the first rank of each; owned */
	struct bps_config config; /* rank 0's, at rank 0 */
	bool config_wrong;        /* rank 0's variables, some of them */
	char servers_wrong[512];  /* why BPSMPI_SERVERS cannot be read; "" */
	struct bps_job_charter charter;
	uint32_t *on; /* owned: [n_boxes + n_hosts], boxes first: whose link each has */
	struct bps_job_rates rates;
	/* at rank 0; all owned */
	struct bps_job_rank *ranks; /* [size] */
	struct bps_job_box *boxes;  /* [n_boxes] */
	struct bps_job_link *links; /* [n_boxes + n_hosts]: boxes first */
	struct bps_job_plan plan;
	struct bps_job_findings findings;
};

/* Gathering. */

/** bps_job_open_mpi() - load the MPI library that fits the launcher, or @file, and
 * initialise it. Return: 0; -EINVAL and the like after a line on standard error. */
int bps_job_open_mpi(const char *file, struct bps_mpi **ret);

/** bps_job_meet() - who is where: fills rank, size, n_boxes, box_of, first. Collective.
 * Return: 0 or -ENOMEM, which may be on one rank alone: it cannot go on. */
int bps_job_meet(struct bps_job *job);

/** bps_job_tell() - rank 0's charter to all. Collective. Return: 0; a negative errno on
 * this rank, which goes on to take part with a reason in @ret_why. */
int bps_job_tell(struct bps_job *job, char *ret_why, size_t why_bytes);

/** bps_job_gather() - what all ranks say, to rank 0, which fills ranks and boxes.
 * Collective. Return: at rank 0 0, or a negative errno after a line on standard error. */
int bps_job_gather(struct bps_job *job, struct bps_job_said *said);

/**
 * bps_job_try_ways() - have boxes carry servers where a job would, greet all servers, and
 * try the ways to them. Collective.
 * @box: this rank's, where it is its first one and has looked; else NULL: what is lost,
 * and which cards are used, is filled in
 */
void bps_job_try_ways(struct bps_job *job, struct bps_job_box *box);

/**
 * bps_job_measure() - fill job->rates. Collective.
 * @servers: how they answered this rank's box, where it is its first one; else NULL
 */
void bps_job_measure(struct bps_job *job, const struct bps_doctor_server *servers);

/* Understanding. */

/** bps_job_fold() - set .like of each box. Return: 0 or -ENOMEM. */
int bps_job_fold(struct bps_job *job);

/**
 * bps_job_difference() - in what @box differs from @other, a line each; "" in nothing.
 * Return: text to be freed; NULL: out of memory.
 */
char *bps_job_difference(const struct bps_job *job, const struct bps_job_box *box,
                         const struct bps_job_box *other);

/** bps_job_count_alike() - how many boxes are like @box, with it. */
uint32_t bps_job_count_alike(const struct bps_job *job, uint32_t box);

/** bps_job_common() - the first box of the kind that most are of. */
uint32_t bps_job_common(const struct bps_job *job);

/** bps_job_nic() - the network card of this name, or NULL. */
const struct bps_machine_nic *bps_job_nic(const struct bps_job_box *box,
                                          const char *name);

/** bps_job_median_rate() - of those of @n links that are known; 0: of none. */
double bps_job_median_rate(const struct bps_job_link *links, uint32_t n);

/** bps_job_is_slow() - whether a link is slower than @usual by more than chance; where a
 * user says how fast it is, several times slower. */
bool bps_job_is_slow(const struct bps_job_link *link, double usual);

/** bps_job_make_plan() - fill links and plan. Return: 0 or a negative errno. */
int bps_job_make_plan(struct bps_job *job);

/* What a plan is reckoned from; links of boxes, then of servers. */
struct bps_job_basis {
	uint32_t n_boxes, n_servers;
	bool carries;       /* boxes have servers of their own */
	const uint32_t *on; /* whose link each has: its own number, or an earlier one's */
	const bool *apart;  /* a job divides as if it were its own */
	const double *taken; /* what a job takes them for */
	const double *rates; /* what they carry */
};

#define BPS_JOB_NO_ROOT UINT32_MAX

/**
 * bps_job_reckon() - the shares of an op, and what its links then need for a byte of it.
 * @root: of a broadcast; BPS_JOB_NO_ROOT: an allreduce
 * @ret_shares: [n_servers + n_boxes], servers first, as engine/shares.h has them
 * Return: 0, or a negative errno.
 */
int bps_job_reckon(const struct bps_job_basis *basis, uint32_t root, double *ret_shares,
                   double *ret_s_per_byte);

/** bps_job_find_shared() - fill in job->on, where it is not yet: by what boxes said,
 * where that is there. Return: 0 or -ENOMEM. */
int bps_job_find_shared(struct bps_job *job);

/** bps_job_times() - how many times as long an allreduce takes as if links were shared
 * like @on; 1 where there is no plan. */
double bps_job_times(const struct bps_job *job, const uint32_t *on);

/** bps_job_say_shared() - sentences on servers without a link of their own; "": all have
 * one. */
void bps_job_say_shared(const struct bps_job *job, char *ret, size_t ret_bytes);

/** bps_job_runs() - whether the library carries a job that is started like this one; why
 * not, in words that go on a sentence, and whether a check of its own reports that. */
bool bps_job_runs(const struct bps_job *job, char *ret_why, size_t why_bytes,
                  bool *ret_told);

/** bps_job_slower() - how many times as long an allreduce takes because box @box is as
 * slow as it is, not as fast as @bytes_per_s; 1 where there is no plan. */
double bps_job_slower(const struct bps_job *job, uint32_t box, double bytes_per_s);

/** bps_job_server_answer() - how server @server answered box @box. */
const struct bps_doctor_server *bps_job_server_answer(const struct bps_job *job,
                                                      uint32_t box, uint32_t server);

/** bps_job_round_trips() - the shortest and the median round trip of those boxes that a
 * server answered. Return: how many did; 0: both are 0. */
uint32_t bps_job_round_trips(const struct bps_job *job, uint32_t server,
                             uint64_t *ret_least_ns, uint64_t *ret_median_ns);

/** bps_job_examine() - all findings, folded over boxes. Return: 0 or -ENOMEM. */
int bps_job_examine(struct bps_job *job);

/**
 * bps_job_findings_add() - take findings that bps_doctor_found() and its like wrote with
 * unbroken lines; one that is there already, of another box, gets that box too.
 * @box: of which box; UINT32_MAX: of the whole job
 * Return: 0 or -ENOMEM.
 */
int bps_job_findings_add(struct bps_job_findings *findings, const char *text,
                         uint32_t box);
void bps_job_findings_deinit(struct bps_job_findings *findings);

/* The checks that look at a whole job. */
void bps_job_check_preload(const struct bps_job *job, struct bps_doctor_report *report);
void bps_job_check_versions(const struct bps_job *job, struct bps_doctor_report *report);
void bps_job_check_settings(const struct bps_job *job, struct bps_doctor_report *report);
void bps_job_check_network(const struct bps_job *job, struct bps_doctor_report *report);
void bps_job_check_memory(const struct bps_job *job, struct bps_doctor_report *report);
void bps_job_check_shared(const struct bps_job *job, struct bps_doctor_report *report);
/* Those of one box among the others. */
void bps_job_check_servers(const struct bps_job *job, uint32_t box,
                           struct bps_doctor_report *report);
void bps_job_check_binding(const struct bps_job *job, uint32_t box,
                           struct bps_doctor_report *report);
void bps_job_check_cpus(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report);
void bps_job_check_room(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report);
void bps_job_check_mtu(const struct bps_job *job, uint32_t box,
                       struct bps_doctor_report *report);
void bps_job_check_port(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report);
void bps_job_check_boxes(const struct bps_job *job, uint32_t box,
                         struct bps_doctor_report *report);
void bps_job_check_ways(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report);
void bps_job_check_link(const struct bps_job *job, uint32_t box,
                        struct bps_doctor_report *report);

/* Printing. */

/** bps_job_fold_names() - "h[1-4],h7": @n names, in order; a longer list ends in "...".
 * Returns @ret. */
char *bps_job_fold_names(const char *const *names, uint32_t n, char *ret,
                         size_t ret_bytes);

/**
 * bps_job_other_server() - whether @box finds another server at the address of @server
 * than the first box that finds one there, which is *@ret_first then.
 */
bool bps_job_other_server(const struct bps_job *job, uint32_t box, uint32_t server,
                          uint32_t *ret_first);

/** bps_job_takes_jobs() - whether a server answered as one that a job can use. */
static inline bool bps_job_takes_jobs(const struct bps_doctor_server *server)
{
	return server->answer == BPS_DOCTOR_FINE || server->answer == BPS_DOCTOR_SOFTWARE;
}

/** bps_job_lacks_memory() - whether server @server said that it has not the memory for
 * the windows of all boxes. */
bool bps_job_lacks_memory(const struct bps_job *job, uint32_t server);

/** bps_job_carries() - whether boxes carry servers. */
bool bps_job_carries(const struct bps_job *job);

/** bps_job_carries_too_much() - likewise, the servers that boxes carry. */
bool bps_job_carries_too_much(const struct bps_job *job);

/** bps_job_name_boxes() - have hosts of one name told apart, by their first ranks. */
void bps_job_name_boxes(struct bps_job *job);

/** bps_job_host() - the name that @box has itself. */
const char *bps_job_host(const struct bps_job *job, uint32_t box);

/** bps_job_list_boxes() - likewise, the names of boxes. */
char *bps_job_list_boxes(const struct bps_job *job, const uint32_t *boxes, uint32_t n,
                         char *ret, size_t ret_bytes);

/** bps_job_print() - the report as text. */
void bps_job_print(const struct bps_job *job);

/** bps_job_print_rates() - what was measured. */
void bps_job_print_rates(const struct bps_job *job);

#define BPS_JOB_RATES_CHARS 64

/** bps_job_format_rates() - "68-89 Mbit/s" into @ret, BPS_JOB_RATES_CHARS; of equal ones
 * "89 Mbit/s". Returns @ret. */
char *bps_job_format_rates(double least, double most, char *ret);

/** bps_job_print_plan() - who sums how much, and how long that takes. */
void bps_job_print_plan(const struct bps_job *job);

/** bps_job_print_json() - version 1 of the schema in bpsmpi-check(1). */
void bps_job_print_json(const struct bps_job *job);

/** bps_job_place() - the plan of a box with the ranks that it has. Return and ownership
 * as of bps_box_plan(). */
int bps_job_place(const struct bps_job *job, const struct bps_job_box *box,
                  struct bps_box_plan *ret);

/** bps_job_draw() - options->svg. Return: an exit status. */
int bps_job_draw(const struct bps_job *job);
