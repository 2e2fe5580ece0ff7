/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding and telling MPI libraries, with pretended ones. A process resolves once, so
 * each case runs in a child of its own.
 */
#include "abi/abi.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FAKE(name) FAKE_DIR "/" name ".so"

#define EXPECT(what)                                                         \
	do {                                                                 \
		if (!(what)) {                                               \
			fprintf(stderr, "# line %d: %s\n", __LINE__, #what); \
			return 1;                                            \
		}                                                            \
	} while (0)

static void run_child(void **state)
{
	int (*child)(void) = (int (*)(void)) * state;
	pid_t pid = fork();
	int status = -1;

	assert_true(pid >= 0);
	if (!pid)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void *load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "# %s\n", dlerror());
	return handle;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Load one library, expect what is found. */
static int expect_library(const char *path, enum bps_abi abi, const char *version)
{
	struct bps_mpi *mpi = NULL, *again = NULL;

	EXPECT(load(path));
	EXPECT(!dlsym(RTLD_DEFAULT, "PMPI_Type_size"));
	errno = 4711;
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(errno == 4711);
	EXPECT(mpi->abi == abi);
	EXPECT(strcmp(mpi->version, version) == 0);
	EXPECT(strcmp(mpi->path, path) == 0);
	EXPECT(mpi->Init && mpi->Init_thread && mpi->Finalize && mpi->Allreduce &&
	       mpi->Bcast);
	EXPECT(bps_mpi_resolve((void *)expect_library, &again) == 0 && again == mpi);
	EXPECT(bps_mpi_check(mpi) == (abi ? 0 : -ENOTSUP));
	EXPECT(!dlerror());
	return 0;
}

static int child_ompi(void)
{
	return expect_library(FAKE("fake-ompi"), BPS_ABI_OMPI,
	                      "Open MPI v4.1.9, package: x");
}

/* Open MPI 6: there is an Abi_get_version, but this is not the standard ABI. */
static int child_ompi6(void)
{
	return expect_library(FAKE("fake-ompi6"), BPS_ABI_OMPI, "Open MPI v6.0.0");
}

/* The same text, but the standard ABI: its handles are other ones. */
static int child_ompi6_std(void)
{
	return expect_library(FAKE("fake-ompi6-std"), BPS_ABI_NONE, "Open MPI v6.0.0");
}

static int child_mpich(void)
{
	return expect_library(FAKE("fake-mpich"), BPS_ABI_NONE,
	                      "MPICH Version:      4.3.2");
}

static int child_unknown(void)
{
	return expect_library(FAKE("fake-unknown"), BPS_ABI_NONE,
	                      "Trampoline 5, wrapping: Open MPI v4.1");
}

static int child_few(void)
{
	return expect_library(FAKE("fake-few"), BPS_ABI_NONE, "");
}

/* None, then too little, then one: a failure is not kept. */
static int child_none(void)
{
	struct bps_mpi *mpi = NULL;

	errno = 4711;
	EXPECT(bps_mpi_resolve(NULL, &mpi) == -ENOSYS && !mpi);
	EXPECT(errno == 4711);
	void *fewer = load(FAKE("fake-fewer"));
	EXPECT(fewer && bps_mpi_resolve(NULL, &mpi) == -ENOSYS && !mpi);
	dlclose(fewer);
	return expect_library(FAKE("fake-ompi"), BPS_ABI_OMPI,
	                      "Open MPI v4.1.9, package: x");
}

/* A tool that defines PMPI_Init is no library. */
static int child_tool_is_no_library(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("tool")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == -ENOSYS);
	EXPECT(load(FAKE("fake-ompi")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(ends_with(mpi->path, "/fake-ompi.so"));
	return 0;
}

static int child_types(void)
{
	struct bps_mpi *mpi = NULL;
	const struct bps_type *type;

	EXPECT(load(FAKE("fake-ompi")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(mpi->type[BPS_MPI_INTEGER] && mpi->type[BPS_MPI_BYTE]);
	/* Before the check nothing is ours. */
	EXPECT(!bps_abi_type(mpi, mpi->type[BPS_MPI_BYTE]));
	EXPECT(bps_mpi_check(mpi) == 0);
	EXPECT(bps_mpi_check(mpi) == 0);
	/* Fortran's INTEGER has eight bytes in this one. */
	EXPECT(bps_abi_dtype(mpi, mpi->type[BPS_MPI_INTEGER]) == BPS_I64);
	EXPECT(bps_abi_dtype(mpi, mpi->type[BPS_MPI_DOUBLE_PRECISION]) == BPS_F64);
	EXPECT(bps_abi_dtype(mpi, mpi->type[BPS_MPI_BYTE]) == BPS_BYTE);
	/* A bool of four bytes is not ours to sum, but still flat. */
	type = bps_abi_type(mpi, mpi->type[BPS_MPI_CXX_BOOL]);
	EXPECT(type && type->bytes == 4 && type->dtype == BPS_DTYPE_NONE);
	/* Of undefined size; with holes; nothing; no handle at all. */
	EXPECT(!bps_abi_type(mpi, mpi->type[BPS_MPI_REAL2]));
	EXPECT(!bps_abi_type(mpi, mpi->type[BPS_MPI_DOUBLE_INT]));
	EXPECT(!bps_abi_type(mpi, 0));
	EXPECT(!bps_abi_type(mpi, mpi->comm_world));
	EXPECT(bps_abi_redop(mpi, mpi->op[BPS_BXOR]) == BPS_BXOR);
	EXPECT(bps_abi_redop(mpi, 0) == BPS_REDOP_NONE);
	EXPECT(bps_abi_redop(mpi, mpi->op_null) == BPS_REDOP_NONE);
	return 0;
}

static int child_wrong_world(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("fake-elsewhere")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0 && mpi->abi == BPS_ABI_OMPI);
	EXPECT(bps_mpi_check(mpi) == -EPROTO);
	EXPECT(bps_mpi_check(mpi) == -EPROTO);
	EXPECT(!bps_abi_type(mpi, mpi->type[BPS_MPI_BYTE]));
	return 0;
}

static int child_alias(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("fake-ompi")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(!mpi->alias_ok);
	EXPECT(!bps_mpi_probe_alias(mpi) && !mpi->alias_ok);
	return 0;
}

static int child_alias_accepted(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("fake-ompi6")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(bps_mpi_probe_alias(mpi) && mpi->alias_ok);
	return 0;
}

static const void *return_address(void)
{
	return __builtin_return_address(0);
}

/* An address in the code of a plugin. */
static const void *inside(const char *path)
{
	const void *(*call)(const void *(*)(void)) = NULL;
	void *handle = load(path);

	if (handle)
		*(void **)&call = dlsym(handle, "plugin_call");
	return call ? call(return_address) : NULL;
}

/* Two libraries: the one that the caller is bound to. */
static int expect_of_two(const char *user, const char *library)
{
	struct bps_mpi *mpi = NULL;
	const void *one, *other;

	EXPECT(one = inside(FAKE("user-ompi")));
	EXPECT(other = inside(FAKE("user-mpich")));
	EXPECT(bps_mpi_resolve(strstr(user, "mpich") ? other : one, &mpi) == 0);
	EXPECT(ends_with(mpi->path, library));
	EXPECT(mpi->n_spans == 2);
	return 0;
}

static int child_two_first(void)
{
	return expect_of_two("user-ompi", "/fake-ompi.so");
}

static int child_two_second(void)
{
	return expect_of_two("user-mpich", "/fake-mpich.so");
}

/* A caller that is bound to none of them, then the program's own; then any. */
static int child_two_unbound(void)
{
	struct bps_mpi *mpi = NULL;
	const void *caller = inside(FAKE("plugin"));

	EXPECT(caller);
	EXPECT(load(FAKE("fake-mpich")));
	EXPECT(dlopen(FAKE("fake-ompi"), RTLD_NOW | RTLD_GLOBAL));
	EXPECT(bps_mpi_resolve(caller, &mpi) == 0);
	EXPECT(ends_with(mpi->path, "/fake-ompi.so"));
	return 0;
}

static int child_callers(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("fake-ompi")));
	EXPECT(load(FAKE("fake-mpich")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	errno = 4711;
	/* The library, and another MPI library. */
	EXPECT(bps_mpi_internal_caller(mpi, (void *)mpi->Bcast));
	EXPECT(bps_mpi_internal_caller(mpi,
	                               dlsym(load(FAKE("fake-mpich")), "PMPI_Bcast")));
	/* Its components; not the application, its plugins, and the Fortran layer. */
	EXPECT(bps_mpi_internal_caller(mpi, inside(FAKE("mca_io_fake"))));
	EXPECT(!bps_mpi_internal_caller(mpi, inside(FAKE("plugin"))));
	EXPECT(!bps_mpi_internal_caller(mpi, inside(FAKE("libmpi_mpifh"))));
	EXPECT(!bps_mpi_internal_caller(mpi, (void *)child_callers));
	EXPECT(!bps_mpi_internal_caller(mpi, NULL));
	EXPECT(errno == 4711);
	return 0;
}

/* As with an older glibc. */
static int child_callers_by_dladdr(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(load(FAKE("fake-ompi")));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	mpi->find_object = NULL;
	EXPECT(bps_mpi_internal_caller(mpi, inside(FAKE("mca_io_fake"))));
	EXPECT(!bps_mpi_internal_caller(mpi, inside(FAKE("plugin"))));
	EXPECT(!bps_mpi_internal_caller(mpi, (void *)child_callers));
	EXPECT(!bps_mpi_internal_caller(mpi, NULL));
	return 0;
}

static int child_no_tool(void)
{
	struct bps_mpi *mpi = NULL;

	EXPECT(dlopen(FAKE("fake-ompi"), RTLD_NOW | RTLD_GLOBAL));
	EXPECT(bps_mpi_resolve(NULL, &mpi) == 0);
	EXPECT(!bps_mpi_next_tool(mpi, "MPI_Finalize"));
	/* The library's own is none. */
	EXPECT(!bps_mpi_next_tool(mpi, "PMPI_Finalize"));
	return 0;
}

#define CHILD(name)                                                \
	{                                                          \
#name, run_child, NULL, NULL, (void *)child_##name \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHILD(ompi),
		CHILD(ompi6),
		CHILD(ompi6_std),
		CHILD(mpich),
		CHILD(unknown),
		CHILD(few),
		CHILD(none),
		CHILD(tool_is_no_library),
		CHILD(types),
		CHILD(wrong_world),
		CHILD(alias),
		CHILD(alias_accepted),
		CHILD(two_first),
		CHILD(two_second),
		CHILD(two_unbound),
		CHILD(callers),
		CHILD(callers_by_dladdr),
		CHILD(no_tool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
