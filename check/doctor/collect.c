/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the doctor's facts come from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/config.h"
#include "base/cpuset.h"
#include "base/file.h"
#include "base/log.h"
#include "check/doctor/impl.h"
#include "topology/bandwidth.h"
#include "topology/machine.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* -- the box -- */

static bool file_says(const char *path, const char *text)
{
	char content[256];

	return bps_file_read(path, content, sizeof(content)) > 0 && strstr(content, text);
}

static void collect_memory(struct bps_doctor_facts *facts)
{
	struct rlimit limit;
	struct statvfs status;

	facts->memlock_bytes = UINT64_MAX;
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		facts->memlock_bytes = limit.rlim_cur;
	facts->no_huge_pages =
		file_says("/sys/kernel/mm/transparent_hugepage/enabled", "[never]");
	facts->shm = statvfs("/dev/shm", &status) == 0;
	if (facts->shm)
		facts->shm_free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
}

/* Some versions of glibc count those that are allowed, so the kernel is asked first. */
static uint32_t count_online(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	struct bps_cpuset online;
	char text[4096];

	if (bps_file_read("/sys/devices/system/cpu/online", text, sizeof(text)) > 0) {
		text[strcspn(text, "\n")] = '\0';
		if (bps_cpuset_parse("CPUs online", text, &online) == 0)
			return bps_cpuset_count(&online);
	}
	return n > 0 ? (uint32_t)n : 0;
}

static void collect_cpus(struct bps_doctor_facts *facts)
{
	struct bps_cpuset allowed;

	facts->n_online = count_online();
	facts->n_usable = facts->n_online;
	if (bps_cpuset_allowed(&allowed) == 0)
		facts->n_usable = bps_cpuset_count(&allowed);
	facts->n_granted = bps_cpu_quota("");
}

/* -- the network -- */

static void ask_kernel(int fd, struct bps_doctor_nic *nic)
{
	char path[64];
	struct ifreq request = { 0 };
	double bytes_per_s;

	memcpy(request.ifr_name, nic->netif.name, IF_NAMESIZE);
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		nic->up = request.ifr_flags & IFF_UP;
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		nic->mtu = (uint32_t)request.ifr_mtu;
	(void)snprintf(path, sizeof(path), "/sys/class/net/%s/device", nic->netif.name);
	nic->hardware = access(path, F_OK) == 0;
	if (bps_nic_speed("/sys/class/net", nic->netif.name, &bytes_per_s) == 0) {
		nic->mbits = (uint32_t)(bytes_per_s / 125e3);
		bps_doctor_ask_driver(fd, nic);
	}
}

static void collect_nics(struct bps_doctor_facts *facts)
{
	struct bps_netif list[BPS_NETIF_MAX];
	int n = bps_netif_list(list, BPS_NETIF_MAX);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	facts->n_nics = n > 0 ? n : 0;
	for (int i = 0; i < facts->n_nics; i++) {
		facts->nics[i] = (struct bps_doctor_nic){ .netif = list[i] };
		ask_kernel(fd, &facts->nics[i]);
	}
	if (fd >= 0)
		close(fd);
}

static void collect_name(struct bps_doctor_facts *facts)
{
	const char *why;

	bps_doctor_name_host(facts->host);
	facts->n_own =
		bps_addr_resolve(facts->host, 0, facts->own, (int)COUNT(facts->own),
	                         facts->own_why, sizeof(facts->own_why));
	if (facts->n_own < 0)
		facts->n_own = 0;
	why = strstr(facts->own_why, "': "); /* behind the name */
	if (why)
		memmove(facts->own_why, why + 3, strlen(why + 3) + 1);
}

/* Three numbers; anything else is left unknown. */
static void collect_buffer(const char *path, uint64_t *ret_bytes)
{
	char text[128], *at = text;

	if (bps_file_read(path, text, sizeof(text)) < 0)
		return;
	for (int i = 0; i < 3; i++)
		ret_bytes[i] = strtoull(at, &at, 10);
}

/* -- the configuration -- */

/* What stands behind "bpsmpi <host>:<pid> <folder>: " in each line. */
static void strip_lines(char *text)
{
	char *to = text, *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *colon = strstr(line, ": ");
		const char *from = colon ? colon + 2 : line;
		size_t n = strlen(from);

		memmove(to, from, n);
		to[n] = '\n';
		to += n + 1;
	}
	*to = '\0';
}

static char *read_lines(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	size_t n = end > 0 ? (size_t)end : 0;
	char *text = malloc(n + 1);
	ssize_t got;

	if (!text)
		return NULL;
	got = pread(fd, text, n, 0);
	text[got > 0 ? got : 0] = '\0';
	strip_lines(text);
	return text;
}

static void parse_all(char *const *env, struct bps_config *config)
{
	(void)bps_config_parse(config, env);
}

/* What the engines of several boxes read of these. */
static void parse_values(char *const *env, struct bps_config *config)
{
	struct bps_bandwidths bandwidths;
	struct bps_cpuset cpus;
	char why[512];

	(void)env;
	if (bps_bandwidths_parse("BPSMPI_BANDWIDTH", config->bandwidth, &bandwidths, why,
	                         sizeof(why)))
		bps_error("%s", why);
	bps_bandwidths_deinit(&bandwidths);
	(void)bps_cpuset_usable("BPSMPI_CPUS", config->cpus, &cpus);
}

typedef void (*parse_fn)(char *const *env, struct bps_config *config);

/* Parsers tell the log what is wrong, so they are listened to there. */
static char *listen_to(parse_fn parse, char *const *env, struct bps_config *config,
                       enum bps_log_level level)
{
	int fd = memfd_create("bpsmpi-check", MFD_CLOEXEC), log_fd;
	char *said;

	if (fd < 0)
		return NULL;
	log_fd = bps_log_set_fd(fd);
	bps_log_set_level(level);
	parse(env, config);
	bps_log_set_level(BPS_LOG_INFO); /* as it is in our programs */
	(void)bps_log_set_fd(log_fd);
	said = read_lines(fd);
	close(fd);
	return said;
}

static int collect_variables(char *const *env, struct bps_config *config,
                             struct bps_doctor_facts *facts)
{
	facts->variables = listen_to(parse_all, env, config, BPS_LOG_WARN);
	facts->values = listen_to(parse_all, env, config, BPS_LOG_ERROR);
	facts->readings = listen_to(parse_values, env, config, BPS_LOG_ERROR);
	return facts->variables && facts->values && facts->readings ? 0 : -ENOMEM;
}

static int probe_servers(const struct bps_hostlist *list, struct bps_doctor_facts *facts)
{
	struct bps_doctor_server *servers = calloc(list->n_hosts, sizeof(*servers));

	if (!servers)
		return -ENOMEM;
	for (uint32_t i = 0; i < list->n_hosts; i++) {
		const struct bps_host *host = &list->hosts[i];

		servers[i].port = host->port;
		bps_host_format(host, servers[i].name, sizeof(servers[i].name));
	}
	facts->servers = servers;
	facts->n_servers = list->n_hosts;
	return bps_doctor_probe(servers, list->hosts, list->n_hosts);
}

/* By how many connections a member reaches its servers, and by which cards. */
static void collect_ways(uint32_t connections, const struct bps_host *servers,
                         uint32_t n_servers, struct bps_doctor_facts *facts)
{
	facts->n_connections =
		(connections ? connections : 1) * (n_servers ? n_servers : 1);
	bps_doctor_collect_reach(servers, n_servers, facts);
}

static int collect_servers(const struct bps_config *config,
                           struct bps_doctor_facts *facts)
{
	struct bps_hostlist list = { 0 };
	int r = 0;

	if (config->servers[0])
		r = bps_hostlist_parse("BPSMPI_SERVERS", config->servers, BPS_SERVER_PORT,
		                       &list, facts->servers_wrong,
		                       sizeof(facts->servers_wrong));
	if (r != -ENOMEM)
		r = 0; /* a finding */
	collect_ways((uint32_t)config->connections, list.hosts, list.n_hosts, facts);
	if (!r && list.n_hosts > 0)
		r = probe_servers(&list, facts);
	bps_hostlist_deinit(&list);
	return r;
}

/* The addresses that BPSMPI_INTERFACE does not mean. */
static void collect_interface(const char *interface, struct bps_doctor_facts *facts)
{
	struct bps_netif list[BPS_NETIF_MAX];
	struct bps_addr chosen[BPS_NETIF_MAX];
	int n;

	if (!interface[0])
		return;
	for (int i = 0; i < facts->n_nics; i++)
		list[i] = facts->nics[i].netif;
	n = bps_netif_match(list, facts->n_nics, interface, chosen, BPS_NETIF_MAX,
	                    facts->interface_wrong, sizeof(facts->interface_wrong));
	for (int i = 0; n > 0 && i < facts->n_nics; i++) {
		facts->nics[i].left_out = true;
		for (int j = 0; j < n; j++)
			if (bps_addr_equal(&list[i].addr, &chosen[j]))
				facts->nics[i].left_out = false;
	}
}

int bps_doctor_collect(char *const *env, const struct bps_doctor_job *job,
                       struct bps_doctor_facts *ret_facts)
{
	struct bps_config config = { 0 };
	int r;

	*ret_facts = (struct bps_doctor_facts){ 0 };
	ret_facts->no_sysfs = access(BPS_MACHINE_SYSFS, F_OK) != 0;
	collect_name(ret_facts);
	collect_memory(ret_facts);
	collect_cpus(ret_facts);
	collect_nics(ret_facts);
	bps_doctor_collect_routes(ret_facts);
	bps_doctor_collect_ports("/sys/class/infiniband", ret_facts);
	bps_doctor_collect_preloads(bps_env_get(env, "LD_PRELOAD"), ret_facts);
	collect_buffer("/proc/sys/net/ipv4/tcp_rmem", ret_facts->tcp_rmem);
	collect_buffer("/proc/sys/net/ipv4/tcp_wmem", ret_facts->tcp_wmem);
	r = collect_variables(env, &config, ret_facts);
	if (!r)
		collect_interface(job ? job->interface : config.interface, ret_facts);
	if (!r && job)
		collect_ways(job->connections, job->servers, job->n_servers, ret_facts);
	else if (!r)
		r = collect_servers(&config, ret_facts);
	if (r)
		bps_error("cannot look at the configuration: %s", strerrordesc_np(-r));
	return r;
}

void bps_doctor_facts_deinit(struct bps_doctor_facts *facts)
{
	free(facts->variables);
	free(facts->values);
	free(facts->readings);
	free(facts->servers);
	facts->variables = facts->values = facts->readings = NULL;
	facts->servers = NULL;
	facts->n_servers = 0;
}
