/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/boxprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "transport/fdpass.h"
#include "transport/memory.h"

#define NO_ROOT UINT32_MAX

/* Whom it is worth trying: equal on the ranks of a box, and on few others. */
struct hint {
	char text[120];
	uint32_t root; /* of its box, NO_ROOT while it is looking */
	int32_t error;
};

struct invitation {
	uint32_t root;
	uint64_t nonce;
};

void bps_boxprobe_name(const struct bps_job *job, uint32_t world_rank, char *buf,
                       size_t bytes)
{
	uint64_t id[2];

	memcpy(id, job->id, sizeof(id));
	snprintf(buf, bytes, "%016llx%016llx-%u", (unsigned long long)id[0],
	         (unsigned long long)id[1], world_rank);
}

static void fill_hint(const struct bps_job *job, struct hint *ret)
{
	struct stat net = { 0 };
	char boot[64] = "";

	memset(ret, 0, sizeof(*ret));
	bps_file_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	boot[strcspn(boot, "\n")] = '\0';
	stat("/proc/self/ns/net", &net);
	snprintf(ret->text, sizeof(ret->text), "%.40s/%lx/%.60s", boot,
	         (unsigned long)net.st_ino, job->config.hostid);
	ret->root = NO_ROOT;
}

static bool same_hint(const struct hint *a, const struct hint *b)
{
	return strcmp(a->text, b->text) == 0;
}

/* The lowest rank that is still looking and has my hint. */
static uint32_t candidate(const struct hint *hints, uint32_t rank)
{
	uint32_t r;

	for (r = 0; r < rank; r++) {
		if (hints[r].root == NO_ROOT && same_hint(&hints[r], &hints[rank]))
			return r;
	}
	return rank;
}

static int invite(struct bps_job *job, const struct hint *hints)
{
	struct invitation invitation = { .root = job->rank };
	void *map;
	uint32_t r;
	int fd, error;

	error = bps_memfd_new("bpsmpi-box", bps_box_page_bytes(job->size), &fd, &map);
	if (error < 0)
		return error;
	job->page = map;
	memcpy(&invitation.nonce, job->id, sizeof(invitation.nonce));
	invitation.nonce ^= job->rank;
	job->page->nonce = invitation.nonce;
	for (r = job->rank + 1; r < job->size; r++) {
		char name[90];

		if (hints[r].root != NO_ROOT || !same_hint(&hints[r], &hints[job->rank]))
			continue;
		bps_boxprobe_name(job, r, name, sizeof(name));
		error = bps_fdpass_send(job->fd_sock, name, &invitation,
		                        sizeof(invitation), &fd, 1);
		if (error < 0)
			bps_debug("rank %u does not share a box with this one: %s", r,
			          strerror(-error));
	}
	close(fd);
	return 0;
}

/* Take the invitation that came, if any, and see that the memory is the inviter's. */
static bool accept_invitation(struct bps_job *job, uint32_t from)
{
	int fds[BPS_FDPASS_MAX_FDS], n_fds = 0;
	struct invitation invitation;
	bool good = false;
	void *map;

	if (bps_fdpass_recv(job->fd_sock, &invitation, sizeof(invitation), fds, &n_fds) !=
	    (int)sizeof(invitation))
		n_fds = 0;
	if (n_fds > 0 && invitation.root == from &&
	    bps_memfd_map(fds[0], bps_box_page_bytes(job->size), &map) == 0) {
		good = ((struct bps_box_page *)map)->nonce == invitation.nonce;
		if (good)
			job->page = map;
		else
			bps_region_free(map, bps_box_page_bytes(job->size));
	}
	while (n_fds > 0)
		close(fds[--n_fds]);
	return good;
}

static int share(const struct bps_job *job, const struct hint *mine, struct hint *hints)
{
	const struct bps_mpi *mpi = job->mpi;
	bps_handle byte = mpi->type[BPS_MPI_BYTE];

	return mpi->Allgather(mine, sizeof(*mine), byte, hints, sizeof(*hints), byte,
	                      mpi->comm_world) == mpi->success
	               ? 0
	               : -EIO;
}

static bool all_settled(const struct bps_job *job, const struct hint *hints)
{
	uint32_t r;

	for (r = 0; r < job->size; r++) {
		if (hints[r].root == NO_ROOT)
			return false;
	}
	return true;
}

/*
 * In each round the lowest rank of those with equal hints invites the others; who cannot
 * take the memory looks again among the rest. All ranks go through the same rounds.
 */
static int probe(struct bps_job *job, struct hint *mine, struct hint *hints)
{
	const struct bps_mpi *mpi = job->mpi;
	int error = share(job, mine, hints);

	while (error == 0 && !all_settled(job, hints)) {
		bool looking = mine->root == NO_ROOT;
		uint32_t root = looking ? candidate(hints, job->rank) : NO_ROOT;

		if (root == job->rank) {
			mine->error = invite(job, hints);
			mine->root = job->rank;
		}
		mpi->Barrier(mpi->comm_world);
		if (looking && root != job->rank && accept_invitation(job, root))
			mine->root = root;
		error = share(job, mine, hints);
	}
	return error;
}

int bps_boxprobe(struct bps_job *job, uint32_t *ret_root)
{
	struct hint *hints = calloc(job->size, sizeof(*hints));
	struct hint mine;
	char name[90];
	int error;

	*ret_root = job->rank;
	if (!hints)
		return -ENOMEM; /* the job cannot go on either: MPI needs far more */
	fill_hint(job, &mine);
	bps_boxprobe_name(job, job->rank, name, sizeof(name));
	error = bps_fdpass_open(name, &job->fd_sock);
	if (error < 0) {
		job->fd_sock = -1;
		snprintf(mine.text, sizeof(mine.text), "alone %u", job->rank);
	}
	error = probe(job, &mine, hints);
	if (error == 0 && mine.error < 0) {
		error = mine.error;
		bps_error("cannot make shared memory: %s", strerror(-error));
	}
	*ret_root = mine.root;
	free(hints);
	return error;
}
