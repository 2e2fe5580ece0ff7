/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any file, to the reader of ELF files. The entry point is libFuzzer's; without it, the
 * program makes its own inputs from a seed: itself, cut off or with some bytes changed:
 * fuzz-elf [iterations [seed]].
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "check/doctor/elf.h"

/* Not assert(): the check is the purpose of this program, with NDEBUG too. */
#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                   \
		}                                                                  \
	} while (0)

static int try_file(int fd)
{
	struct bps_elf elf;
	int r;

	memset(&elf, 0xff, sizeof(elf));
	r = bps_elf_read(fd, &elf);
	CHECK(r == 0 || r == -ENOEXEC || r == -EBADMSG || r == -ENOMEM);
	CHECK(memchr(elf.loader, 0, sizeof(elf.loader)));
	CHECK(memchr(elf.mpi, 0, sizeof(elf.mpi)));
	CHECK(memchr(elf.version, 0, sizeof(elf.version)));
	if (r == 0)
		CHECK(elf.n_bits == 32 || elf.n_bits == 64);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int fd = memfd_create("fuzz-elf", MFD_CLOEXEC);

	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	(void)try_file(fd);
	close(fd);
	return 0;
}

#ifndef BPS_LIBFUZZER

/* Where what counts lies: at the beginning, at the end, and anywhere. */
static off_t choose_place(struct bps_prng *prng, off_t bytes)
{
	static const off_t near[] = { 64, 1024, 4096 };
	uint64_t how = bps_prng_below(prng, 7);
	off_t place;

	if (how == 6)
		return (off_t)bps_prng_below(prng, (uint64_t)bytes);
	place = (off_t)bps_prng_below(prng, (uint64_t)near[how / 2]) % bytes;
	return how % 2 ? place : bytes - 1 - place;
}

/* Change some bytes of a whole file at @fd, or cut it off; then make it good again. */
static int try_changed(struct bps_prng *prng, int fd, const uint8_t *whole, off_t bytes)
{
	off_t at = choose_place(prng, bytes), n = (off_t)(1u << bps_prng_below(prng, 4));
	uint8_t fresh[8];
	int r;

	n = at + n > bytes ? bytes - at : n;
	if (bps_prng_below(prng, 4) == 0) {
		CHECK(ftruncate(fd, at) == 0);
		n = bytes - at;
	} else {
		bps_prng_fill(prng, fresh, sizeof(fresh));
		if (bps_prng_below(prng, 2) == 0)
			memset(fresh, bps_prng_below(prng, 2) ? 0xff : 0, sizeof(fresh));
		CHECK(pwrite(fd, fresh, (size_t)n, at) == n);
	}
	r = try_file(fd);
	CHECK(pwrite(fd, whole + at, (size_t)n, at) == n);
	return r;
}

static int copy_self(uint8_t **ret_whole, off_t *ret_bytes)
{
	int self = bps_elf_open("/proc/self/exe");
	int fd = memfd_create("fuzz-elf", MFD_CLOEXEC);
	struct stat status;

	CHECK(self >= 0 && fd >= 0 && fstat(self, &status) == 0);
	*ret_bytes = status.st_size;
	*ret_whole = malloc((size_t)status.st_size);
	CHECK(*ret_whole);
	CHECK(pread(self, *ret_whole, (size_t)status.st_size, 0) == status.st_size);
	CHECK(write(fd, *ret_whole, (size_t)status.st_size) == status.st_size);
	close(self);
	return fd;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 100000, n_broken = 0;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : bps_now_ns();
	struct bps_prng prng;
	uint8_t *whole;
	off_t bytes;
	int fd = copy_self(&whole, &bytes);

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	bps_prng_init(&prng, seed);
	CHECK(try_file(fd) == 0);
	for (unsigned long i = 0; i < n; i++)
		n_broken += try_changed(&prng, fd, whole, bytes) < 0;
	CHECK(n < 1000 || (n_broken > n / 10 && n_broken < n));
	CHECK(try_file(fd) == 0);
	printf("%lu of %lu were found to be broken\n", n_broken, n);
	close(fd);
	free(whole);
	return 0;
}

#endif
