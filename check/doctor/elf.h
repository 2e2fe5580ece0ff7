/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an ELF file says of who loads it and what it needs. Files come from anywhere: they
 * may be cut off, broken or hostile. Every offset is checked against the file, which is
 * read and never mapped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum bps_elf_kind {
	BPS_ELF_PROGRAM, /* of a loader, or static */
	BPS_ELF_LIBRARY,
	BPS_ELF_OTHER, /* an object file, a core dump */
};

struct bps_elf {
	uint16_t machine; /* ELF's number */
	uint8_t n_bits;   /* 32 or 64 */
	bool foreign; /* not for this box's processor; what follows is not filled in */
	enum bps_elf_kind kind;
	char loader[256]; /* that the program asks for; "": it is static, or no program */
	char mpi[64];     /* the first MPI library that it names, as libmpi.so.40; "" */
	bool calls_mpi;   /* MPI_Init and the like are another one's */
	bool has_mpi;     /* they are its own; false too where its symbols were removed */
	char version[32]; /* of bytepsmpi, if it is that library; "" */
};

/**
 * bps_elf_read() - @fd: a plain file, borrowed; it is read from its start.
 * Return: 0; -ENOEXEC: it is no ELF file; -EBADMSG: it is broken or cut off; -ENOMEM; or
 * the error of reading it. Nothing is logged.
 */
int bps_elf_read(int fd, struct bps_elf *ret);

/**
 * bps_elf_open() - open a plain file to look at; a FIFO or a device is never waited for.
 * Return: a descriptor, the caller's; -EINVAL: it is no plain file; a negative errno.
 */
int bps_elf_open(const char *path);
