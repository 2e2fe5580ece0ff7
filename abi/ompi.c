/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI 4, 5 and 6: a handle is the address of an object, a predefined one that of an
 * exported symbol. The numbers are those of its mpi.h.
 */
#include "abi/driver.h"
#include "abi/objects.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static bool match(int abi_major, const char *version)
{
	return abi_major <= 0 && strncmp(version, "Open MPI v", 10) == 0;
}

/*
 * A program that takes the address of a library's variable may own the variable: the
 * linker copies it there (a COPY relocation), and the library itself uses the copy. So
 * the program's comes first; a namesake in any other object is not the library's.
 */
static bps_handle symbol(void *handle, const struct bps_span *program, const char *name)
{
	void *global = dlsym(RTLD_DEFAULT, name);

	if (global && bps_span_has(program, global))
		return (bps_handle)global;
	return (bps_handle)dlsym(handle, name);
}

static void set_numbers(struct bps_mpi *mpi)
{
	mpi->handle_mask = UINTPTR_MAX;
	mpi->in_place = (void *)1;
	mpi->bottom = NULL;
	mpi->status_ignore = NULL;
	mpi->request_bytes = sizeof(void *);
	mpi->fortran_world = 0;
	mpi->undefined = -32766;
	mpi->any_source = -1;
	mpi->any_tag = -1;
	mpi->proc_null = -2;
	mpi->root = -4;
	mpi->keyval_invalid = -1;
	mpi->thread_single = 0;
	mpi->thread_funneled = 1;
	mpi->thread_serialized = 2;
	mpi->thread_multiple = 3;
	mpi->combiner_named = 0;
	mpi->max_port_name = 1024;
	mpi->max_object_name = 64;
	mpi->max_error_string = 256;
}

static void set_error_classes(struct bps_mpi *mpi)
{
	mpi->success = 0;
	mpi->err_buffer = 1;
	mpi->err_count = 2;
	mpi->err_type = 3;
	mpi->err_comm = 5;
	mpi->err_root = 8;
	mpi->err_op = 10;
	mpi->err_arg = 13;
	mpi->err_unknown = 14;
	mpi->err_other = 16;
	mpi->err_intern = 17;
	mpi->err_name = 38;
	mpi->err_no_mem = 39;
	mpi->err_service = 48;
}

static int set_handles(struct bps_mpi *mpi, void *handle, const struct bps_span *program)
{
	const struct {
		bps_handle *to;
		const char *name;
	} needed[] = {
		{ &mpi->comm_world, "ompi_mpi_comm_world" },
		{ &mpi->comm_self, "ompi_mpi_comm_self" },
		{ &mpi->comm_null, "ompi_mpi_comm_null" },
		{ &mpi->group_null, "ompi_mpi_group_null" },
		{ &mpi->request_null, "ompi_request_null" },
		{ &mpi->info_null, "ompi_mpi_info_null" },
		{ &mpi->errors_return, "ompi_mpi_errors_return" },
		{ &mpi->type_null, "ompi_mpi_datatype_null" },
		{ &mpi->op_null, "ompi_mpi_op_null" },
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		*needed[i].to = symbol(handle, program, needed[i].name);
		if (!*needed[i].to)
			return -ENOENT;
	}
	return 0;
}

static void set_types(struct bps_mpi *mpi, void *handle, const struct bps_span *program)
{
	static const char *const type_names[BPS_MPI_N_TYPES] = {
#define BPS_TYPE(name, class, kind, ompi, mpich, std) [BPS_MPI_##name] = #ompi,
#include "abi/handles.def"
#undef BPS_TYPE
	};
	static const char *const op_names[BPS_N_REDOPS] = {
#define BPS_REDUCTION(ours, ompi, mpich, std) [BPS_##ours] = #ompi,
#include "abi/handles.def"
#undef BPS_REDUCTION
	};

	for (size_t i = 0; i < BPS_MPI_N_TYPES; i++)
		mpi->type[i] = symbol(handle, program, type_names[i]);
	for (size_t i = 1; i < BPS_N_REDOPS; i++)
		mpi->op[i] = symbol(handle, program, op_names[i]);
}

static int fill(struct bps_mpi *mpi, void *handle, const struct bps_span *program)
{
	set_numbers(mpi);
	set_error_classes(mpi);
	set_types(mpi, handle, program);
	return set_handles(mpi, handle, program);
}

const struct bps_abi_driver bps_abi_ompi = {
	.abi = BPS_ABI_OMPI,
	.match = match,
	.fill = fill,
};
