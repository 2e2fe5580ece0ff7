/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose code an address is. Nothing is cached: an object may be unloaded and another one
 * come to lie at its addresses, and a stale answer could differ between the ranks.
 */
#include "abi/objects.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

/*
 * What glibc >= 2.35 has for a lookup without a lock, struct dl_find_object. By hand and
 * found at run time, so that we load with an older glibc too.
 */
struct found_object {
	unsigned long long flags;
	void *start, *end;
	struct link_map *link_map;
	unsigned long long rest[16]; /* more than it is on any machine */
};
typedef int find_object_fn(void *address, struct found_object *ret);

/* The path of the object at an address; "" if unknown or the main program. */
static const char *object_path(const struct bps_mpi *mpi, const void *address)
{
	find_object_fn *find_object = (find_object_fn *)mpi->find_object;
	struct found_object found = { 0 };
	Dl_info info = { 0 };

	if (find_object) {
		if (find_object((void *)address, &found) == 0)
			return found.link_map->l_name;
		return "";
	}
	if (dladdr(address, &info) && info.dli_fname)
		return info.dli_fname;
	return "";
}

/*
 * The libraries, and Open MPI's components (mca_io_romio321.so and so on).
 * Not "libmpi" alone: libmpi_mpifh, libmpi_cxx and their like are the application's door
 * to MPI in another language.
 */
static bool is_mpi_path(const char *path)
{
	static const char *const prefixes[] = {
		"libmpi.so",      "libmpich.so",    "libmpi_abi.so",  "libpmpi",
		"libopen_mpi.so", "libopen-rte.so", "libopen-pal.so", "mca_",
	};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

bool bps_mpi_internal_caller(const struct bps_mpi *mpi, const void *caller)
{
	int saved = errno;
	bool internal;

	for (uint32_t i = 0; i < mpi->n_spans; i++)
		if (bps_span_has(&mpi->spans[i], caller))
			return true;
	internal = is_mpi_path(object_path(mpi, caller));
	errno = saved;
	return internal;
}

void *bps_mpi_next_tool(const struct bps_mpi *mpi, const char *mpi_name)
{
	int saved = errno;
	void *next = dlsym(RTLD_NEXT, mpi_name);

	if (next && bps_mpi_internal_caller(mpi, next))
		next = NULL;
	errno = saved;
	return next;
}
