/* SPDX-License-Identifier: BSD-3-Clause */
/* What is made of a job: jobs that are made up here, and what is said of them. */
#include "tests/unit/base/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "check/job/impl.h"

#define N_BOXES   4u
#define N_RANKS   8u /* two on each box */
#define N_SERVERS 2u

static struct bps_job job;
static struct bps_machine machines[N_BOXES];
static struct bps_machine_nic nics[N_BOXES];
static struct bps_machine_cpu cpus[N_BOXES][8];
static struct bps_host hosts[N_SERVERS];
static struct bps_doctor_server servers[N_BOXES][N_SERVERS];
static uint32_t box_ranks[N_BOXES][2];
static struct bps_job_rank ranks[N_RANKS];
static struct bps_job_box boxes[N_BOXES];
static char settings[N_RANKS][64];
static char report[16384];

/* Eight CPUs in four cores, a card of 10 Gbit/s; ranks run anywhere. */
static void set_up_box(uint32_t b)
{
	struct bps_machine *machine = &machines[b];
	struct bps_job_box *box = &boxes[b];

	nics[b] = (struct bps_machine_nic){
		.name = "eth0",
		.bytes_per_s = 1.25e9,
		.mtu = 1500,
		.link = BPS_MACHINE_LINK_UP,
	};
	*machine = (struct bps_machine){
		.memory_bytes = UINT64_C(64) << 30,
		.n_cpus = 8,
		.n_cores = 4,
		.n_usable = 8,
		.n_nics = 1,
		.cpus = cpus[b],
		.nics = &nics[b],
		.cpu_quota = UINT32_MAX,
	};
	for (uint32_t i = 0; i < 8; i++)
		cpus[b][i] = (struct bps_machine_cpu){ .number = i,
			                               .core = i / 2,
			                               .usable = true };
	*box = (struct bps_job_box){
		.machine = machine,
		.nics = { "eth0" },
		.n_nics = 1,
		.servers = servers[b],
		.n_servers = N_SERVERS,
		.ranks = box_ranks[b],
		.n_ranks = 2,
		.like = b,
	};
	(void)snprintf(box->host, sizeof(box->host), "h%u", b + 1);
}

static int set_up(void **state)
{
	job = (struct bps_job){
		.size = N_RANKS,
		.n_boxes = N_BOXES,
		.charter = { .hosts = hosts, .n_hosts = N_SERVERS },
		.config.enable = true,
		.config.server_memory_bytes = 1 << 30,
		.ranks = ranks,
		.boxes = boxes,
	};
	for (uint32_t s = 0; s < N_SERVERS; s++) {
		hosts[s].port = 7000;
		(void)snprintf(hosts[s].name, sizeof(hosts[s].name), "s%u", s + 1);
	}
	for (uint32_t b = 0; b < N_BOXES; b++) {
		set_up_box(b);
		for (uint32_t s = 0; s < N_SERVERS; s++) {
			servers[b][s] = (struct bps_doctor_server){ .port = 7000 };
			(void)snprintf(servers[b][s].name, sizeof(servers[b][s].name),
			               "s%u:7000", s + 1);
		}
	}
	for (uint32_t r = 0; r < N_RANKS; r++) {
		ranks[r] = (struct bps_job_rank){
			.preload = BPS_PRELOAD_CARRIED,
			.library = "/opt/libbytepsmpi.so",
			.version = BPS_VERSION,
			.mpi = "Open MPI v4.1.4",
			.settings = settings[r],
			.box = r / 2,
		};
		(void)snprintf(ranks[r].host, sizeof(ranks[r].host), "h%u", r / 2 + 1);
		settings[r][0] = '\0';
		for (uint32_t i = 0; i < 8; i++)
			bps_cpuset_add(&ranks[r].cpus, i);
		box_ranks[r / 2][r % 2] = r;
	}
	return 0;
}

/* Before the next one is made. */
static void forget_plan(void)
{
	bps_job_findings_deinit(&job.findings);
	free(job.links);
	free(job.plan.shares);
	free(job.plan.bcast);
	free(job.plan.rates);
	free(job.plan.taken);
	free(job.plan.apart);
	free(job.on);
	job.links = NULL;
	job.plan = (struct bps_job_plan){ 0 };
	job.on = NULL;
}

static int tear_down(void **state)
{
	forget_plan();
	free(job.rates.peers);
	free(job.rates.alone);
	free(job.rates.together);
	return 0;
}

/* All findings, one a line: "h[1-2], check: found | cost | remedy | types". */
static uint32_t examine(void)
{
	char names[256];
	size_t used = 0;

	report[0] = '\0';
	forget_plan();
	assert_int_equal(bps_job_make_plan(&job), 0);
	assert_int_equal(bps_job_examine(&job), 0);
	for (uint32_t i = 0; i < job.findings.n; i++) {
		const struct bps_job_finding *f = &job.findings.list[i];

		used += (size_t)snprintf(
			report + used, sizeof(report) - used,
			"%s, %s: %s | %s | %s | %s\n",
			f->n_boxes ? bps_job_list_boxes(&job, f->boxes, f->n_boxes, names,
		                                        sizeof(names))
				   : "job",
			f->check, f->found, f->cost, f->remedy, f->types);
	}
	return job.findings.n;
}

static void assert_finding(const char *head, const char *type)
{
	assert_int_equal(examine(), 1);
	if (strncmp(report, head, strlen(head)) != 0)
		fail_msg("'%s' does not begin '%s'", report, head);
	assert_contains(report, type);
}

static void bind_rank(uint32_t rank, uint32_t first_cpu, uint32_t n)
{
	ranks[rank].cpus = (struct bps_cpuset){ 0 };
	for (uint32_t i = 0; i < n; i++)
		bps_cpuset_add(&ranks[rank].cpus, first_cpu + i);
}

/* -- names -- */

static void assert_folded(const char *list, const char *wanted)
{
	char copy[256], ret[128], *rest = NULL;
	const char *names[32];
	uint32_t n = 0;

	(void)snprintf(copy, sizeof(copy), "%s", list);
	for (char *name = strtok_r(copy, " ", &rest); name;
	     name = strtok_r(NULL, " ", &rest))
		names[n++] = name;
	assert_string_equal(bps_job_fold_names(names, n, ret, sizeof(ret)), wanted);
}

static void names_are_folded(void **state)
{
	const char *many[] = { "a-long-name", "another-name" };
	char ret[16];

	assert_folded("h1", "h1");
	assert_folded("h1 h2 h3", "h[1-3]");
	assert_folded("h1 h2 h4 h6 h7", "h[1-2,4,6-7]");
	assert_folded("h9 h10 h11", "h[9-11]");
	assert_folded("cpu08 cpu09 cpu10", "cpu[08-10]");
	assert_folded("cpu9 cpu010", "cpu[9,010]");
	assert_folded("n1.x.org n2.x.org n2.y.org", "n[1-2].x.org,n2.y.org");
	assert_folded("s1:7000 s2:7000 s1:7001", "s[1-2]:7000,s1:7001");
	assert_folded("node node", "node,node");
	assert_folded("h1 x1 h2", "h1,x1,h2");
	assert_string_equal(bps_job_fold_names(many, 2, ret, sizeof(ret)),
	                    "a-long-name,...");
}

static void hosts_of_one_name_are_told_apart(void **state)
{
	const uint32_t all[] = { 0, 1, 2, 3 };
	char names[64];

	bps_job_name_boxes(&job);
	assert_string_equal(bps_job_list_boxes(&job, all, 4, names, 64), "h[1-4]");
	for (uint32_t r = 0; r < N_RANKS; r++)
		if (r / 2 != 1)
			(void)strcpy(ranks[r].host, "localhost");
	bps_job_name_boxes(&job);
	assert_string_equal(boxes[0].host, "localhost (rank 0)");
	assert_string_equal(boxes[1].host, "h2");
	assert_string_equal(bps_job_list_boxes(&job, all + 2, 2, names, 64),
	                    "localhost (rank [4,6])");
	/* Their links are named by what they call themselves. */
	(void)strcpy(job.config.bandwidth, "localhost=40Mbit,*=80Mbit");
	assert_int_equal(bps_job_make_plan(&job), 0);
	assert_float_equal(job.links[0].bytes_per_s, 5e6, 1e-6);
	assert_float_equal(job.links[1].bytes_per_s, 10e6, 1e-6);
}

/* -- alike -- */

static void assert_difference(const char *wanted)
{
	char *text = bps_job_difference(&job, &boxes[2], &boxes[0]);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
	assert_int_equal(bps_job_fold(&job), 0);
	assert_int_equal(boxes[1].like, 0);
	assert_int_equal(boxes[2].like, wanted[0] ? 2 : 0);
	assert_int_equal(boxes[3].like, 0);
	assert_int_equal(bps_job_common(&job), 0);
	assert_int_equal(bps_job_count_alike(&job, 0), wanted[0] ? 3 : 4);
}

static void boxes_are_folded(void **state)
{
	struct bps_machine_nic two[2];

	assert_difference("");
	/* Not what differs between equal machines. */
	machines[2].memory_bytes -= 100 << 20;
	(void)strcpy(nics[2].bus, "0000:05:00.0");
	assert_difference("");
	nics[2].bytes_per_s = 1.25e8;
	assert_difference("NIC eth0: 1 Gbit/s instead of 10 Gbit/s\n");
	nics[2].mtu = 9000;
	assert_difference(
		"NIC eth0: 1 Gbit/s, MTU 9000 instead of 10 Gbit/s, MTU 1500\n");
	nics[2] = nics[0];
	machines[2].memory_bytes = UINT64_C(32) << 30;
	machines[2].n_usable = 7;
	assert_difference("memory: 32.0 GiB instead of 64.0 GiB\n"
	                  "usable CPUs: 7 instead of 8\n");
	machines[2] = machines[0];
	machines[2].nics = two;
	machines[2].n_nics = 2;
	two[0] = two[1] = nics[0];
	(void)strcpy(two[1].name, "veth1");
	two[1].is_virtual = true;
	assert_difference(""); /* nobody uses it */
	two[1].is_virtual = false;
	assert_difference("NIC veth1: 10 Gbit/s, MTU 1500, up, no RDMA, hardware "
	                  "instead of none\n");
}

/* Ranks 4 and 5 are those of the third box. */
static void ranks_that_are_bound_differ(void **state)
{
	bind_rank(4, 0, 4);
	bind_rank(5, 4, 4);
	assert_difference("its ranks run on CPUs: 0-3, then 4-7 instead of any\n");
	bind_rank(5, 0, 4);
	assert_difference("its ranks run on CPUs: 0-3 instead of any\n");
	for (uint32_t r = 0; r < N_RANKS; r++)
		bind_rank(r, r % 2 * 4, 4);
	assert_difference("");
	bind_rank(4, 4, 4); /* the other way round */
	bind_rank(5, 0, 4);
	assert_difference("its ranks run on CPUs: 4-7, then 0-3 instead of 0-3, then "
	                  "4-7\n");
	/* On all that a box has is bound to nothing, however many these are. */
	tear_down(NULL);
	set_up(NULL);
	cpus[2][7].usable = false;
	bind_rank(4, 0, 7);
	bind_rank(5, 0, 7);
	assert_difference("");
	bps_cpuset_add(&ranks[4].own_cpus, 6); /* for the engine */
	assert_difference("BPSMPI_CPUS: 6 instead of none\n");
	ranks[4].own_cpus = ranks[0].own_cpus;
	boxes[2].n_ranks = 1; /* says enough */
	bind_rank(4, 0, 1);
	assert_difference("ranks: 1 instead of 2\n");
}

static void the_kind_that_most_are_of(void **state)
{
	nics[0].mtu = 9000;
	assert_int_equal(bps_job_fold(&job), 0);
	assert_int_equal(bps_job_common(&job), 1);
	assert_int_equal(boxes[3].like, 1);
}

/* -- findings -- */

static void a_job_that_is_fine_has_none(void **state)
{
	assert_int_equal(examine(), 0);
	assert_true(job.plan.made && job.plan.known);
	/* Four boxes, two servers, all alike: (n + k) n - 2k = 20, 2n(n-1) = 24. */
	assert_float_equal(job.plan.allreduce_s * 1.25e9, 24.0 / 20, 1e-9);
	assert_float_equal(job.plan.shares[0], 6.0 / 20, 1e-9);
	assert_float_equal(job.plan.shares[2], 2.0 / 20, 1e-9);
}

static void the_same_on_several_boxes_is_one(void **state)
{
	char same[] = "x, shm: little is free\n  cost: c\n  remedy: r\n      type\n";
	char other[] = "x, shm: little is free\n  cost: c\n  remedy: r\n      other\n";
	char cut[] = "x, shm: little is";

	boxes[0].findings = boxes[1].findings = boxes[3].findings = same;
	boxes[2].findings = other;
	assert_int_equal(examine(), 2);
	assert_string_equal(report, "h[1-2,4], shm: little is free | c | r | type\n\n"
	                            "h3, shm: little is free | c | r | other\n\n");
	tear_down(NULL);
	set_up(NULL);
	boxes[1].findings = cut;
	assert_int_equal(examine(), 0);
}

static void preloads(void **state)
{
	for (uint32_t r = 2; r < 6; r++)
		ranks[r].preload = BPS_PRELOAD_NONE;
	assert_finding("job, preload: ranks 2-5 on h[2-3] without libbytepsmpi.so, the "
	               "others carry it",
	               "mpirun -x LD_PRELOAD=/opt/libbytepsmpi.so ...");
	tear_down(NULL);
	set_up(NULL);
	ranks[7].preload = BPS_PRELOAD_LOST;
	(void)strcpy(ranks[7].library, "/nowhere/libbytepsmpi.so");
	assert_finding(
		"job, preload: LD_PRELOAD names /nowhere/libbytepsmpi.so, which is "
		"not there, or cannot be loaded: rank 7 on h4",
		"LD_PRELOAD=/nowhere/libbytepsmpi.so true");
	tear_down(NULL);
	set_up(NULL);
	for (uint32_t r = 0; r < N_RANKS; r++)
		ranks[r].preload = BPS_PRELOAD_NONE;
	assert_finding("job, preload: no rank carries", "mpirun -x LD_PRELOAD=/path/to/");
}

static void versions(void **state)
{
	(void)strcpy(ranks[4].version, "9.9.9");
	(void)strcpy(ranks[5].version, "9.9.9");
	assert_finding("job, versions: ranks carry different versions",
	               BPS_VERSION " (ranks 0-3,6-7 on h[1-2,4]), 9.9.9 (ranks 4-5 on "
	                           "h3)");
	tear_down(NULL);
	set_up(NULL);
	for (uint32_t r = 0; r < N_RANKS; r++)
		(void)strcpy(ranks[r].version, "9.9.9");
	assert_finding("job, versions: the library that ranks carry is 9.9.9",
	               "ls -l /opt/libbytepsmpi.so");
	tear_down(NULL);
	set_up(NULL);
	(void)strcpy(ranks[6].mpi, "Open MPI v5.0.7");
	assert_finding("job, versions: ranks have different MPI libraries",
	               "Open MPI v5.0.7 (rank 6 on h4)");
}

static void settings_that_do_nothing(void **state)
{
	(void)strcpy(settings[0], "BPSMPI_MODE=auto\nBPSMPI_STATS=1\n");
	(void)strcpy(settings[1], "BPSMPI_MODE=auto\n");
	assert_int_equal(examine(), 0);
	tear_down(NULL);
	job.findings = (struct bps_job_findings){ 0 };
	(void)strcpy(settings[2], "BPSMPI_MODE=never\n");
	(void)strcpy(settings[3], "BPSMPI_MODE=never\n");
	assert_finding("job, settings: BPSMPI_MODE=never on ranks 2-3 on h2, and rank 0 "
	               "has not",
	               "mpirun -x BPSMPI_MODE ...");
	tear_down(NULL);
	set_up(NULL);
	job.config.enable = false;
	assert_finding("job, settings: rank 0 has BPSMPI_ENABLE=0", "unset");
}

static void a_server_that_some_do_not_reach(void **state)
{
	servers[1][1].answer = servers[2][1].answer = BPS_DOCTOR_TIMED_OUT;
	assert_finding("h[2-3], servers: s2:7000: no answer at all", "add-port=7000/tcp");
}

static void another_mtu(void **state)
{
	nics[3].mtu = 9000;
	assert_finding("h4, mtu: eth0 has MTU 9000, that of other boxes is 1500",
	               "ip link set eth0 mtu 1500");
}

/* -- whether it runs -- */

static void assert_native(const char *why)
{
	assert_int_not_equal(examine(), 0);
	assert_false(job.plan.runs);
	assert_string_equal(job.plan.why, why);
	tear_down(NULL);
	set_up(NULL);
}

static void a_job_runs_by_the_library_s_own_facts(void **state)
{
	assert_int_equal(examine(), 0);
	assert_true(job.plan.runs);
	assert_string_equal(job.plan.why, "");
	tear_down(NULL);
	set_up(NULL);
	servers[3][0].answer = BPS_DOCTOR_SOFTWARE; /* they understand each other */
	assert_int_equal(examine(), 1);
	assert_true(job.plan.runs);
	tear_down(NULL);
	set_up(NULL);
	for (int answer = BPS_DOCTOR_FINE + 1; answer < BPS_DOCTOR_N_ANSWERS; answer++) {
		if (answer == BPS_DOCTOR_SOFTWARE)
			continue;
		servers[2][1].answer = (enum bps_doctor_answer)answer;
		assert_native("server s2:7000 is not there for h3");
	}
	ranks[5].preload = BPS_PRELOAD_LOST;
	assert_native("not all ranks carry the library");
	(void)strcpy(ranks[7].version, "9.9.9");
	assert_native("ranks carry different versions of the library");
	boxes[1].n_nics = 0;
	assert_native("h2 has no network card that can be used");
	job.config.enable = false;
	assert_native("rank 0 has BPSMPI_ENABLE=0");
	(void)strcpy(job.servers_wrong, "what it says");
	assert_native("BPSMPI_SERVERS cannot be read");
}

/* 4 boxes ask for 8 slots and get 7 spare ones; a slot of 256 KiB has room for its sum,
 * and little else. */
static void servers_need_memory_for_windows(void **state)
{
	const uint64_t windows = UINT64_C(4) * 15 * 2 * (256 << 10);

	servers[1][1].left_bytes = windows;
	servers[2][1].left_bytes = 2 * windows;
	assert_finding(
		"job, servers: s2:7000: 30 MiB of memory are left for windows, and "
		"those of this job take 31 MiB",
		"bpsmpi-server --memory 31M");
	assert_false(job.plan.runs);
	assert_string_equal(job.plan.why,
	                    "server s2:7000 has not the memory for its windows");
	tear_down(NULL);
	set_up(NULL);
	servers[0][0].left_bytes = servers[1][1].left_bytes = windows + (1 << 20);
	assert_int_equal(examine(), 0);
	tear_down(NULL);
	set_up(NULL);
	servers[0][0].left_bytes = windows + (1 << 20);
	job.config.connections = 2;
	assert_native("server s1:7000 has not the memory for its windows");
	/* 4 boxes and 2 servers: each box carries one, too. */
	job.config.server_memory_bytes = (int64_t)windows;
	assert_finding(
		"job, settings: BPSMPI_SERVER_MEMORY_BYTES allows the server in each "
		"box 30 MiB, and the windows of this job take 31 MiB",
		"BPSMPI_SERVER_MEMORY_BYTES=31M");
	assert_false(job.plan.runs);
	assert_string_equal(job.plan.why,
	                    "BPSMPI_SERVER_MEMORY_BYTES is too little for its windows");
}

/* What no other check looks at is a finding too. */
static void what_keeps_the_library_out_is_found(void **state)
{
	job.config_wrong = true;
	assert_finding("job, settings: a variable of rank 0 has a value that cannot be "
	               "used",
	               "bpsmpi-check --env");
	tear_down(NULL);
	set_up(NULL);
	job.config.mode = BPS_MODE_NEVER;
	assert_finding("job, settings: rank 0 has BPSMPI_MODE=never", "--env");
	tear_down(NULL);
	set_up(NULL);
	(void)strcpy(job.config.bandwidth, "10G");
	assert_finding("job, settings: BPSMPI_BANDWIDTH: '10G' is not a rate", "--env");
	tear_down(NULL);
	set_up(NULL);
	ranks[5].cpus_wrong = true; /* leads no box */
	assert_int_equal(examine(), 0);
	tear_down(NULL);
	set_up(NULL);
	ranks[4].cpus_wrong = ranks[6].cpus_wrong = true;
	assert_finding("h[3-4], variables: BPSMPI_CPUS names no CPU that the first rank "
	               "may use",
	               "mpirun --bind-to none ...");
	assert_string_equal(job.plan.why, "BPSMPI_CPUS on h3 names no CPU that the first "
	                                  "rank there may use");
}

/* It keeps the library out, as any fault of a box's engine. */
static void a_port_that_is_taken(void **state)
{
	job.charter.port = 7001;
	boxes[1].port_error = EADDRINUSE;
	assert_finding(
		"h2, port: BPSMPI_PORT=7001 cannot be used: Address already in use",
		"ss -ltnp sport = :7001");
	assert_false(job.plan.runs);
	assert_string_equal(job.plan.why, "BPSMPI_PORT=7001 cannot be used on h2");
}

/* Of one card, for one reason: one finding, that counts the others. */
static void ways_that_are_lost(void **state)
{
	struct bps_job_way ways[] = {
		{ 0, "eth1", "10.1.0.9:7000", "no answer" },
		{ 1, "eth1", "10.1.0.10:7000", "no answer" },
		{ 1, "eth2", "10.2.0.10:7000", "no answer" },
	};

	(void)strcpy(boxes[1].nics[1], "eth1");
	boxes[1].n_nics = 2;
	boxes[1].lost = ways;
	boxes[1].n_lost = 2;
	assert_finding("h2, rails: network card eth1 does not reach 10.1.0.9:7000 of "
	               "server s1:7000, nor 1 more: no answer",
	               "export BPSMPI_INTERFACE=eth0");
	tear_down(NULL);
	set_up(NULL);
	boxes[1].lost = ways;
	boxes[1].n_lost = 3;
	assert_int_equal(examine(), 2);
	tear_down(NULL);
	set_up(NULL);
}

/* A half: the box's bound 1 / (B/2) against 1.2 / B, as if it were as fast. */
static void a_slow_card(void **state)
{
	nics[1].bytes_per_s = 1.25e9 / 2;
	assert_finding(
		"h2, link: its link carries 5 Gbit/s (as the kernel says), those of "
		"other boxes 10 Gbit/s",
		"takes 1.67 times as long");
}

/* Not worth a word from a third on. A tenth: the box's bound 1 / (B/10) against 1.2 / B.
 */
static void a_link_that_is_said_to_be_slow(void **state)
{
	(void)strcpy(job.config.bandwidth, "h2=34Mbit,s1=34Mbit,*=100Mbit");
	assert_int_equal(examine(), 0);
	tear_down(NULL);
	set_up(NULL);
	(void)strcpy(job.config.bandwidth, "h3=10Mbit,*=100Mbit");
	assert_finding("h3, link: its link carries 10 Mbit/s (as BPSMPI_BANDWIDTH says), "
	               "those of other boxes 100 Mbit/s",
	               "bpsmpi-check --measure");
	assert_contains(report, "takes 8.33 times as long");
	tear_down(NULL);
	set_up(NULL);
	(void)strcpy(job.config.bandwidth, "s1=33Mbit,*=100Mbit");
	assert_finding("job, network: the link of server s1:7000 carries 33 Mbit/s (as "
	               "BPSMPI_BANDWIDTH says)",
	               "bpsmpi-check --measure");
}

static void bound_ranks(void **state)
{
	bind_rank(2, 0, 2); /* both CPUs of a core */
	bind_rank(3, 4, 1);
	assert_finding("h2, binding: 2 of 2 ranks are bound to one core each, of 4",
	               "mpirun --map-by slot:PE=2");
	tear_down(NULL);
	set_up(NULL);
	bind_rank(2, 0, 3);
	assert_int_equal(examine(), 0);
	tear_down(NULL);
	set_up(NULL);
	for (uint32_t i = 2; i < 8; i++) /* one core is left on h1, then none */
		cpus[0][i].usable = i < 4;
	bind_rank(0, 0, 1);
	bind_rank(1, 2, 1);
	assert_finding(
		"h1, binding: 2 ranks are bound to a core each, and no core is left",
		"mpirun --bind-to none");
	assert_null(strstr(report, "PE=2"));
	tear_down(NULL);
	set_up(NULL);
	bind_rank(2, 0, 1); /* one of two; then the only one */
	assert_finding("h2, binding: 1 of 2 ranks is bound to one core each, of 4",
	               "PE=2");
	tear_down(NULL);
	set_up(NULL);
	boxes[1].n_ranks = 1;
	bind_rank(2, 0, 1);
	assert_finding("h2, binding: its rank is bound to one core, of 4", "PE=2");
	tear_down(NULL);
	set_up(NULL);
	bind_rank(0, 0, 1);
	job.n_boxes = 1; /* no engine */
	job.size = 2;
	assert_int_equal(examine(), 0);
}

/* Four cores of two CPUs each, and two ranks on a box. */
static void ranks_that_share_a_core(void **state)
{
	static const char found[] =
		"h1, cores: as its ranks are bound, 1 of 2 has no core to itself, and 3 "
		"of 4 cores are free";

	job.n_boxes = 1;
	job.size = 2;
	bind_rank(0, 0, 1);
	bind_rank(1, 0, 1);
	assert_finding(found, "mpirun --map-by core --bind-to core ...\n"
	                      "mpirun --bind-to none ...");
	tear_down(NULL);
	job.findings = (struct bps_job_findings){ 0 };
	bind_rank(1, 1, 1); /* the same core's other CPU */
	assert_finding(found, "");
	tear_down(NULL);
	job.findings = (struct bps_job_findings){ 0 };
	bind_rank(0, 0, 3);
	bind_rank(1, 0, 2); /* rank 0 can have the second core */
	assert_int_equal(examine(), 0);
	/* Nothing else is left for them. */
	for (uint32_t i = 2; i < 8; i++)
		cpus[0][i].usable = false;
	bind_rank(0, 0, 1);
	assert_int_equal(examine(), 0);
}

/* The core of an engine is shared too, and another one is left for it. */
static void a_core_that_is_left_is_not_taken(void **state)
{
	for (uint32_t i = 4; i < 8; i++)
		cpus[1][i].usable = false;
	bind_rank(2, 0, 1);
	bind_rank(3, 0, 1);
	assert_int_equal(examine(), 2);
	assert_contains(report, "h2, binding: 2 of 2 ranks are bound to one core each, "
	                        "of 2 |");
	assert_contains(report,
	                "h2, cores: as its ranks are bound, 1 of 2 has no core to "
	                "itself, and 1 of 2 cores is free |");
	assert_null(strstr(report, "no core is left"));
	assert_null(strstr(report, "one less"));
}

static void more_ranks_than_cpus(void **state)
{
	machines[2].n_usable = 2;
	assert_int_equal(examine(), 0);
	machines[2].n_usable = machines[3].n_usable = 1;
	assert_finding("h[3-4], ranks: 2 ranks run on 1 CPU |",
	               "mpirun --map-by ppr:1:node ...");
	assert_contains(report, "slots=1 ");
}

/* -- measured -- */

/* As if every link carried @links[i] (boxes, servers), and @together of that at once. */
static void measure(const double *links, double together)
{
	assert_int_equal(bps_job_schedule(&job), 0);
	assert_int_equal(job.rates.n_rounds, N_BOXES);
	job.rates.alone = calloc(N_BOXES * N_BOXES, sizeof(int64_t));
	job.rates.together = calloc(N_BOXES * N_BOXES, sizeof(int64_t));
	for (uint32_t b = 0; b < N_BOXES; b++)
		for (uint32_t i = 0; i < N_BOXES; i++) {
			const uint32_t s = (b + i) % N_BOXES;
			double least = links[b];

			if (s >= N_SERVERS)
				continue;
			if (links[N_BOXES + s] < least)
				least = links[N_BOXES + s];
			job.rates.alone[b * N_BOXES + i] = (int64_t)least;
			job.rates.together[b * N_BOXES + i] =
				(int64_t)(links[N_BOXES + s] / N_BOXES * together);
		}
}

static void measured_links(void **state)
{
	const double fine[] = { 10e6, 9e6, 10e6, 10e6, 10e6, 10e6 };
	const double slow[] = { 10e6, 10e6, 5e6, 10e6, 10e6, 10e6 };
	const double server[] = { 10e6, 10e6, 10e6, 10e6, 10e6, 4e6 };

	measure(fine, 1);
	assert_int_equal(examine(), 0);
	assert_int_equal(job.links[1].source, BPS_RATE_MEASURED);
	assert_float_equal(job.plan.rates[1], 9e6, 1);
	assert_float_equal(job.plan.taken[1], 10e6, 1); /* by chance */
	/* A job divides as if it were, and waits for that link: it sends 1 + 2 y. */
	assert_float_equal(job.plan.shares[N_SERVERS + 1], 2.0 / 20, 1e-9);
	assert_float_equal(job.plan.allreduce_s * 9e6, 1 + 2 * 2.0 / 20, 1e-6);
	assert_float_equal(job.plan.slowest_s * 9e6, 1, 1e-9);
	tear_down(NULL);
	set_up(NULL);
	measure(slow, 1);
	assert_finding("h3, link: its link carries 40 Mbit/s (measured), those of other "
	               "boxes 80 Mbit/s",
	               "ip -s link show eth0");
	tear_down(NULL);
	set_up(NULL);
	measure(server, 1);
	assert_finding("job, network: the link of server s2:7000 carries 32 Mbit/s",
	               "ip");
}

static void measured_network(void **state)
{
	const double fine[] = { 10e6, 10e6, 10e6, 10e6, 10e6, 10e6 };

	measure(fine, 0.3);
	assert_finding("job, network: all at once boxes and servers exchange 48 Mbit/s; "
	               "their links carry 160 Mbit/s",
	               "TcpRetransSegs");
	assert_contains(report, "up to 3.3 times as long");
	tear_down(NULL);
	set_up(NULL);
	measure(fine, 1);
	job.rates.alone[2 * N_BOXES + 3] = 1000000; /* h3 with (2 + 3) % 4, s2 */
	assert_finding(
		"job, network: h3 and server s2:7000 exchange 8 Mbit/s, either with "
		"others 80 Mbit/s or more",
		"tracepath s2");
	tear_down(NULL);
	set_up(NULL);
	(void)strcpy(job.rates.why, "h2: it did not work");
	assert_finding("job, network: a measurement failed: h2: it did not work",
	               "--measure");
}

static void said_bandwidths_come_first(void **state)
{
	const double fine[] = { 10e6, 10e6, 10e6, 10e6, 10e6, 10e6 };

	measure(fine, 1);
	(void)strcpy(job.config.bandwidth, "h2=40Mbit,s1=160Mbit");
	assert_int_equal(bps_job_make_plan(&job), 0);
	assert_int_equal(job.links[1].source, BPS_RATE_SAID);
	assert_float_equal(job.links[1].bytes_per_s, 5e6, 1e-6);
	assert_float_equal(job.plan.rates[N_BOXES], 20e6, 1e-6);
	assert_int_equal(job.links[0].source, BPS_RATE_MEASURED);
}

static void what_is_not_known_is_as_fast_as_any(void **state)
{
	for (uint32_t b = 0; b < N_BOXES; b++)
		nics[b].bytes_per_s = 0;
	assert_int_equal(bps_job_make_plan(&job), 0);
	assert_false(job.plan.known);
	assert_float_equal(job.plan.rates[0], 1, 0);
	tear_down(NULL);
	set_up(NULL);
	assert_int_equal(bps_job_make_plan(&job), 0);
	assert_true(job.plan.known);
	assert_int_equal(job.links[N_BOXES].source, BPS_RATE_UNKNOWN);
	assert_float_equal(job.plan.rates[N_BOXES], 1.25e9, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_are_folded),
		TEST(hosts_of_one_name_are_told_apart),
		TEST(boxes_are_folded),
		TEST(ranks_that_are_bound_differ),
		TEST(the_kind_that_most_are_of),
		TEST(a_job_that_is_fine_has_none),
		TEST(the_same_on_several_boxes_is_one),
		TEST(preloads),
		TEST(versions),
		TEST(settings_that_do_nothing),
		TEST(a_server_that_some_do_not_reach),
		TEST(another_mtu),
		TEST(a_job_runs_by_the_library_s_own_facts),
		TEST(servers_need_memory_for_windows),
		TEST(what_keeps_the_library_out_is_found),
		TEST(a_port_that_is_taken),
		TEST(ways_that_are_lost),
		TEST(a_slow_card),
		TEST(a_link_that_is_said_to_be_slow),
		TEST(bound_ranks),
		TEST(ranks_that_share_a_core),
		TEST(a_core_that_is_left_is_not_taken),
		TEST(more_ranks_than_cpus),
		TEST(measured_links),
		TEST(measured_network),
		TEST(said_bandwidths_come_first),
		TEST(what_is_not_known_is_as_fast_as_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
