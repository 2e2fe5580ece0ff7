/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bpsmpi-server(8): the summation server as a process of its own. The main thread starts
 * it and waits for a signal; everything else is engine/serverd.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/output.h"
#include "engine/kernels/kernels.h"
#include "engine/serverd.h"
#include "engine/window.h"
#include "tools/server-options.h"
#include "tools/server-place.h"
#include "transport/netif.h"

enum { EXIT_FINE = 0, EXIT_CANNOT = 1, EXIT_USAGE = 2 };

/* Descriptors that are not connections, with room to spare. */
#define OTHER_DESCRIPTORS 256

/* A peer that takes its time to hear the end is not waited for longer than this. */
#define CLOSE_S 5

/* How often to look whether the jobs have left, once the server was told to end. */
#define LOOK_NS (20 * BPS_NS_PER_MS)

#define AMOUNT_CHARS 32

/* "1 GiB", "1.25 MiB" */
static const char *format_amount(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double amount = (double)bytes;
	size_t unit = 0;

	while (amount >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		amount /= 1024;
		unit++;
	}
	snprintf(buf, AMOUNT_CHARS, "%.4g %s", amount, units[unit]);
	return buf;
}

/* Where to listen. */

static struct bps_addr any_address(sa_family_t family)
{
	struct bps_addr addr = { .sa.sa_family = family };

	addr.bytes = family == AF_INET ? sizeof(addr.in) : sizeof(addr.in6);
	return addr; /* all zero: INADDR_ANY, in6addr_any */
}

static bool has_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Return: how many; a negative errno, logged. */
static int choose_addresses(const struct bps_server_options *options,
                            struct bps_addr *ret)
{
	const char *where = options->config.interface;
	char why[512];
	int n = 0;

	if (where[0]) {
		n = bps_netif_select(where, ret, BPS_SERVERD_MAX_ADDRS, why, sizeof(why));
		if (n < 0)
			bps_error("cannot listen on port %u of %s: %s", options->port,
			          where, why);
	} else {
		ret[n++] = any_address(AF_INET);
		if (has_ipv6())
			ret[n++] = any_address(AF_INET6);
	}
	for (int i = 0; i < n; i++)
		bps_addr_set_port(&ret[i], options->port);
	return n;
}

/* A connection is a descriptor; take what the hard limit gives. */
static void raise_descriptor_limit(uint32_t max_connections)
{
	rlim_t wanted = (rlim_t)max_connections + OTHER_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < wanted)
		bps_warn(
			"at most %llu descriptors are allowed, too few for %u connections; "
			"raise the limit (ulimit -n), or lower --max-connections",
			(unsigned long long)limit.rlim_cur, max_connections);
}

/* What is said. */

static void announce(const struct bps_serverd *serverd, int n_addrs,
                     const struct bps_config *config)
{
	uint32_t n_reducers = bps_serverd_n_reducers(serverd);
	char where[BPS_SERVERD_MAX_ADDRS * BPS_ADDR_CHARS] = "", one[BPS_ADDR_CHARS];
	char memory[AMOUNT_CHARS];
	size_t used = 0;

	for (int i = 0; i < n_addrs; i++)
		used += (size_t)snprintf(
			where + used, sizeof(where) - used, "%s%s", i ? " and " : "",
			bps_addr_format(bps_serverd_addr(serverd, i), one, sizeof(one)));
	bps_info("listening on %s, %d loop%s, %u reducer%s, kernels %s, memory bound %s",
	         where, config->loops, config->loops == 1 ? "" : "s", n_reducers,
	         n_reducers == 1 ? "" : "s", bps_kernels_isa(),
	         format_amount(config->server_memory_bytes, memory));
}

static void sum_up(struct bps_server *server)
{
	struct bps_server_counters *counters = bps_server_counters(server);
	char in[AMOUNT_CHARS], out[AMOUNT_CHARS];

	bps_info("ended: %" PRIu64 " jobs, %" PRIu64 " members, %" PRIu64
	         " pushes of %s summed, answers of %s, %" PRIu64 " refused",
	         bps_load_relaxed(&counters->n_jobs),
	         bps_load_relaxed(&counters->n_peers),
	         bps_load_relaxed(&counters->n_pushes),
	         format_amount(bps_load_relaxed(&counters->n_push_bytes), in),
	         format_amount(bps_load_relaxed(&counters->n_answer_bytes), out),
	         bps_load_relaxed(&counters->n_refused));
}

/* The end. */

static void end_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGINT);
}

static void on_second_signal(int number)
{
	static const char text[] = "bpsmpi-server: told to end twice, ended at once\n";
	ssize_t n;

	(void)number;
	n = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)n;
	_exit(EXIT_CANNOT);
}

static void on_alarm(int number)
{
	(void)number;
	_exit(EXIT_FINE);
}

static void end_at_once_next_time(const sigset_t *signals)
{
	const struct sigaction action = { .sa_handler = on_second_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static void wait_for_jobs(struct bps_server *server, uint32_t grace_s)
{
	const struct timespec pause = { .tv_nsec = (long)LOOK_NS };
	uint64_t end_ns = bps_now_ns() + grace_s * BPS_NS_PER_S;
	uint32_t n = bps_server_n_jobs(server);

	if (n)
		bps_info("told to end: waiting at most %u s for %u job%s to finish",
		         grace_s, n, n == 1 ? "" : "s");
	for (; n && bps_now_ns() < end_ns; n = bps_server_n_jobs(server))
		nanosleep(&pause, NULL);
	if (n)
		bps_warn("cut off %u job%s that did not finish in %u s; a longer --grace "
		         "gives them time",
		         n, n == 1 ? "" : "s", grace_s);
}

static int serve(const struct bps_serverd_config *config,
                 const struct bps_server_options *options)
{
	struct bps_serverd *serverd;
	sigset_t signals;
	int number;

	end_signals(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (bps_serverd_start(config, &serverd) < 0)
		return EXIT_CANNOT;
	announce(serverd, config->n_addrs, &options->config);
	while (sigwait(&signals, &number))
		;
	end_at_once_next_time(&signals);
	bps_serverd_drain(serverd);
	wait_for_jobs(bps_serverd_server(serverd), options->grace_s);
	sum_up(bps_serverd_server(serverd));
	signal(SIGALRM, on_alarm);
	alarm(CLOSE_S);
	bps_serverd_stop(serverd);
	return EXIT_FINE;
}

int main(int argc, char **argv)
{
	struct bps_addr addrs[BPS_SERVERD_MAX_ADDRS];
	struct bps_server_options options;
	struct bps_server_places places;
	struct bps_cpuset cpus;
	char host[BPS_WIRE_HOST_CHARS] = "";
	struct bps_serverd_config config = {
		.host = host,
		.addrs = addrs,
		.cpus = &cpus,
		.max_slots = BPS_WINDOW_MOST,
	};
	int r;

	r = bps_server_options_parse(argc, argv, environ, &options);
	if (r == BPS_SERVER_OPTIONS_E_DONE)
		return bps_output_end("bpsmpi-server") ? EXIT_CANNOT : EXIT_FINE;
	if (r < 0) {
		fputs("try bpsmpi-server --help\n", stderr);
		return EXIT_USAGE;
	}
	bps_log_set_level(options.config.log);
	(void)gethostname(host, sizeof(host) - 1);
	if (bps_cpuset_usable("--cpus (BPSMPI_CPUS)", options.config.cpus, &cpus) < 0)
		return EXIT_CANNOT;
	config.n_addrs = choose_addresses(&options, addrs);
	if (config.n_addrs < 0)
		return EXIT_CANNOT;
	config.n_loops = (uint32_t)options.config.loops;
	config.n_reducers = (uint32_t)options.config.reducers;
	config.memory_bytes = options.config.server_memory_bytes;
	config.max_connections = options.max_connections;
	raise_descriptor_limit(options.max_connections);
	(void)bps_cpuset_bind(&cpus);
	bps_server_places_set(&places, &config);
	r = serve(&config, &options);
	bps_server_places_deinit(&places);
	return r;
}
