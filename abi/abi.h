/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI library of this process, as we see it: its real functions, its constants, and
 * what its handles mean. Nobody else knows an MPI library's layout, and no <mpi.h> is
 * needed: a handle of any library fits one register (bps_handle).
 *
 * There is one struct bps_mpi a process. bps_mpi_resolve() fills it once, before or in
 * MPI_Init; bps_mpi_check() completes it once MPI is initialised. After that it is only
 * read, from any thread. A library that we do not know has abi BPS_ABI_NONE: then only
 * the functions are there, no handle is ever ours, and every call passes.
 *
 * All calls go through the pointers of the struct, never through an MPI symbol: such a
 * symbol would be undefined in every process that inherits LD_PRELOAD, or be our own.
 */
#pragma once

#include "base/atomic.h"
#include "base/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Any MPI handle, as it lies in the register. Where a function of the library gives one
 * back through a pointer, set it to 0 before: some libraries write only four bytes. */
typedef uintptr_t bps_handle;

typedef int bps_attr_copy_fn(bps_handle comm, int keyval, void *extra, void *value,
                             void *ret_value, int *ret_flag);
typedef int bps_attr_delete_fn(bps_handle comm, int keyval, void *value, void *extra);
typedef int bps_grequest_query_fn(void *extra, void *status);
typedef int bps_grequest_free_fn(void *extra);
typedef int bps_grequest_cancel_fn(void *extra, int complete);

enum bps_abi {
	BPS_ABI_NONE, /* not known to us: everything passes */
	BPS_ABI_OMPI, /* Open MPI 4, 5, 6: handles are addresses */
};

/* The predefined datatypes, by the standard's names: BPS_MPI_INT and so on. */
enum bps_mpi_type {
#define BPS_TYPE(name, class, kind, ompi, mpich, std) BPS_MPI_##name,
#include "abi/handles.def"
#undef BPS_TYPE
	BPS_MPI_N_TYPES
};

/* The rows of the standard's table of operations and types (MPI-4.0, 6.9.2). */
enum bps_type_class {
	BPS_CLASS_NONE, /* no predefined operation that is ours takes it */
	BPS_CLASS_C_INT,
	BPS_CLASS_FORTRAN_INT,
	BPS_CLASS_FLOATING,
	BPS_CLASS_LOGICAL,
	BPS_CLASS_COMPLEX,
	BPS_CLASS_BYTE,
	BPS_CLASS_MULTI, /* "multi-language": AINT, OFFSET, COUNT */
	BPS_N_CLASSES
};

/* A predefined type whose elements lie back to back. */
struct bps_type {
	bps_handle handle;
	uint16_t bytes; /* of one element */
	uint8_t dtype;  /* enum bps_dtype; NONE: no reduction of it is ours */
	uint8_t class;  /* enum bps_type_class */
};

/* Addresses start <= a < end. */
struct bps_span {
	uintptr_t start, end;
};

enum {
	BPS_MPI_MAX_SPANS = 8,
	BPS_MPI_TYPE_SLOTS = 256, /* a power of two, over twice the rows of handles.def */
	BPS_MPI_VERSION_BYTES = 128,
};

struct bps_mpi {
	enum bps_abi abi;
	char version[BPS_MPI_VERSION_BYTES]; /* first line of the library's own text */
	const char *path;                    /* of the object that defines PMPI_Init */

	/* The library's own functions: mpi->Allreduce is its PMPI_Allreduce. */
#define BPS_MPI_FN(need, ret, name, args) ret(*name) args;
#include "abi/functions.def"
#undef BPS_MPI_FN

	/* Constants. */
	bps_handle comm_world, comm_self, comm_null, group_null, request_null, info_null;
	bps_handle errors_return, type_null, op_null;
	bps_handle type[BPS_MPI_N_TYPES]; /* 0: the library lacks it */
	bps_handle op[BPS_N_REDOPS];      /* 0: the library lacks it */
	bps_handle handle_mask;           /* the bits of a register that are the handle */
	void *in_place, *bottom, *status_ignore;
	size_t request_bytes; /* of an MPI_Request: the stride of an array */
	int undefined, any_source, any_tag, proc_null, root, keyval_invalid;
	int thread_single, thread_funneled, thread_serialized, thread_multiple;
	int combiner_named;
	int max_port_name, max_object_name, max_error_string;
	int success, err_buffer, err_count, err_type, err_comm, err_root, err_op, err_arg;
	int err_unknown, err_other, err_intern, err_no_mem, err_name, err_service;

	/* The answer of bps_mpi_probe_alias(); false until it was asked. */
	bool alias_ok;

	/* Of abi/ alone. */
	int fortran_world; /* MPI_COMM_WORLD's number in Fortran */
	int checked;       /* 0: not yet, 1: fine, negative: errno of the check */
	void *find_object; /* glibc's _dl_find_object; NULL: it has none */
	uint32_t n_spans;
	struct bps_span
		spans[BPS_MPI_MAX_SPANS]; /* objects that are an MPI; first: ours */
	struct bps_type types[BPS_MPI_TYPE_SLOTS]; /* open hash by handle; 0: empty */
};

/**
 * bps_mpi_resolve() - find the MPI library of this process and fill the table.
 * @caller: an address in the code that called us (a return address); decides which
 * library is meant where several are loaded. May be NULL.
 * @ret: the table; it is never freed, and the same one is returned for ever after
 *
 * Looks among the loaded objects for one that itself defines PMPI_Init; symbol lookup by
 * name would not see a library that Python opened RTLD_LOCAL, and would find ourselves.
 * The library is kept loaded from then on. Any thread, before or after MPI_Init; cheap
 * once it succeeded. errno is kept.
 *
 * Return: 0, also for a library unknown to us; -ENOSYS (not logged, asked anew the next
 * time) if no loaded object is an MPI library with the functions that we export;
 * -ENOMEM.
 */
int bps_mpi_resolve(const void *caller, struct bps_mpi **ret);

/**
 * bps_mpi_check() - complete the table once MPI is initialised.
 *
 * Proves that MPI_COMM_WORLD is where we think (PMPI_Comm_f2c), then asks the library
 * for the size of each predefined type. Until it succeeded no type is ours. Any thread
 * that may call MPI; done once, cheap after.
 *
 * Return: 0; -ENOTSUP for a library unknown to us; -EPROTO if the handles are not where
 * we think (logged once): then the caller must take no call.
 */
int bps_mpi_check(struct bps_mpi *mpi);

/**
 * bps_mpi_probe_alias() - find out what the library makes of sendbuf == recvbuf.
 *
 * Some libraries refuse it for an allreduce, some by a run-time setting. Refused: such a
 * call must pass, and the library's error is the answer; accepted: it is as if in place.
 * Asked by an allreduce on MPI_COMM_SELF, with the error handlers of SELF and WORLD set
 * aside (Open MPI raises this one on WORLD, whatever the communicator). So call it where
 * no other thread can be in MPI: in MPI_Init, after bps_mpi_check().
 *
 * Return: whether it is accepted; also stored in mpi->alias_ok.
 */
bool bps_mpi_probe_alias(struct bps_mpi *mpi);

/**
 * bps_mpi_internal_caller() - whether a call comes from inside an MPI library.
 * @caller: the return address of the exported function
 *
 * ROMIO, for one, calls PMPI_Allreduce with the library's locks held; such calls pass.
 * The Fortran and C++ layers are callers like any other. Lock-free with glibc >= 2.35.
 * Any thread; keeps errno.
 */
bool bps_mpi_internal_caller(const struct bps_mpi *mpi, const void *caller);

/**
 * bps_mpi_next_tool() - the function of a profiling tool that was preloaded behind us.
 * @mpi_name: "MPI_Allreduce", never a PMPI_ name
 *
 * If there is one, our MPI_X must call it and do nothing else; it comes back through our
 * PMPI_X. Looked up anew at each call: the caller caches it. Any thread; keeps errno.
 *
 * Return: the function, or NULL.
 */
void *bps_mpi_next_tool(const struct bps_mpi *mpi, const char *mpi_name);

/** bps_abi_slot() - of mpi->types: a handle's, or the empty one where it would go. */
static inline size_t bps_abi_slot(const struct bps_mpi *mpi, bps_handle handle)
{
	size_t at = (size_t)(((uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> 40);

	for (;; at++) {
		bps_handle there = mpi->types[at % BPS_MPI_TYPE_SLOTS].handle;

		if (there == handle || !there)
			return at % BPS_MPI_TYPE_SLOTS;
	}
}

/**
 * bps_abi_type() - what a datatype handle is.
 *
 * Return: the entry of a predefined type that is contiguous (its count elements are
 * count * bytes bytes, back to back), borrowed for ever; NULL for any other handle.
 */
static inline const struct bps_type *bps_abi_type(const struct bps_mpi *mpi,
                                                  bps_handle type)
{
	const struct bps_type *entry;

	/* Pairs with the release in bps_mpi_check(). */
	if (bps_load_acquire(&mpi->checked) <= 0)
		return NULL;
	entry = &mpi->types[bps_abi_slot(mpi, type & mpi->handle_mask)];
	return entry->handle ? entry : NULL;
}

/** bps_abi_dtype() - our number for a datatype; BPS_DTYPE_NONE: no reduction is ours. */
enum bps_dtype bps_abi_dtype(const struct bps_mpi *mpi, bps_handle type);

/** bps_abi_redop() - our number for an operation; BPS_REDOP_NONE: not ours. */
enum bps_redop bps_abi_redop(const struct bps_mpi *mpi, bps_handle op);

/** bps_abi_legal() - whether the standard allows an operation on a class of types. */
bool bps_abi_legal(enum bps_type_class class, enum bps_redop op);

/**
 * bps_abi_reduction() - whether a reduction is allowed by the standard and ours.
 * @ret_dtype: set if true
 * @ret_op: set if true
 *
 * What the standard forbids is for the library to refuse, or to allow as an extension.
 */
bool bps_abi_reduction(const struct bps_mpi *mpi, bps_handle type, bps_handle op,
                       enum bps_dtype *ret_dtype, enum bps_redop *ret_op);
