/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks servers who they are, as docs/protocol.md has it: a HELLO for a job of our own
 * with the smallest window, their first message, and a BYE. Whatever else is at that port
 * gets the HELLO and nothing more. What they say of where they are is compared at the
 * end.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "check/doctor/impl.h"
#include "transport/reach.h"
#include "transport/tcp.h"
#include "transport/wire.h"

#define BATCH      64u
#define STEP_NS    (2 * BPS_NS_PER_S) /* to connect, and then to answer */
#define SLOT_BYTES 1024u
#define SHOWN      24u /* of what a stranger says */
#define SAID_BYTES (BPS_WIRE_FULL_HDR + BPS_WIRE_GREETING_BYTES)

/* Open while fd is not -1. Until it is connected, other addresses are tried. */
struct probe {
	struct bps_doctor_server *server;
	struct bps_doctor_place *place;
	struct bps_addr addrs[8];
	int n_addrs, next;
	int fd;
	bool connected;
	uint64_t deadline_ns, greeted_ns;
	uint32_t n_bytes;
	uint8_t buf[BPS_WIRE_MAX_HDR + BPS_WIRE_GREETING_BYTES];
};

static void answer(struct probe *probe, enum bps_doctor_answer answer, const char *detail)
{
	struct bps_doctor_server *server = probe->server;

	server->answer = answer;
	(void)snprintf(server->detail, sizeof(server->detail), "%s", detail);
	if (probe->fd >= 0)
		close(probe->fd);
	probe->fd = -1;
}

static void cannot_connect(struct probe *probe, int error)
{
	if (error == ECONNREFUSED)
		answer(probe, BPS_DOCTOR_REFUSED, "");
	else if (error == ETIMEDOUT)
		answer(probe, BPS_DOCTOR_TIMED_OUT, "");
	else
		answer(probe, BPS_DOCTOR_UNREACHABLE, strerrordesc_np(error));
}

/* The next address, until one is at least on its way. */
static void dial(struct probe *probe)
{
	const int room = 2 * SAID_BYTES; /* say() does not wait */

	while (probe->fd < 0 && probe->next < probe->n_addrs) {
		const struct bps_addr *addr = &probe->addrs[probe->next++];

		probe->deadline_ns = bps_now_ns() + STEP_NS;
		probe->fd = socket(addr->sa.sa_family,
		                   SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)setsockopt(probe->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
		if (probe->fd < 0 ||
		    (connect(probe->fd, &addr->sa, addr->bytes) && errno != EINPROGRESS))
			cannot_connect(probe, errno);
	}
}

static bool say(struct probe *probe, struct bps_wire_hdr *hdr,
                const struct bps_wire_hello *hello)
{
	uint8_t buf[SAID_BYTES] = { 0 };
	uint32_t n;

	hdr->payload_bytes =
		hello ? bps_reach_greeting_bytes(NULL, &probe->addrs[probe->next - 1])
		      : 0;
	n = bps_wire_encode(hdr, buf);
	if (hello)
		bps_wire_encode_hello(hello, buf + n);
	n += hdr->payload_bytes;
	return send(probe->fd, buf, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void greet(struct probe *probe)
{
	struct bps_wire_hdr hdr = { .type = BPS_WIRE_HELLO };
	struct bps_wire_hello hello = {
		.n_peers = 1,
		.n_slots = 1,
		.slot_bytes = SLOT_BYTES,
		.version = BPS_VERSION,
	};

	probe->connected = true;
	probe->greeted_ns = bps_now_ns();
	probe->deadline_ns = probe->greeted_ns + STEP_NS;
	(void)gethostname(hello.host, sizeof(hello.host) - 1);
	if (bps_random_bytes(hello.job, sizeof(hello.job)) || !say(probe, &hdr, &hello))
		answer(probe, BPS_DOCTOR_FOREIGN, "it closed the connection");
}

static void connected(struct probe *probe)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &bytes))
		error = errno;
	if (!error) {
		greet(probe);
		return;
	}
	cannot_connect(probe, error);
	dial(probe);
}

/* -- what it says -- */

/* A text of a stranger's, with dots for what cannot be shown. */
static void show(char *ret, size_t ret_bytes, const uint8_t *bytes, uint32_t n_bytes)
{
	uint32_t n = n_bytes < ret_bytes ? n_bytes : (uint32_t)ret_bytes - 1;

	for (uint32_t i = 0; i < n; i++) {
		char c = (char)bytes[i];

		ret[i] = (char)(c < ' ' || c > '~' ? '.' : c);
	}
	ret[n] = '\0';
}

static void stranger(struct probe *probe)
{
	char shown[SHOWN + 1], text[64];

	show(shown, sizeof(shown), probe->buf, probe->n_bytes);
	(void)snprintf(text, sizeof(text), "it says '%s'", shown);
	answer(probe, BPS_DOCTOR_FOREIGN, text);
}

static void take_place(const struct probe *probe, const struct bps_wire_hello *hello)
{
	struct bps_doctor_place *place = probe->place;

	place->at = probe->addrs[probe->next - 1];
	memcpy(place->host, hello->host, sizeof(place->host));
	place->n_addrs = hello->n_addrs;
	memcpy(place->addrs, hello->addrs, sizeof(place->addrs));
}

static void welcomed(struct probe *probe, const uint8_t *payload, uint32_t payload_bytes)
{
	struct bps_wire_hdr bye = { .type = BPS_WIRE_BYE };
	struct bps_wire_hello hello;
	char text[64];

	if (bps_wire_decode_hello(payload, payload_bytes, &hello) < 0) {
		stranger(probe);
		return;
	}
	take_place(probe, &hello);
	probe->server->id = hello.server;
	probe->server->left_bytes = hello.left_bytes;
	probe->server->round_trip_ns = bps_now_ns() - probe->greeted_ns;
	(void)say(probe, &bye, NULL); /* who does not hear it sees the end */
	(void)snprintf(text, sizeof(text), "%s on %.32s", hello.version, hello.host);
	if (strcmp(hello.version, BPS_VERSION) == 0)
		answer(probe, BPS_DOCTOR_FINE, "");
	else
		answer(probe, BPS_DOCTOR_SOFTWARE, text);
}

static void heard(struct probe *probe)
{
	struct bps_wire_hdr hdr;
	uint32_t hdr_bytes;
	int r = bps_wire_decode(probe->buf, probe->n_bytes, &hdr, &hdr_bytes);
	char text[256];

	if (r == BPS_WIRE_E_SHORT)
		return;
	if (r == BPS_WIRE_E_VERSION) {
		(void)snprintf(text, sizeof(text), "protocol %u, here %u", hdr.version,
		               BPS_WIRE_VERSION);
		answer(probe, BPS_DOCTOR_PROTOCOL, text);
		return;
	}
	if (r || (hdr.type != BPS_WIRE_WELCOME && hdr.type != BPS_WIRE_REFUSE)) {
		stranger(probe);
		return;
	}
	if (probe->n_bytes < hdr_bytes + hdr.payload_bytes)
		return;
	if (hdr.type == BPS_WIRE_WELCOME) {
		welcomed(probe, probe->buf + hdr_bytes, hdr.payload_bytes);
		return;
	}
	show(text, sizeof(text), probe->buf + hdr_bytes, hdr.payload_bytes);
	answer(probe, BPS_DOCTOR_REJECTS, text);
}

/* A header and a WELCOME fit the buffer; longer messages are noise. */
static void listen_to(struct probe *probe)
{
	ssize_t n = recv(probe->fd, probe->buf + probe->n_bytes,
	                 sizeof(probe->buf) - probe->n_bytes, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		answer(probe, BPS_DOCTOR_FOREIGN, "it closed the connection");
		return;
	}
	probe->n_bytes += (uint32_t)n;
	heard(probe);
}

/* Whether a greeting is lost, again and again: ours, or all of theirs but its end. */
static bool is_stuck(const struct probe *probe)
{
	struct bps_conn_counts counts;

	bps_tcp_count_socket(probe->fd, &counts);
	return (counts.n_unacked > 0 && counts.n_resent > 0) ||
	       (counts.n_ahead > 0 && probe->n_bytes == 0);
}

static void late(struct probe *probe)
{
	if (probe->connected) {
		answer(probe, is_stuck(probe) ? BPS_DOCTOR_STUCK : BPS_DOCTOR_SILENT, "");
		return;
	}
	cannot_connect(probe, ETIMEDOUT);
	dial(probe);
}

/* -- many at once -- */

/* Fills in what to wait for; returns until when, UINT64_MAX: nothing is open. */
static uint64_t next_deadline(const struct probe *probes, struct pollfd *fds, uint32_t n)
{
	uint64_t deadline_ns = UINT64_MAX;

	for (uint32_t i = 0; i < n; i++) {
		fds[i].fd = probes[i].fd;
		fds[i].events = probes[i].connected ? POLLIN : POLLOUT;
		fds[i].revents = 0;
		if (probes[i].fd >= 0 && probes[i].deadline_ns < deadline_ns)
			deadline_ns = probes[i].deadline_ns;
	}
	return deadline_ns;
}

static void run_probes(struct probe *probes, uint32_t n)
{
	struct pollfd fds[BATCH];
	uint64_t until_ns;

	while ((until_ns = next_deadline(probes, fds, n)) != UINT64_MAX) {
		uint64_t now_ns = bps_now_ns();
		uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;

		(void)poll(fds, n, (int)(left_ns / BPS_NS_PER_MS) + 1);
		now_ns = bps_now_ns();
		for (uint32_t i = 0; i < n; i++) {
			if (fds[i].fd < 0)
				continue;
			if (fds[i].revents && !probes[i].connected)
				connected(&probes[i]);
			else if (fds[i].revents)
				listen_to(&probes[i]);
			else if (now_ns >= probes[i].deadline_ns)
				late(&probes[i]);
		}
	}
}

static void start_probe(struct probe *probe, struct bps_doctor_server *server,
                        struct bps_doctor_place *place, const struct bps_host *host)
{
	char why[192];

	*probe = (struct probe){ .server = server, .place = place, .fd = -1 };
	if (!host) {
		probe->n_addrs = (int)server->n_at;
		memcpy(probe->addrs, server->at, server->n_at * sizeof(*server->at));
		dial(probe);
		return;
	}
	probe->n_addrs = bps_addr_resolve(host->name, host->port, probe->addrs, 8, why,
	                                  sizeof(why));
	if (probe->n_addrs < 0)
		answer(probe, BPS_DOCTOR_NO_NAME, why);
	else
		dial(probe);
}

static void probe_all(struct probe *probes, struct bps_doctor_server *servers,
                      struct bps_doctor_place *places, const struct bps_host *hosts,
                      uint32_t n_servers)
{
	for (uint32_t at = 0; at < n_servers; at += BATCH) {
		uint32_t n = n_servers - at < BATCH ? n_servers - at : BATCH;

		for (uint32_t i = 0; i < n; i++)
			start_probe(&probes[i], &servers[at + i], &places[at + i],
			            hosts ? &hosts[at + i] : NULL);
		run_probes(probes, n);
	}
}

int bps_doctor_probe(struct bps_doctor_server *servers, const struct bps_host *hosts,
                     uint32_t n_servers)
{
	struct probe *probes = calloc(BATCH, sizeof(*probes));
	struct bps_doctor_place *places = calloc((size_t)n_servers + 1, sizeof(*places));
	struct bps_netif own[BPS_NETIF_MAX];

	if (probes && places) {
		probe_all(probes, servers, places, hosts, n_servers);
		bps_doctor_place(servers, places, n_servers, own,
		                 bps_netif_list(own, BPS_NETIF_MAX));
	}
	free(probes);
	free(places);
	return probes && places ? 0 : -ENOMEM;
}
