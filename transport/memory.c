/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(size_t bytes, int flags, int fd, void **ret_map)
{
	void *at;

	if (!bytes)
		return -EINVAL;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*ret_map = at;
	return 0;
}

int bps_region_alloc(size_t bytes, void **ret_region)
{
	return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, ret_region);
}

void bps_region_free(void *region, size_t bytes)
{
	if (region)
		munmap(region, bytes);
}

static int size_and_seal(int fd, size_t bytes)
{
	if (bytes > (size_t)INT64_MAX)
		return -EFBIG;
	if (ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	return 0;
}

int bps_memfd_new(const char *name, size_t bytes, int *ret_fd, void **ret_map)
{
	int fd, r;

	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	r = size_and_seal(fd, bytes);
	if (r == 0)
		r = map(bytes, MAP_SHARED, fd, ret_map);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int bps_memfd_map(int fd, size_t bytes, void **ret_map)
{
	struct stat st;
	int seals;

	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return -errno;
	if (!(seals & F_SEAL_SHRINK))
		return -EPERM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return -EOVERFLOW;
	return map(bytes, MAP_SHARED, fd, ret_map);
}
