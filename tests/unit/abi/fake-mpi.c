/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a pretended MPI library answers. Compiled with:
 *
 * FAKE_VERSION: first line of the version text
 * FAKE_ABI_MAJOR: what PMPI_Abi_get_version answers; undefined: no such function
 * FAKE_INTEGER_BYTES: size of a Fortran INTEGER; the other types have their usual ones
 * FAKE_WORLD: what Fortran's communicator 0 is
 * FAKE_ALIAS_OK: whether sendbuf == recvbuf is accepted
 */
#include <stdint.h>
#include <stdio.h>

#ifndef FAKE_INTEGER_BYTES
#define FAKE_INTEGER_BYTES 8
#endif
#ifndef FAKE_WORLD
#define FAKE_WORLD ompi_mpi_comm_world
#endif
#ifndef FAKE_ALIAS_OK
#define FAKE_ALIAS_OK 0
#endif

/* The symbols of Open MPI, in a library of any name: their presence must not count. */
#define OBJECT(name)          \
	extern char name[64]; \
	char name[64]
#define BPS_TYPE(name, class, kind, ompi, mpich, std) OBJECT(ompi);
#define BPS_REDUCTION(ours, ompi, mpich, std)         OBJECT(ompi);
#include "abi/handles.def"
OBJECT(ompi_mpi_comm_world);
OBJECT(ompi_mpi_comm_self);
OBJECT(ompi_mpi_comm_null);
OBJECT(ompi_mpi_group_null);
OBJECT(ompi_request_null);
OBJECT(ompi_mpi_info_null);
OBJECT(ompi_mpi_errors_return);
OBJECT(ompi_mpi_datatype_null);
OBJECT(ompi_mpi_op_null);

int PMPI_Get_library_version(char *version, int *length);
int PMPI_Get_library_version(char *version, int *length)
{
	*length = snprintf(version, 256, "%s\nmore lines\n", FAKE_VERSION);
	return 0;
}

#ifdef FAKE_ABI_MAJOR
int PMPI_Abi_get_version(int *major, int *minor);
int PMPI_Abi_get_version(int *major, int *minor)
{
	*major = FAKE_ABI_MAJOR;
	*minor = FAKE_ABI_MAJOR < 0 ? -1 : 0;
	return 0;
}
#endif

int PMPI_Comm_get_errhandler(uintptr_t comm, uintptr_t *errhandler);
int PMPI_Comm_get_errhandler(uintptr_t comm, uintptr_t *errhandler)
{
	*errhandler = comm + 1;
	return 0;
}

uintptr_t PMPI_Comm_f2c(int comm);
uintptr_t PMPI_Comm_f2c(int comm)
{
	return comm == 0 ? (uintptr_t)FAKE_WORLD : 0;
}

int PMPI_Type_size(uintptr_t type, int *size);
int PMPI_Type_size(uintptr_t type, int *size)
{
	*size = type == (uintptr_t)ompi_mpi_integer      ? FAKE_INTEGER_BYTES
	        : type == (uintptr_t)ompi_mpi_real2      ? -32766 /* undefined */
	        : type == (uintptr_t)ompi_mpi_dblprec    ? 8
	        : type == (uintptr_t)ompi_mpi_cxx_bool   ? 4
	        : type == (uintptr_t)ompi_mpi_double_int ? 12
	        : type == (uintptr_t)ompi_mpi_byte       ? 1
	                                                 : 4;
	return 0;
}

int PMPI_Type_get_extent(uintptr_t type, intptr_t *lb, intptr_t *extent);
int PMPI_Type_get_extent(uintptr_t type, intptr_t *lb, intptr_t *extent)
{
	int size = 0;

	PMPI_Type_size(type, &size);
	*lb = 0;
	*extent = type == (uintptr_t)ompi_mpi_double_int ? 16 : size;
	return 0;
}

int PMPI_Allreduce(const void *in, void *out, int count, uintptr_t type, uintptr_t op,
                   uintptr_t comm);
int PMPI_Allreduce(const void *in, void *out, int count, uintptr_t type, uintptr_t op,
                   uintptr_t comm)
{
	return in == out && count > 1 && !FAKE_ALIAS_OK;
}
