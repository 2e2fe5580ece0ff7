/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks tell rank 0, on its way as bytes: it arrives as it left, and bytes that
 * nobody wrote like this are refused or become something within its bounds.
 */
#include "tests/unit/base/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "check/job/impl.h"

#define N_FLIPS 20000

static const struct bps_machine_place nowhere = { BPS_MACHINE_NONE, BPS_MACHINE_NONE,
	                                          BPS_MACHINE_NONE };

/* What is compared as bytes has no bytes that nobody set. */
static const struct bps_machine_cpu a_cpu = { 4000, 1, 1, 1, true };
static const struct bps_machine_nic a_nic = {
	"eth0", "0000:3c:00.0",      "mlx5_0", "Card",     1.25e9,
	9000,   BPS_MACHINE_LINK_UP, true,     { 1, 1, 1 }
};
static const struct bps_machine_gpu a_gpu = { "0000:3d:00.0", "GPU",  0x302,
	                                      0x10de,         0xffff, { 1, 1, 1 } };

static void *array(uint32_t n, size_t bytes)
{
	void *ret = calloc(n, bytes);

	assert_non_null(ret);
	return ret;
}

/* Something in every field. */
static struct bps_machine *make_machine(void)
{
	struct bps_machine *m = array(1, sizeof(*m));

	*m = (struct bps_machine){
		.source = BPS_MACHINE_HWLOC,
		.host = "cpu7",
		.memory_bytes = UINT64_C(515) << 30,
		.n_packages = 2,
		.n_nodes = 2,
		.n_cpus = 2,
		.n_cores = 2,
		.n_bridges = 2,
		.n_nics = 1,
		.n_gpus = 2,
		.packages = array(2, sizeof(*m->packages)),
		.nodes = array(2, sizeof(*m->nodes)),
		.cpus = array(2, sizeof(*m->cpus)),
		.bridges = array(2, sizeof(*m->bridges)),
		.nics = array(1, sizeof(*m->nics)),
		.gpus = array(2, sizeof(*m->gpus)),
		.distances = array(4, sizeof(uint32_t)),
		.nvlinks = array(4, sizeof(uint32_t)),
		.n_usable = 1,
		.cpu_quota = 3,
	};
	bps_cpuset_add(&m->usable, 4000);
	m->packages[1] = (struct bps_machine_package){ 1, "Model X" };
	m->nodes[1] = (struct bps_machine_node){ 8, 1, UINT64_C(1) << 40, 1, 1 };
	memcpy(&m->cpus[1], &a_cpu, sizeof(a_cpu));
	m->bridges[0] = (struct bps_machine_bridge){ "0000:3a:00.0", nowhere };
	m->bridges[1] = (struct bps_machine_bridge){ "0000:3b:00.0", { 1, 1, 0 } };
	memcpy(&m->nics[0], &a_nic, sizeof(a_nic));
	memcpy(&m->gpus[1], &a_gpu, sizeof(a_gpu));
	m->gpus[0].at = nowhere;
	m->distances[1] = 21;
	m->nvlinks[2] = 18;
	return m;
}

static struct bps_job_said make_said(void)
{
	struct bps_job_said said = {
		.problem = "what is wrong",
		.rank = { .host = "cpu7",
		          .preload = BPS_PRELOAD_CARRIED,
		          .library = "/opt/lib.so",
		          .version = "9.8.7",
		          .mpi = "MPI x",
		          .settings = strdup("BPSMPI_A=1\nBPSMPI_B=2\n"),
		          .cpus_wrong = true },
		.has_box = true,
		.box = { .host = "cpu7",
		         .nics = { "eth0", "eth1" },
		         .n_nics = 2,
		         .uses = array(1, sizeof(uint32_t)),
		         .n_uses = 1,
		         .servers = array(2, sizeof(struct bps_doctor_server)),
		         .n_servers = 2,
		         .findings = strdup("cpu7, x: y\n") },
	};

	bps_cpuset_add(&said.rank.own_cpus, 3);
	bps_cpuset_add(&said.rank.cpus, 0);
	bps_cpuset_add(&said.rank.cpus, BPS_CPU_MAX - 1);
	said.box.machine = make_machine();
	said.box.uses[0] = BPS_BOX_APART;
	said.box.servers[0] = (struct bps_doctor_server){
		.name = "s1:7000",
		.port = 7000,
		.answer = BPS_DOCTOR_SOFTWARE,
		.detail = "detail",
		.round_trip_ns = 1234567,
		.id = 89,
		.left_bytes = 90,
	};
	said.box.servers[1] = (struct bps_doctor_server){
		.name = "s1:7001",
		.port = 7001,
		.back = 1,
		.here = true,
	};
	said.box.inside = true;
	said.box.lost = array(1, sizeof(struct bps_job_way));
	said.box.n_lost = 1;
	said.box.lost[0] =
		(struct bps_job_way){ 0, "eth1", "10.1.0.9:7000", "no answer" };
	said.box.port_error = EADDRINUSE;
	said.box.deaf = array(1, sizeof(struct bps_job_deaf));
	said.box.n_deaf = 1;
	said.box.deaf[0] = (struct bps_job_deaf){ 3, BPS_DOCTOR_TIMED_OUT };
	return said;
}

static struct bps_parcel write_said(struct bps_job_said *said)
{
	struct bps_parcel parcel = { 0 };

	bps_job_said_carry(&parcel, said);
	assert_int_equal(parcel.error, 0);
	return parcel;
}

static int read_said(void *bytes, size_t n_bytes, struct bps_job_said *ret)
{
	struct bps_parcel parcel = bps_parcel_open(bytes, n_bytes);

	*ret = (struct bps_job_said){ 0 };
	bps_job_said_carry(&parcel, ret);
	if (!parcel.error)
		assert_true(parcel.at <= n_bytes);
	return parcel.error;
}

static void assert_same_machine(const struct bps_machine *a, const struct bps_machine *b)
{
	assert_int_equal(a->source, b->source);
	assert_string_equal(a->host, b->host);
	assert_true(a->memory_bytes == b->memory_bytes && a->n_cores == b->n_cores);
	assert_true(a->n_usable == b->n_usable && a->cpu_quota == b->cpu_quota);
	assert_memory_equal(&a->usable, &b->usable, sizeof(a->usable));
	assert_true(a->n_packages == 2 && a->n_nodes == 2 && a->n_cpus == 2);
	assert_true(a->n_bridges == 2 && a->n_nics == 1 && a->n_gpus == 2);
	assert_memory_equal(a->packages, b->packages, 2 * sizeof(*a->packages));
	assert_memory_equal(a->nodes, b->nodes, 2 * sizeof(*a->nodes));
	assert_memory_equal(a->cpus, b->cpus, 2 * sizeof(*a->cpus));
	assert_memory_equal(a->bridges, b->bridges, 2 * sizeof(*a->bridges));
	assert_memory_equal(a->nics, b->nics, sizeof(*a->nics));
	assert_memory_equal(a->gpus, b->gpus, 2 * sizeof(*a->gpus));
	assert_memory_equal(a->distances, b->distances, 4 * sizeof(uint32_t));
	assert_memory_equal(a->nvlinks, b->nvlinks, 4 * sizeof(uint32_t));
}

static void all_arrives(void **state)
{
	struct bps_job_said said = make_said(), got;
	struct bps_parcel parcel = write_said(&said);

	assert_int_equal(read_said(parcel.bytes, parcel.n_bytes, &got), 0);
	assert_string_equal(got.problem, "what is wrong");
	assert_string_equal(got.rank.host, "cpu7");
	assert_int_equal(got.rank.preload, BPS_PRELOAD_CARRIED);
	assert_string_equal(got.rank.library, "/opt/lib.so");
	assert_string_equal(got.rank.version, "9.8.7");
	assert_string_equal(got.rank.mpi, "MPI x");
	assert_string_equal(got.rank.settings, "BPSMPI_A=1\nBPSMPI_B=2\n");
	assert_true(got.rank.cpus_wrong);
	assert_memory_equal(&got.rank.cpus, &said.rank.cpus, sizeof(said.rank.cpus));
	assert_memory_equal(&got.rank.own_cpus, &said.rank.own_cpus,
	                    sizeof(said.rank.own_cpus));
	assert_string_equal(got.box.host, "cpu7");
	assert_int_equal(got.box.n_nics, 2);
	assert_string_equal(got.box.nics[1], "eth1");
	assert_int_equal(got.box.n_lost, 1);
	assert_int_equal(got.box.lost[0].server, 0);
	assert_string_equal(got.box.lost[0].card, "eth1");
	assert_string_equal(got.box.lost[0].to, "10.1.0.9:7000");
	assert_string_equal(got.box.lost[0].why, "no answer");
	assert_int_equal(got.box.port_error, EADDRINUSE);
	assert_int_equal(got.box.n_deaf, 1);
	assert_int_equal(got.box.deaf[0].box, 3);
	assert_int_equal(got.box.deaf[0].answer, BPS_DOCTOR_TIMED_OUT);
	assert_int_equal(got.box.n_uses, 1);
	assert_int_equal(got.box.uses[0], BPS_BOX_APART);
	assert_int_equal(got.box.n_servers, 2);
	assert_string_equal(got.box.servers[0].name, "s1:7000");
	assert_string_equal(got.box.servers[0].detail, "detail");
	assert_int_equal(got.box.servers[0].answer, BPS_DOCTOR_SOFTWARE);
	assert_int_equal(got.box.servers[0].port, 7000);
	assert_true(got.box.servers[0].round_trip_ns == 1234567);
	assert_true(got.box.servers[0].id == 89);
	assert_true(got.box.servers[0].left_bytes == 90);
	assert_true(got.box.servers[0].back == 0 && !got.box.servers[0].here);
	assert_true(got.box.servers[1].back == 1 && got.box.servers[1].here);
	assert_true(got.box.inside);
	assert_string_equal(got.box.findings, "cpu7, x: y\n");
	assert_same_machine(got.box.machine, said.box.machine);
	bps_job_said_deinit(&got);
	bps_job_said_deinit(&said);
	bps_parcel_deinit(&parcel);
}

static void nothing_is_missing(void **state)
{
	struct bps_job_said said = make_said(), got;
	struct bps_parcel parcel = write_said(&said);

	for (size_t n = 0; n < parcel.n_bytes; n++) {
		uint8_t *part = malloc(n + 1); /* so that a sanitizer sees its end */

		memcpy(part, parcel.bytes, n);
		part = realloc(part, n ? n : 1);
		assert_int_equal(read_said(part, n, &got), -EBADMSG);
		bps_job_said_deinit(&got);
		free(part);
	}
	bps_job_said_deinit(&said);
	bps_parcel_deinit(&parcel);
}

static void assert_printable(const char *text)
{
	for (; *text; text++)
		assert_true((*text >= ' ' && *text <= '~') || *text == '\n');
}

/* What is read of bytes that were changed. */
static void assert_bounds(const struct bps_job_said *said)
{
	const struct bps_machine *m = said->box.machine;

	assert_printable(said->rank.host);
	assert_printable(said->rank.settings);
	assert_true(said->rank.preload < BPS_PRELOAD_N);
	if (!said->has_box)
		return;
	assert_true(said->box.n_nics <= BPS_JOB_NICS);
	assert_int_equal(said->box.n_uses, m->n_nics);
	for (uint32_t i = 0; i < said->box.n_uses; i++)
		assert_true(said->box.uses[i] < BPS_BOX_N_USES);
	assert_printable(said->box.findings);
	for (uint32_t i = 0; i < said->box.n_servers; i++)
		assert_true(said->box.servers[i].answer < BPS_DOCTOR_N_ANSWERS &&
		            said->box.servers[i].back <= i);
	for (uint32_t i = 0; i < m->n_bridges; i++)
		assert_true(m->bridges[i].at.bridge == BPS_MACHINE_NONE ||
		            m->bridges[i].at.bridge < i);
	for (uint32_t i = 0; i < m->n_nics; i++) {
		const struct bps_machine_nic *nic = &m->nics[i];

		assert_true(nic->at.node == BPS_MACHINE_NONE ||
		            nic->at.node < m->n_nodes);
		assert_true(nic->bytes_per_s >= 0 && isfinite(nic->bytes_per_s));
		assert_printable(nic->model);
	}
	for (uint32_t i = 0; i < m->n_cpus; i++)
		assert_true(m->cpus[i].number < BPS_CPU_MAX);
}

static void changed_bytes_stay_in_bounds(void **state)
{
	struct bps_job_said said = make_said(), got;
	struct bps_parcel parcel = write_said(&said);
	struct bps_prng prng;
	uint32_t n_refused = 0;

	bps_prng_init(&prng, 42);
	for (int i = 0; i < N_FLIPS; i++) {
		uint8_t *at = parcel.bytes + bps_prng_below(&prng, parcel.n_bytes);
		const uint8_t before = *at;

		*at = i % 3 ? (uint8_t)bps_prng_u64(&prng) : 0xff;
		if (read_said(parcel.bytes, parcel.n_bytes, &got) == 0)
			assert_bounds(&got);
		else
			n_refused++;
		bps_job_said_deinit(&got);
		*at = before;
	}
	assert_true(n_refused > N_FLIPS / 100 && n_refused < N_FLIPS);
	bps_job_said_deinit(&said);
	bps_parcel_deinit(&parcel);
}

static void text_is_tamed(void **state)
{
	char text[8] = "a\x1b\xc3"
		       "b\n",
	     *lines = text;
	struct bps_parcel parcel = { 0 }, read;
	char got[8], *got_lines;

	bps_parcel_text(&parcel, text, sizeof(text));
	bps_parcel_string(&parcel, &lines, 100);
	read = bps_parcel_open(parcel.bytes, parcel.n_bytes);
	bps_parcel_text(&read, got, sizeof(got));
	bps_parcel_string(&read, &got_lines, 100);
	assert_int_equal(read.error, 0);
	assert_string_equal(got, "a??b?");
	assert_string_equal(got_lines, "a??b\n");
	free(got_lines);
	bps_parcel_deinit(&parcel);
}

static void another_version_is_told(void **state)
{
	struct bps_job_charter charter = { 0 };
	struct bps_parcel parcel = { 0 }, read;
	char version[32] = "0.0.0-other";

	bps_parcel_text(&parcel, version, sizeof(version));
	read = bps_parcel_open(parcel.bytes, parcel.n_bytes);
	bps_job_charter_carry(&read, &charter);
	assert_int_equal(read.error, -EPROTONOSUPPORT);
	assert_int_equal(charter.n_hosts, 0);
	bps_parcel_deinit(&parcel);
}

static void a_charter_arrives(void **state)
{
	struct bps_host hosts[] = { { "s1", 7000 }, { "fd00::2", 7001 } };
	struct bps_job_charter charter = { true, "eth1", 16, 7002, hosts, 2 },
			       got = { 0 };
	struct bps_parcel parcel = { 0 }, read;

	bps_job_charter_carry(&parcel, &charter);
	read = bps_parcel_open(parcel.bytes, parcel.n_bytes);
	bps_job_charter_carry(&read, &got);
	assert_int_equal(read.error, 0);
	assert_true(got.measure);
	assert_string_equal(got.interface, "eth1");
	assert_int_equal(got.connections, 16);
	assert_int_equal(got.port, 7002);
	assert_int_equal(got.n_hosts, 2);
	assert_string_equal(got.hosts[1].name, "fd00::2");
	assert_int_equal(got.hosts[1].port, 7001);
	bps_job_charter_deinit(&got);
	bps_parcel_deinit(&parcel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_arrives),
		cmocka_unit_test(nothing_is_missing),
		cmocka_unit_test(changed_bytes_stay_in_bounds),
		cmocka_unit_test(text_is_tamed),
		cmocka_unit_test(another_version_is_told),
		cmocka_unit_test(a_charter_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
