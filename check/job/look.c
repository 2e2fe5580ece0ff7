/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank finds out about itself, and the first one of a box about that box. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/note.h"
#include "check/job/impl.h"
#include "engine/cards.h"

#define LIBRARY "libbytepsmpi"

/* -- the preloaded library -- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The version in a segment of notes; NULL: it is another one's. */
static const char *find_version(const char *notes, size_t n_bytes)
{
	size_t at = 0;

	while (n_bytes - at >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *head = (const ElfW(Nhdr) *)(notes + at);
		const size_t owner = at + sizeof(*head);
		const size_t text = owner + ((head->n_namesz + 3) & ~(size_t)3);
		const size_t end = text + ((head->n_descsz + 3) & ~(size_t)3);

		if (end > n_bytes)
			break;
		if (head->n_type == BPS_NOTE_VERSION &&
		    head->n_namesz == sizeof(BPS_NOTE_OWNER) && head->n_descsz > 0 &&
		    memcmp(notes + owner, BPS_NOTE_OWNER, sizeof(BPS_NOTE_OWNER)) == 0 &&
		    notes[text + head->n_descsz - 1] == '\0')
			return notes + text;
		at = end;
	}
	return NULL;
}

/* Of our library, whatever it is called; or of one with its name and no such note. */
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct bps_job_rank *rank = data;
	const char *path = info->dlpi_name ? info->dlpi_name : "", *version = NULL;

	for (size_t i = 0; i < info->dlpi_phnum && !version; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_NOTE)
			version = find_version((const char *)info->dlpi_addr +
			                               segment->p_vaddr,
			                       segment->p_memsz);
	}
	if (!version && strncmp(base_name(path), LIBRARY, strlen(LIBRARY)) != 0)
		return 0;
	rank->preload = BPS_PRELOAD_CARRIED;
	(void)snprintf(rank->library, sizeof(rank->library), "%s", path);
	(void)snprintf(rank->version, sizeof(rank->version), "%s",
	               version ? version : "");
	return 1;
}

/* The entry of LD_PRELOAD that is meant to be our library. */
static void look_for_lost(struct bps_job_rank *rank)
{
	const char *at = bps_env_get(environ, "LD_PRELOAD");

	while (at && *at) {
		size_t n = strcspn(at, ": ");

		(void)snprintf(rank->library, sizeof(rank->library), "%.*s", (int)n, at);
		if (strncmp(base_name(rank->library), LIBRARY, strlen(LIBRARY)) == 0) {
			rank->preload = BPS_PRELOAD_LOST;
			return;
		}
		at += n + (at[n] != '\0');
	}
	rank->library[0] = '\0';
}

/* -- a rank -- */

/* What every rank may have its own value of is left out. */
static bool is_shared_setting(const char *row)
{
	return strncmp(row, BPS_ENV_PREFIX, strlen(BPS_ENV_PREFIX)) == 0 &&
	       strncmp(row, "BPSMPI_HOSTID=", 14) != 0 &&
	       strncmp(row, "BPSMPI_CPUS=", 12) != 0;
}

static char *list_settings(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	for (char **row = environ; *row; row++)
		if (is_shared_setting(*row) && !strchr(*row, '\n'))
			fprintf(out, "%s\n", *row);
	if (fclose(out)) {
		free(text);
		text = NULL;
	}
	return text;
}

/* As the library asks, of the CPUs that the launcher left to this rank. */
static void look_for_cpus(struct bps_job_rank *rank)
{
	const char *list = bps_env_get(environ, "BPSMPI_CPUS");
	int fd = bps_log_set_fd(-1), r = 0;

	if (list && list[0])
		r = bps_cpuset_usable("BPSMPI_CPUS", list, &rank->own_cpus);
	(void)bps_log_set_fd(fd);
	rank->cpus_wrong = r != 0;
}

int bps_job_look_rank(const struct bps_mpi *mpi, struct bps_job_rank *ret)
{
	bps_doctor_name_host(ret->host);
	(void)bps_cpuset_allowed(&ret->cpus);
	(void)snprintf(ret->mpi, sizeof(ret->mpi), "%s", mpi->version);
	if (!dl_iterate_phdr(visit, ret))
		look_for_lost(ret);
	look_for_cpus(ret);
	ret->settings = list_settings();
	return ret->settings ? 0 : -ENOMEM;
}

/* -- a box -- */

static void take_name(struct bps_job_box *box, const char *name)
{
	for (uint32_t i = 0; i < box->n_nics; i++)
		if (strcmp(box->nics[i], name) == 0)
			return;
	if (box->n_nics < BPS_JOB_NICS)
		(void)snprintf(box->nics[box->n_nics++], IF_NAMESIZE, "%.15s", name);
}

/* What BPSMPI_INTERFACE names that is not, the doctor says. */
static void look_for_nics(const char *interface, struct bps_job_box *box)
{
	struct bps_netif list[BPS_NETIF_MAX];
	char why[512];
	int n = bps_cards_choose(interface, list, BPS_NETIF_MAX, why, sizeof(why));

	box->inside = n > 0;
	for (int i = 0; i < n; i++) {
		take_name(box, list[i].name);
		box->inside = box->inside && list[i].loopback;
	}
}

static int look_for_uses(const struct bps_job_charter *charter, struct bps_job_box *box)
{
	const struct bps_machine *machine = box->machine;
	const struct bps_box_network network = { charter->interface, charter->hosts,
		                                 charter->n_hosts };
	enum bps_box_use *uses = calloc((size_t)machine->n_nics + 1, sizeof(*uses));

	box->uses = calloc((size_t)machine->n_nics + 1, sizeof(*box->uses));
	if (uses && box->uses) {
		bps_box_uses(machine, &network, uses);
		for (uint32_t i = 0; i < machine->n_nics; i++)
			box->uses[i] = uses[i];
		box->n_uses = machine->n_nics;
	}
	free(uses);
	return uses && box->uses ? 0 : -ENOMEM;
}

static int ask_servers(const struct bps_job_charter *charter, struct bps_job_box *box)
{
	if (charter->n_hosts == 0)
		return 0;
	box->servers = calloc(charter->n_hosts, sizeof(*box->servers));
	if (!box->servers)
		return -ENOMEM;
	box->n_servers = charter->n_hosts;
	for (uint32_t i = 0; i < charter->n_hosts; i++) {
		const struct bps_host *host = &charter->hosts[i];

		box->servers[i].port = host->port;
		bps_host_format(host, box->servers[i].name, sizeof(box->servers[i].name));
	}
	return bps_doctor_probe(box->servers, charter->hosts, charter->n_hosts);
}

/*
 * The environment that the doctor sees: rank 0's variables count, and of those of another
 * box none. LD_PRELOAD is looked at for all ranks together, BPSMPI_CPUS for each.
 */
static char **choose_environment(bool variables)
{
	size_t n = 0, n_kept = 0;
	char **ret;

	while (variables && environ[n])
		n++;
	ret = calloc(n + 1, sizeof(*ret));
	for (size_t i = 0; ret && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
		    strncmp(environ[i], "BPSMPI_CPUS=", 12) != 0)
			ret[n_kept++] = environ[i];
	return ret;
}

static int run_doctor(const struct bps_job_charter *charter, char *const *env,
                      struct bps_job_box *box)
{
	const struct bps_doctor_job job = { charter->interface, charter->hosts,
		                            charter->n_hosts, charter->connections };
	struct bps_doctor_facts *facts = calloc(1, sizeof(*facts));
	struct bps_doctor_report report = { .host = box->host };
	size_t bytes;
	int r = -ENOMEM;

	report.out = open_memstream(&box->findings, &bytes);
	if (facts && report.out)
		r = bps_doctor_collect(env, &job, facts);
	if (r == 0)
		bps_doctor_run_checks(facts, &report);
	if (report.out && fclose(report.out))
		r = -ENOMEM;
	if (facts)
		bps_doctor_facts_deinit(facts);
	free(facts);
	return r;
}

static int describe(struct bps_job_box *box)
{
	struct bps_cpuset all;
	int r;

	memset(&all, 0xff, sizeof(all));
	(void)bps_cpuset_bind(&all); /* the kernel keeps to what is allowed */
	r = bps_machine_look(NULL, &box->machine);
	return r ? r : bps_machine_add_nvml(box->machine, NULL);
}

int bps_job_look_box(const struct bps_job_charter *charter, bool variables,
                     struct bps_job_box *ret, char *ret_why, size_t why_bytes)
{
	char **env = choose_environment(variables);
	int r = env ? 0 : -ENOMEM;

	bps_doctor_name_host(ret->host);
	if (!r)
		r = describe(ret);
	look_for_nics(charter->interface, ret);
	if (!r)
		r = look_for_uses(charter, ret);
	if (!r)
		r = ask_servers(charter, ret);
	if (!r)
		r = run_doctor(charter, env, ret);
	free(env);
	if (r)
		(void)snprintf(ret_why, why_bytes, "this box cannot be described: %s",
		               strerrordesc_np(-r));
	return r;
}
