/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/abi.h"
#include "abi/driver.h"
#include "abi/objects.h"
#include "base/atomic.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need { NEED_PASS, NEED_TAKE, NEED_MAYBE };

static const struct {
	const char *name;
	size_t offset;
	enum need need;
} functions[] = {
#define BPS_MPI_FN(need, ret, name, args) \
	{ "PMPI_" #name, offsetof(struct bps_mpi, name), NEED_##need },
#include "abi/functions.def"
#undef BPS_MPI_FN
};

static const struct bps_abi_driver *const drivers[] = { &bps_abi_ompi };

/* An object that is an MPI library. Owns the handle. */
struct candidate {
	const struct bps_object *object;
	void *handle;
};

struct candidates {
	struct candidate list[BPS_MPI_MAX_SPANS];
	uint32_t n;
};

/* The lock guards the table until it is published, and the check. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bps_mpi table;
static struct bps_mpi *published;

static bool defines(const struct bps_object *object, void *handle, const char *name)
{
	const void *address = dlsym(handle, name);

	return address && bps_span_has(&object->span, address);
}

/* Type_size too: a tool may define its own PMPI_Init, as we do. */
static void *open_if_mpi(const struct bps_object *object)
{
	void *handle = dlopen(object->name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	if (!handle)
		return NULL;
	if (defines(object, handle, "PMPI_Init") &&
	    defines(object, handle, "PMPI_Type_size"))
		return handle;
	dlclose(handle);
	return NULL;
}

static void find_candidates(const struct bps_objects *objects, struct candidates *c)
{
	for (size_t i = 0; i < objects->n_objects && c->n < BPS_MPI_MAX_SPANS; i++) {
		const struct bps_object *object = &objects->object[i];
		void *handle;

		if (!*object->name ||
		    bps_span_has(&object->span, (const void *)bps_mpi_resolve))
			continue;
		handle = open_if_mpi(object);
		if (handle)
			c->list[c->n++] = (struct candidate){ object, handle };
	}
}

/*
 * Which candidate the code of an object is bound to; -1: none. Asked with a function
 * that we do not export, else the main program would seem bound to us.
 */
static int reached_from(const char *name, const struct candidates *c)
{
	void *handle = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	const void *address = handle ? dlsym(handle, "PMPI_Type_size") : NULL;
	int found = -1;

	for (uint32_t i = 0; address && i < c->n; i++)
		if (bps_span_has(&c->list[i].object->span, address))
			found = (int)i;
	if (handle)
		dlclose(handle);
	return found;
}

/* Move the caller's library to the front. */
static void choose(const struct bps_objects *objects, const void *caller,
                   struct candidates *c)
{
	const struct bps_object *from = bps_objects_find(objects, caller);
	int i = from ? reached_from(from->name, c) : -1;

	if (i < 0)
		i = reached_from("", c);
	if (i > 0) {
		struct candidate chosen = c->list[i];

		c->list[i] = c->list[0];
		c->list[0] = chosen;
	}
}

/* Return: the most needed kind of function that is missing; NEED_MAYBE if none is. */
static enum need bind_functions(struct bps_mpi *mpi, void *handle)
{
	enum need missing = NEED_MAYBE;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(handle, functions[i].name);

		memcpy((char *)mpi + functions[i].offset, &function, sizeof(function));
		if (!function && functions[i].need < missing)
			missing = functions[i].need;
	}
	return missing;
}

/*
 * Not by which symbols there are: those of another ABI may be a dependency away. A
 * library that lacks a function that we need is named, but not known.
 */
static void recognise(struct bps_mpi *mpi, void *handle, const struct bps_span *program,
                      bool complete)
{
	char version[8192 + 1] = "";
	int length = 0, major = 0, minor = 0;

	if (mpi->Get_library_version)
		mpi->Get_library_version(version, &length);
	version[sizeof(version) - 1] = '\0';
	snprintf(mpi->version, sizeof(mpi->version), "%.*s", (int)strcspn(version, "\n"),
	         version);
	if (mpi->Abi_get_version && mpi->Abi_get_version(&major, &minor) != 0)
		major = 0;
	for (size_t i = 0; complete && i < sizeof(drivers) / sizeof(drivers[0]); i++) {
		if (!drivers[i]->match(major, version))
			continue;
		if (drivers[i]->fill(mpi, handle, program) == 0)
			mpi->abi = drivers[i]->abi;
		return;
	}
}

static int fill_table(struct bps_mpi *mpi, const struct bps_objects *objects,
                      const struct candidates *c)
{
	enum need missing = bind_functions(mpi, c->list[0].handle);

	if (missing == NEED_PASS)
		return -ENOSYS;
	mpi->path = strdup(c->list[0].object->name);
	if (!mpi->path)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		mpi->spans[i] = c->list[i].object->span;
	mpi->n_spans = c->n;
	mpi->find_object = dlsym(RTLD_DEFAULT, "_dl_find_object");
	recognise(mpi, c->list[0].handle, &objects->object[0].span,
	          missing == NEED_MAYBE);
	bps_debug("MPI library %s (%s)%s", mpi->path, mpi->version,
	          mpi->abi ? "" : " is not known to us, all calls pass");
	return 0;
}

static int resolve(const void *caller)
{
	struct bps_objects objects;
	struct candidates c = { .n = 0 };
	int r = bps_objects_init(&objects);

	if (r < 0)
		return r;
	find_candidates(&objects, &c);
	if (c.n > 1)
		choose(&objects, caller, &c);
	r = -ENOSYS;
	if (c.n) {
		table = (struct bps_mpi){ 0 };
		r = fill_table(&table, &objects, &c);
	}
	/* The handle of the chosen one is kept: it must stay loaded. */
	for (uint32_t i = r < 0 ? 0 : 1; i < c.n; i++)
		dlclose(c.list[i].handle);
	bps_objects_deinit(&objects);
	dlerror(); /* drop the message of what was not found */
	return r;
}

int bps_mpi_resolve(const void *caller, struct bps_mpi **ret)
{
	struct bps_mpi *mpi =
		bps_load_acquire(&published); /* pairs with the release below */
	int saved = errno;
	int r = 0;

	if (!mpi) {
		pthread_mutex_lock(&lock);
		if (!published)
			r = resolve(caller);
		if (r == 0)
			bps_store_release(&published, &table);
		pthread_mutex_unlock(&lock);
		mpi = &table;
		errno = saved;
	}
	if (r == 0)
		*ret = mpi;
	return r;
}

static int check(struct bps_mpi *mpi)
{
	bps_handle world;

	if (mpi->abi == BPS_ABI_NONE)
		return -ENOTSUP;
	world = mpi->Comm_f2c(mpi->fortran_world);
	if ((world ^ mpi->comm_world) & mpi->handle_mask) {
		bps_warn(
			"MPI_COMM_WORLD of %s is at %#lx, not %#lx: two MPI libraries in one "
			"process? All calls pass to MPI",
			mpi->path, (unsigned long)world, (unsigned long)mpi->comm_world);
		return -EPROTO;
	}
	bps_abi_build_types(mpi);
	return 0;
}

int bps_mpi_check(struct bps_mpi *mpi)
{
	int state = bps_load_acquire(&mpi->checked); /* pairs with the release below */

	if (!state) {
		pthread_mutex_lock(&lock);
		state = mpi->checked;
		if (!state) {
			int r = check(mpi);

			state = r < 0 ? r : 1;
			bps_store_release(&mpi->checked, state);
		}
		pthread_mutex_unlock(&lock);
	}
	return state < 0 ? state : 0;
}
