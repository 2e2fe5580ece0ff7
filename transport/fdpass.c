/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/fdpass.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Bad datagrams that one call skips; more of them wait for the next. */
#define MAX_SKIPS 64

#define FDS_BYTES (BPS_FDPASS_MAX_FDS * sizeof(int))

static int make_addr(const char *name, struct sockaddr_un *ret_addr, socklen_t *ret_bytes)
{
	/* The first byte is 0: the abstract namespace. */
	char *path = ret_addr->sun_path + 1;
	size_t room = sizeof(ret_addr->sun_path) - 1;
	int n;

	memset(ret_addr, 0, sizeof(*ret_addr));
	ret_addr->sun_family = AF_UNIX;
	n = snprintf(path, room, "bpsmpi-%s", name);
	if (n < 0 || (size_t)n >= room)
		return -ENAMETOOLONG;
	*ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return 0;
}

int bps_fdpass_open(const char *name, int *ret_sock)
{
	static const int on = 1;
	struct sockaddr_un addr;
	socklen_t addr_bytes;
	int sock, r;

	r = make_addr(name, &addr, &addr_bytes);
	if (r < 0)
		return r;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	/* Credentials are asked for before anybody can send. */
	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(sock, (struct sockaddr *)&addr, addr_bytes) < 0) {
		r = -errno;
		close(sock);
		return r;
	}
	*ret_sock = sock;
	return 0;
}

int bps_fdpass_send(int sock, const char *to_name, const void *data, size_t bytes,
                    const int *fds, int n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_BYTES)] = { 0 };
	struct sockaddr_un addr;
	struct iovec iov = { (void *)data, bytes };
	struct msghdr msg = { .msg_name = &addr, .msg_iov = &iov, .msg_iovlen = 1 };
	size_t fds_bytes = (size_t)n_fds * sizeof(int);
	int r;

	if (n_fds < 0 || n_fds > BPS_FDPASS_MAX_FDS)
		return -EINVAL;
	r = make_addr(to_name, &addr, &msg.msg_namelen);
	if (r < 0)
		return r;
	if (n_fds) {
		struct cmsghdr *cmsg = (struct cmsghdr *)control;

		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fds_bytes);
		memcpy(CMSG_DATA(cmsg), fds, fds_bytes);
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(fds_bytes);
	}
	while (sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* What came beside the data. */
struct extras {
	int fds[BPS_FDPASS_MAX_FDS];
	int n_fds;
	bool same_user;
};

static void take_fds(const struct cmsghdr *cmsg, struct extras *extras)
{
	size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
		if (extras->n_fds < BPS_FDPASS_MAX_FDS)
			extras->fds[extras->n_fds++] = fd;
		else
			close(fd);
	}
}

static void take_extras(struct msghdr *msg, struct extras *extras)
{
	struct cmsghdr *cmsg;

	extras->n_fds = 0;
	extras->same_user = false;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_RIGHTS)
			take_fds(cmsg, extras);
		if (cmsg->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
			extras->same_user = cred.uid == getuid();
		}
	}
}

/* Return: the length; -EPROTO for a datagram to be dropped; another negative errno. */
static int recv_one(int sock, void *data, size_t bytes, struct extras *ret_extras)
{
	_Alignas(struct cmsghdr) char
		control[CMSG_SPACE(FDS_BYTES) + CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = { data, bytes };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	take_extras(&msg, ret_extras);
	if (ret_extras->same_user && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return (int)n;
	while (ret_extras->n_fds)
		close(ret_extras->fds[--ret_extras->n_fds]);
	return -EPROTO;
}

int bps_fdpass_recv(int sock, void *data, size_t bytes, int *ret_fds, int *ret_n_fds)
{
	struct extras extras = { 0 };

	for (int i = 0; i < MAX_SKIPS; i++) {
		int r = recv_one(sock, data, bytes, &extras);

		if (r == -EPROTO || r == -EINTR)
			continue;
		if (r < 0)
			return r;
		memcpy(ret_fds, extras.fds, (size_t)extras.n_fds * sizeof(int));
		*ret_n_fds = extras.n_fds;
		return r;
	}
	return -EAGAIN;
}
