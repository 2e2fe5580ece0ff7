/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/random.h"
#include "topology/boxes.h"
#include "transport/fdpass.h"
#include "transport/netif.h"

#define MAX_ADDRS  12
#define DIAL_NS    (2 * BPS_NS_PER_S)
#define LOOKUP_US  5000
#define PORT_CHARS 1024
/* A rank waits this much longer than rank 0 does, so that rank 0 has the last word. */
#define PATIENCE_NS (15 * BPS_NS_PER_S)

/* What a rank reports. Equal builds on equal machines: anything else is refused. */
struct report {
	uint64_t nonce;
	uint32_t rank, size;
	uint32_t config_bytes;
	char version[16];
};

/* Rank 0 answers at once that it is the right one, and later with the verdict. */
struct reply {
	uint64_t nonce;
	uint32_t verdict;
};
enum { REPLY_WELCOME = 1, REPLY_YES = 2, REPLY_NO = 3 };

static void fill_report(const struct bps_rendezvous *rv, uint64_t nonce,
                        struct report *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->nonce = nonce;
	ret->rank = rv->rank;
	ret->size = rv->size;
	ret->config_bytes = sizeof(struct bps_config);
	snprintf(ret->version, sizeof(ret->version), "%s", BPS_VERSION);
}

static int wait_for(int fd, short events, uint64_t until_ns)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now_ns = bps_now_ns();
		int n;

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		n = poll(&poll_fd, 1, (int)((until_ns - now_ns) / BPS_NS_PER_MS) + 1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* All of @bytes, or an error. */
static int receive_all(int fd, void *buf, size_t bytes, uint64_t until_ns)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n;
		int r = wait_for(fd, POLLIN, until_ns);

		if (r < 0)
			return r;
		n = recv(fd, (char *)buf + got, bytes - got, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0)
			got += (size_t)n;
	}
	return 0;
}

/* These messages are far smaller than any socket buffer. */
static int send_all(int fd, const void *buf, size_t bytes)
{
	return send(fd, buf, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -EPIPE;
}

/* -- names -- */

/* MPI's name service raises its errors on MPI_COMM_WORLD; nobody asked it to be fatal. */
static bps_handle hush(const struct bps_mpi *mpi)
{
	bps_handle handler = 0;

	mpi->Comm_get_errhandler(mpi->comm_world, &handler);
	mpi->Comm_set_errhandler(mpi->comm_world, mpi->errors_return);
	return handler;
}

static void unhush(const struct bps_mpi *mpi, bps_handle handler)
{
	mpi->Comm_set_errhandler(mpi->comm_world, handler);
	mpi->Errhandler_free(&handler);
}

static void service_name(const struct bps_rendezvous *rv, char *buf, size_t bytes)
{
	snprintf(buf, bytes, "bpsmpi-%s", rv->job_name);
}

/* -- rank 0 -- */

struct visitor {
	int fd; /* -1: this rank did not report */
};

struct root {
	const struct bps_rendezvous *rv;
	uint64_t nonce;
	int listener;
	char port_text[PORT_CHARS];
	struct visitor *visitors; /* [size] */
	uint32_t n_reported;
	bool mixed; /* a rank of another version reported */
	uint32_t mixed_rank;
	char mixed_version[16];
	struct bps_addr local;
	bool local_is_remote; /* local was seen by a rank of another address */
	bool inside;          /* no other host can reach the addresses that it names */
	bool refused;         /* for a reason that was said: all hear no */
};

static int root_listen(struct root *root)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in any4 = { .sin_family = AF_INET };
	const int off = 0;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (bind(fd, (void *)&any6, sizeof(any6)) == 0 &&
		    listen(fd, SOMAXCONN) == 0)
			return root->listener = fd;
		close(fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (void *)&any4, sizeof(any4)) == 0 &&
	    listen(fd, SOMAXCONN) == 0)
		return root->listener = fd;
	if (fd >= 0)
		close(fd);
	return -errno;
}

/* "nonce;port;address;address;..." */
static int root_describe(struct root *root)
{
	const struct bps_rendezvous *rv = root->rv;
	struct bps_addr addrs[MAX_ADDRS], self = { .bytes = sizeof(self.storage) };
	size_t limit = (size_t)rv->mpi->max_port_name, used;
	char why[256];
	int n, i;

	if (limit > sizeof(root->port_text))
		limit = sizeof(root->port_text);
	getsockname(root->listener, &self.sa, &self.bytes);
	n = rv->interface[0]
	            ? bps_netif_select(rv->interface, addrs, MAX_ADDRS, why, sizeof(why))
	            : bps_netif_candidates(addrs, MAX_ADDRS);
	if (n < 0 && rv->interface[0]) {
		bps_error("BPSMPI_INTERFACE: %s; all ranks run without bytepsmpi", why);
		root->refused = true; /* the others have to hear of it all the same */
		n = bps_netif_candidates(addrs, MAX_ADDRS);
	}
	if (n < 0) {
		bps_error("cannot list the network interfaces: %s", strerror(-n));
		return n;
	}
	used = (size_t)snprintf(root->port_text, limit, "%016llx;%u",
	                        (unsigned long long)root->nonce, bps_addr_port(&self));
	if (n > 0)
		root->local = addrs[0];
	root->inside = true;
	for (i = 0; i < n; i++) {
		char text[BPS_ADDR_CHARS];

		root->inside = root->inside && bps_addr_is_loopback(&addrs[i]);
		bps_addr_format_host(&addrs[i], text, sizeof(text));
		if (used + strlen(text) + 2 < limit)
			used += (size_t)snprintf(root->port_text + used, limit - used,
			                         ";%s", text);
	}
	return 0;
}

/* An address as we compare and publish it: IPv4 without its IPv6 clothes, no port. */
static void plain_addr(struct bps_addr *addr)
{
	struct in_addr in;

	if (addr->sa.sa_family == AF_INET6 &&
	    IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr)) {
		memcpy(&in, &addr->in6.sin6_addr.s6_addr[12], sizeof(in));
		memset(addr, 0, sizeof(*addr));
		addr->in.sin_family = AF_INET;
		addr->in.sin_addr = in;
		addr->bytes = sizeof(addr->in);
	}
	bps_addr_set_port(addr, 0);
}

/* The address under which another box reached us is the one to be reached at. */
static void learn_local(struct root *root, int fd)
{
	struct bps_addr here = { .bytes = sizeof(here.storage) };
	struct bps_addr there = { .bytes = sizeof(there.storage) };

	if (root->local_is_remote || getsockname(fd, &here.sa, &here.bytes) < 0 ||
	    getpeername(fd, &there.sa, &there.bytes) < 0)
		return;
	plain_addr(&here);
	plain_addr(&there);
	if (bps_addr_equal(&here, &there))
		return;
	root->local = here;
	root->local_is_remote = true;
}

static void root_welcome(struct root *root, int fd, uint64_t until_ns)
{
	const struct reply welcome = { root->nonce, REPLY_WELCOME };
	uint64_t soon_ns = bps_now_ns() + DIAL_NS;
	struct report report, mine;

	if (receive_all(fd, &report, sizeof(report),
	                soon_ns < until_ns ? soon_ns : until_ns) < 0 ||
	    report.nonce != root->nonce || report.rank >= root->rv->size ||
	    root->visitors[report.rank].fd >= 0 ||
	    send_all(fd, &welcome, sizeof(welcome)) < 0) {
		close(fd);
		return;
	}
	fill_report(root->rv, root->nonce, &mine);
	report.version[sizeof(report.version) - 1] = '\0';
	if (report.size != mine.size || report.config_bytes != mine.config_bytes ||
	    strcmp(report.version, mine.version) != 0) {
		root->mixed = true;
		root->mixed_rank = report.rank;
		memcpy(root->mixed_version, report.version, sizeof(report.version));
	}
	learn_local(root, fd);
	root->visitors[report.rank].fd = fd;
	root->n_reported++;
}

static void root_collect(struct root *root)
{
	uint64_t until_ns = bps_now_ns() + root->rv->timeout_ns;

	while (root->n_reported + 1 < root->rv->size &&
	       wait_for(root->listener, POLLIN, until_ns) == 0) {
		int fd = accept4(root->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			root_welcome(root, fd, until_ns);
	}
}

static void explain_no(const struct root *root)
{
	static const char inside[] =
		". If they are on other hosts: rank 0 takes ranks by loopback alone "
		"there; name a network that all hosts share, as in "
		"BPSMPI_INTERFACE=10.0.0.0/8";
	uint32_t size = root->rv->size, n = 0, r;
	uint32_t *missing = calloc(size, sizeof(*missing));
	char list[256] = "";

	if (root->mixed) {
		bps_warn("rank %u carries bytepsmpi %s, rank 0 carries %s; all ranks run "
		         "without it: install the same version on every host",
		         root->mixed_rank, root->mixed_version, BPS_VERSION);
		free(missing);
		return;
	}
	for (r = 1; missing && r < size; r++) {
		if (root->visitors[r].fd < 0)
			missing[n++] = r;
	}
	if (missing)
		bps_ranks_format(missing, n, list, sizeof(list));
	bps_warn("only %u of %u ranks carry libbytepsmpi.so (not: %s); all ranks run "
	         "without it. Type: mpirun -x LD_PRELOAD=/path/to/libbytepsmpi.so "
	         "-x BPSMPI_SERVERS ... (a longer start: BPSMPI_INIT_TIMEOUT_S)%s",
	         root->n_reported + 1, size, list, root->inside ? inside : "");
	free(missing);
}

static void root_tell(struct root *root, bool yes)
{
	const struct reply reply = { root->nonce, yes ? REPLY_YES : REPLY_NO };
	uint32_t r;

	for (r = 0; r < root->rv->size; r++) {
		if (root->visitors[r].fd < 0)
			continue;
		send_all(root->visitors[r].fd, &reply, sizeof(reply));
		close(root->visitors[r].fd);
	}
}

static bool root_decide(struct root *root)
{
	const struct bps_rendezvous *rv = root->rv;
	bool wanted = rv->enabled && !root->refused, all;

	root_collect(root);
	all = root->n_reported + 1 == rv->size && !root->mixed;
	if (wanted && !all)
		explain_no(root);
	root_tell(root, all && wanted);
	return all && wanted;
}

static bool root_run(struct root *root)
{
	const struct bps_mpi *mpi = root->rv->mpi;
	char service[128];
	bps_handle handler;
	bool verdict;
	int rc;

	service_name(root->rv, service, sizeof(service));
	handler = hush(mpi);
	rc = mpi->Publish_name(service, mpi->info_null, root->port_text);
	unhush(mpi, handler);
	if (rc != mpi->success) {
		bps_warn(
			"the launcher has no name service (MPI_Publish_name failed), so the "
			"ranks cannot find each other; all ranks run without bytepsmpi: "
			"start the job with mpirun");
		return false;
	}
	verdict = root_decide(root);
	handler = hush(mpi);
	mpi->Unpublish_name(service, mpi->info_null, root->port_text);
	unhush(mpi, handler);
	return verdict;
}

static bool run_root(const struct bps_rendezvous *rv, struct bps_addr *ret_local)
{
	struct root root = { .rv = rv, .listener = -1 };
	bool verdict = false;
	uint32_t r;

	root.visitors = calloc(rv->size, sizeof(*root.visitors));
	for (r = 0; root.visitors && r < rv->size; r++)
		root.visitors[r].fd = -1;
	if (root.visitors && bps_random_bytes(&root.nonce, sizeof(root.nonce)) == 0 &&
	    root_listen(&root) >= 0 && root_describe(&root) == 0)
		verdict = root_run(&root);
	if (root.listener >= 0)
		close(root.listener);
	free(root.visitors);
	*ret_local = root.local;
	return verdict;
}

/* -- the others -- */

static bool look_up(const struct bps_rendezvous *rv, uint64_t until_ns, char *ret_port)
{
	char service[128];
	bps_handle handler;
	bool found = false;

	service_name(rv, service, sizeof(service));
	handler = hush(rv->mpi);
	while (!found && bps_now_ns() < until_ns) {
		found = rv->mpi->Lookup_name(service, rv->mpi->info_null, ret_port) ==
		        rv->mpi->success;
		if (!found)
			usleep(LOOKUP_US);
	}
	unhush(rv->mpi, handler);
	return found;
}

static int dial(const struct bps_addr *addr)
{
	int fd =
		socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, &addr->sa, addr->bytes) < 0 &&
	    (errno != EINPROGRESS || wait_for(fd, POLLOUT, bps_now_ns() + DIAL_NS) < 0 ||
	     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 || error != 0)) {
		close(fd);
		return -ECONNREFUSED;
	}
	return fd;
}

/* Report at one of rank 0's addresses. Return: the socket; negative: not rank 0. */
static int report_at(const struct bps_rendezvous *rv, const char *host, uint16_t port,
                     uint64_t nonce)
{
	struct report report;
	struct reply reply;
	struct bps_addr addr;
	char why[128];
	int fd;

	if (bps_addr_resolve(host, port, &addr, 1, why, sizeof(why)) < 0)
		return -EINVAL;
	fd = dial(&addr);
	if (fd < 0)
		return fd;
	fill_report(rv, nonce, &report);
	if (send_all(fd, &report, sizeof(report)) == 0 &&
	    receive_all(fd, &reply, sizeof(reply), bps_now_ns() + 2 * rv->timeout_ns) ==
	            0 &&
	    reply.nonce == nonce && reply.verdict == REPLY_WELCOME)
		return fd;
	close(fd);
	return -EPROTO;
}

static int report(const struct bps_rendezvous *rv, char *port_text)
{
	char *save = NULL, *text = strtok_r(port_text, ";", &save);
	uint64_t nonce = text ? strtoull(text, NULL, 16) : 0;
	const char *port = strtok_r(NULL, ";", &save);
	int fd = -EHOSTUNREACH;

	while (fd < 0 && port && (text = strtok_r(NULL, ";", &save)))
		fd = report_at(rv, text, (uint16_t)strtoul(port, NULL, 10), nonce);
	return fd;
}

/* One rank of a box speaks: who takes the name, which goes with the process. */
static bool first_of_box(const struct bps_rendezvous *rv)
{
	char name[96];
	int sock;

	snprintf(name, sizeof(name), "lost-%.80s", rv->job_name);
	return bps_fdpass_open(name, &sock) == 0;
}

static bool run_other(const struct bps_rendezvous *rv, struct bps_addr *ret_local)
{
	uint64_t until_ns = bps_now_ns() + rv->timeout_ns + PATIENCE_NS;
	char *port_text = calloc(1, (size_t)rv->mpi->max_port_name + 1);
	struct reply reply = { 0 };
	int fd;

	if (!port_text || !look_up(rv, bps_now_ns() + rv->timeout_ns, port_text)) {
		if (first_of_box(rv))
			bps_warn(
				"rank 0 does not carry libbytepsmpi.so; all ranks run without "
				"it. Type: mpirun -x LD_PRELOAD=/path/to/libbytepsmpi.so ...");
		free(port_text);
		return false;
	}
	fd = report(rv, port_text);
	free(port_text);
	if (fd < 0)
		return false; /* rank 0 misses us and says so */
	ret_local->bytes = sizeof(ret_local->storage);
	if (getsockname(fd, &ret_local->sa, &ret_local->bytes) < 0)
		ret_local->bytes = 0;
	else
		plain_addr(ret_local);
	if (receive_all(fd, &reply, sizeof(reply), until_ns) < 0)
		reply.verdict = REPLY_NO;
	close(fd);
	return reply.verdict == REPLY_YES;
}

bool bps_rendezvous(const struct bps_rendezvous *rendezvous, struct bps_addr *ret_local)
{
	memset(ret_local, 0, sizeof(*ret_local));
	return rendezvous->rank == 0 ? run_root(rendezvous, ret_local)
	                             : run_other(rendezvous, ret_local);
}
