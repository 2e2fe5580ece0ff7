/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of hosts as people write them:
 *
 *	cpu[01-16]:7000,[fd00::2]:7001,10.0.0.5,n[1-3,7]a[0-1],fd00::1
 *	@/etc/bpsmpi/servers
 *
 * Entries are separated by blanks, or by a comma, which has one on either side. Brackets
 * hold numbers and ranges, of which there may be several; a range keeps the width of its
 * first number (01, 02, ... 16). A bracket with a colon in it is an IPv6 address; one
 * without brackets cannot have a port. A file holds one or more entries a line and
 * comments from # to the end of the line.
 *
 * Names are not resolved here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BPS_HOST_BYTES   256  /* a name or address with its end */
#define BPS_HOSTLIST_MAX 4096 /* entries of a list */
#define BPS_SERVER_PORT  7000 /* where a server listens unless it is told */

struct bps_host {
	char name[BPS_HOST_BYTES]; /* a name, or an address without brackets */
	uint16_t port;             /* never 0 */
};

struct bps_hostlist {
	struct bps_host *hosts; /* owned; in the order written */
	uint32_t n_hosts;
};

/**
 * bps_hostlist_parse() - read a list.
 * @what: what errors call it, for example "BPSMPI_SERVERS"
 * @text: the list, or @ and the path of a file (of at most 1 MiB)
 * @default_port: for entries that name none, 1 to 65535
 * @ret_list: on success at least one host, the caller owns it until
 * bps_hostlist_deinit(); empty on failure
 * @ret_error: on failure one line that says what is wrong with which entry and what to
 * write instead, at most @error_bytes with its end
 *
 * Returns 0, -EINVAL (wrong, empty, or an entry twice), -E2BIG (too many entries),
 * -ENOMEM, or the error of reading the file. Nothing is logged.
 */
int bps_hostlist_parse(const char *what, const char *text, uint16_t default_port,
                       struct bps_hostlist *ret_list, char *ret_error,
                       size_t error_bytes);

/** bps_host_format() - "cpu3:7000" or "[fd00::2]:7000" into @buf; returns @buf. */
const char *bps_host_format(const struct bps_host *host, char *buf, size_t bytes);

/** bps_hostlist_deinit() - release what the list owns and make it empty. */
void bps_hostlist_deinit(struct bps_hostlist *list);
