/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which boxes are alike. A box is a list of traits: what a user would call it by, each
 * with a name and a value as text. Boxes with the same traits, and as many ranks and the
 * engine on the same CPUs, are alike; others differ in what of that differs. What differs
 * between equal machines is no trait: the numbers of buses, or a few pages of memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check/job/impl.h"
#include "topology/bandwidth.h"

#define MEMORY_STEP  (UINT64_C(1) << 29) /* less is a matter of the firmware */
#define VALUE_BYTES  512
#define TRAITS_FIRST 16u

struct trait {
	char name[64];
	char value[VALUE_BYTES];
};

struct traits {
	struct trait *list; /* owned */
	uint32_t n, max;
	bool failed;
};

static void add(struct traits *traits, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add(struct traits *traits, const char *name, const char *format, ...)
{
	struct trait *trait;
	va_list args;

	if (traits->n == traits->max) {
		uint32_t max = traits->max ? 2 * traits->max : TRAITS_FIRST;
		struct trait *list = realloc(traits->list, max * sizeof(*list));

		if (!list) {
			traits->failed = true;
			return;
		}
		traits->list = list;
		traits->max = max;
	}
	trait = &traits->list[traits->n++];
	(void)snprintf(trait->name, sizeof(trait->name), "%s", name);
	va_start(args, format);
	(void)vsnprintf(trait->value, sizeof(trait->value), format, args);
	va_end(args);
}

const struct bps_machine_nic *bps_job_nic(const struct bps_job_box *box, const char *name)
{
	for (uint32_t i = 0; i < box->machine->n_nics; i++)
		if (strcmp(box->machine->nics[i].name, name) == 0)
			return &box->machine->nics[i];
	return NULL;
}

/* A card, or another interface that the job can use. */
static bool matters(const struct bps_job_box *box, const struct bps_machine_nic *nic)
{
	for (uint32_t i = 0; i < box->n_nics; i++)
		if (strcmp(box->nics[i], nic->name) == 0)
			return true;
	return !nic->is_virtual;
}

/* The same fields in the same order, so that those which differ can be told. */
static void add_nics(struct traits *traits, const struct bps_job_box *box)
{
	static const char *const links[] = {
		[BPS_MACHINE_LINK_UNKNOWN] = "state unknown",
		[BPS_MACHINE_LINK_DOWN] = "down",
		[BPS_MACHINE_LINK_UP] = "up",
	};

	for (uint32_t i = 0; i < box->machine->n_nics; i++) {
		const struct bps_machine_nic *nic = &box->machine->nics[i];
		char name[64], rate[BPS_RATE_CHARS] = "speed unknown";

		if (!matters(box, nic))
			continue;
		(void)snprintf(name, sizeof(name), "NIC %s", nic->name);
		if (nic->bytes_per_s > 0)
			bps_rate_format(nic->bytes_per_s, rate);
		add(traits, name, "%s, MTU %u, %s, %s, %s", rate, nic->mtu,
		    links[nic->link], nic->verbs[0] ? "RDMA" : "no RDMA",
		    nic->is_virtual ? "virtual" : "hardware");
	}
}

/* Equal ones by their number. */
static void add_gpus(struct traits *traits, const struct bps_machine *machine)
{
	for (uint32_t i = 0; i < machine->n_gpus; i++) {
		const char *model = machine->gpus[i].model;
		uint32_t n = 0, before = 0;

		for (uint32_t j = 0; j < machine->n_gpus; j++) {
			bool same = strcmp(machine->gpus[j].model, model) == 0;

			n += same;
			before += same && j < i;
		}
		if (before == 0)
			add(traits, model[0] ? model : "GPUs of unknown name", "%u", n);
	}
}

static void add_cpus(struct traits *traits, const struct bps_machine *machine)
{
	for (uint32_t i = 0; i < machine->n_packages; i++)
		if (i == 0 || strcmp(machine->packages[i].model,
		                     machine->packages[i - 1].model) != 0)
			add(traits, "CPU model", "%s", machine->packages[i].model);
	add(traits, "packages", "%u", machine->n_packages);
	add(traits, "cores", "%u", machine->n_cores);
	add(traits, "CPUs", "%u", machine->n_cpus);
	add(traits, "usable CPUs", "%u", machine->n_usable);
	if (machine->cpu_quota != UINT32_MAX)
		add(traits, "CPUs that control groups grant", "%u", machine->cpu_quota);
}

static void list_traits(const struct bps_job_box *box, struct traits *ret)
{
	const struct bps_machine *machine = box->machine;

	*ret = (struct traits){ 0 };
	add(ret, "ranks", "%u", box->n_ranks);
	add(ret, "memory", "%.1f GiB",
	    0.5 * (double)((machine->memory_bytes + MEMORY_STEP / 2) / MEMORY_STEP));
	add_cpus(ret, machine);
	add(ret, "memory nodes", "%u", machine->n_nodes);
	add(ret, "PCIe bridges", "%u", machine->n_bridges);
	add_nics(ret, box);
	add_gpus(ret, machine);
}

static const char *value_of(const struct traits *traits, const char *name)
{
	for (uint32_t i = 0; i < traits->n; i++)
		if (strcmp(traits->list[i].name, name) == 0)
			return traits->list[i].value;
	return NULL;
}

/* The fields of @value that are not those of @other in the same place. */
static char *differing(const char *value, const char *other, char *ret)
{
	size_t used = 0;

	ret[0] = '\0';
	while (*value) {
		size_t n = strcspn(value, ","), m = strcspn(other, ",");

		if (n != m || strncmp(value, other, n) != 0)
			used += (size_t)snprintf(ret + used, VALUE_BYTES - used, "%s%.*s",
			                         used ? ", " : "", (int)n, value);
		value += n + strspn(value + n, ", ");
		other += m + strspn(other + m, ", ");
	}
	return ret;
}

static void write_difference(FILE *out, const struct traits *of,
                             const struct traits *other)
{
	char here[VALUE_BYTES], there[VALUE_BYTES];

	for (uint32_t i = 0; i < of->n; i++) {
		const struct trait *trait = &of->list[i];
		const char *value = value_of(other, trait->name);

		if (!value)
			fprintf(out, "%s: %s instead of none\n", trait->name,
			        trait->value);
		else if (strcmp(value, trait->value) != 0)
			fprintf(out, "%s: %s instead of %s\n", trait->name,
			        differing(trait->value, value, here),
			        differing(value, trait->value, there));
	}
	for (uint32_t i = 0; i < other->n; i++)
		if (!value_of(of, other->list[i].name))
			fprintf(out, "%s: none instead of %s\n", other->list[i].name,
			        other->list[i].value);
}

/* -- where ranks run -- */

static const struct bps_cpuset *cpus_of(const struct bps_job *job,
                                        const struct bps_job_box *box, uint32_t i)
{
	return &job->ranks[box->ranks[i]].cpus;
}

/* On all that this box has for them. */
static bool runs_anywhere(const struct bps_machine *machine,
                          const struct bps_cpuset *cpus)
{
	for (uint32_t i = 0; i < machine->n_cpus; i++)
		if (machine->cpus[i].usable &&
		    !bps_cpuset_has(cpus, machine->cpus[i].number))
			return false;
	return true;
}

static bool is_bound_alike(const struct bps_job *job, const struct bps_job_box *box,
                           const struct bps_job_box *other)
{
	for (uint32_t i = 0; i < box->n_ranks; i++) {
		const struct bps_cpuset *a = cpus_of(job, box, i);
		const struct bps_cpuset *b = cpus_of(job, other, i);

		if (memcmp(a, b, sizeof(*a)) != 0 &&
		    !(runs_anywhere(box->machine, a) && runs_anywhere(other->machine, b)))
			return false;
	}
	return true;
}

/* In the order of ranks: "any", or "0-3, then 4-7", "0-3 (2 ranks), then any". */
static void write_binding(FILE *out, const struct bps_job *job,
                          const struct bps_job_box *box)
{
	for (uint32_t i = 0, end; i < box->n_ranks; i = end) {
		const struct bps_cpuset *cpus = cpus_of(job, box, i);
		char text[VALUE_BYTES] = "any";

		for (end = i + 1; end < box->n_ranks; end++)
			if (memcmp(cpus, cpus_of(job, box, end), sizeof(*cpus)) != 0)
				break;
		if (!runs_anywhere(box->machine, cpus))
			bps_cpuset_format(cpus, text, sizeof(text));
		fprintf(out, "%s%s", i > 0 ? ", then " : "", text);
		if (end - i > 1 && end - i < box->n_ranks)
			fprintf(out, " (%u ranks)", end - i);
	}
}

static void write_bindings(FILE *out, const struct bps_job *job,
                           const struct bps_job_box *box, const struct bps_job_box *other)
{
	if (box->n_ranks != other->n_ranks || is_bound_alike(job, box, other))
		return;
	fputs("its ranks run on CPUs: ", out);
	write_binding(out, job, box);
	fputs(" instead of ", out);
	write_binding(out, job, other);
	putc('\n', out);
}

/* What BPSMPI_CPUS leaves to the engine, which the first rank starts. */
static void write_engines(FILE *out, const struct bps_job *job,
                          const struct bps_job_box *box, const struct bps_job_box *other)
{
	const struct bps_cpuset *own = &job->ranks[box->ranks[0]].own_cpus;
	const struct bps_cpuset *there = &job->ranks[other->ranks[0]].own_cpus;
	char text[VALUE_BYTES] = "none", other_text[VALUE_BYTES] = "none";

	if (memcmp(own, there, sizeof(*own)) == 0)
		return;
	if (bps_cpuset_count(own) > 0)
		bps_cpuset_format(own, text, sizeof(text));
	if (bps_cpuset_count(there) > 0)
		bps_cpuset_format(there, other_text, sizeof(other_text));
	fprintf(out, "BPSMPI_CPUS: %s instead of %s\n", text, other_text);
}

char *bps_job_difference(const struct bps_job *job, const struct bps_job_box *box,
                         const struct bps_job_box *other)
{
	struct traits a, b;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	list_traits(box, &a);
	list_traits(other, &b);
	if (out)
		write_difference(out, &a, &b);
	if (out) {
		write_bindings(out, job, box, other);
		write_engines(out, job, box, other);
	}
	if (!out || fclose(out) || a.failed || b.failed) {
		free(text);
		text = NULL;
	}
	free(a.list);
	free(b.list);
	return text;
}

int bps_job_fold(struct bps_job *job)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		job->boxes[b].like = b;
		for (uint32_t i = 0; i < b && job->boxes[b].like == b; i++) {
			char *text;

			if (job->boxes[i].like != i)
				continue;
			text = bps_job_difference(job, &job->boxes[b], &job->boxes[i]);
			if (!text)
				return -ENOMEM;
			if (!text[0])
				job->boxes[b].like = i;
			free(text);
		}
	}
	return 0;
}

uint32_t bps_job_count_alike(const struct bps_job *job, uint32_t box)
{
	uint32_t n = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++)
		n += job->boxes[b].like == job->boxes[box].like;
	return n;
}

uint32_t bps_job_common(const struct bps_job *job)
{
	uint32_t best = 0, most = 0;

	for (uint32_t b = 0; b < job->n_boxes; b++) {
		uint32_t n = bps_job_count_alike(job, b);

		if (n > most) {
			most = n;
			best = b;
		}
	}
	return best;
}
