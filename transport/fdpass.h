/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hands descriptors (a memfd, an eventfd) from process to process through datagram
 * sockets with names in the abstract namespace: nothing in a file system, gone with the
 * process. A datagram that arrives proves that both are on one kernel and in one network
 * namespace, and what it carries can be shared; nothing else is proof of that, names
 * least of all.
 *
 * Only datagrams of the same user are received; what others send is dropped unseen. A
 * socket belongs to one thread at a time.
 */
#pragma once

#include <stddef.h>

/* The most descriptors that one datagram carries. */
#define BPS_FDPASS_MAX_FDS 8

/**
 * bps_fdpass_open() - make a socket that others reach as @name (at most 90 characters,
 * the same in no other process). Nonblocking, CLOEXEC; fit for a bps_watch.
 * Return: 0; -EADDRINUSE where the name is taken; -ENAMETOOLONG; another negative errno.
 * Owned by the caller, who closes it with close(2).
 */
int bps_fdpass_open(const char *name, int *ret_sock);

/**
 * bps_fdpass_send() - send one datagram, @bytes bytes (at least 1) at @data and copies of
 * @n_fds descriptors, which stay the caller's.
 * Return: 0; -ECONNREFUSED where nobody has the name @to_name; -EAGAIN while its queue is
 * full; -EPERM where its owner may not be written to; another negative errno.
 */
int bps_fdpass_send(int sock, const char *to_name, const void *data, size_t bytes,
                    const int *fds, int n_fds);

/**
 * bps_fdpass_recv() - take the next datagram, of at most @bytes bytes; longer ones are
 * dropped.
 * @ret_fds: room for BPS_FDPASS_MAX_FDS; the caller owns the *@ret_n_fds that came,
 * CLOEXEC Return: its length in bytes; -EAGAIN where there is none; another negative
 * errno.
 */
int bps_fdpass_recv(int sock, void *data, size_t bytes, int *ret_fds, int *ret_n_fds);
