/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/objects.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* One walk: writes what fits, counts all. */
struct walk {
	struct bps_objects *objects;
	size_t max_objects, n_objects;
	size_t max_bytes, n_bytes;
};

static struct bps_span object_span(const struct dl_phdr_info *info)
{
	struct bps_span span = { UINTPTR_MAX, 0 };

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		if (start < span.start)
			span.start = start;
		if (start + ph->p_memsz > span.end)
			span.end = start + ph->p_memsz;
	}
	return span;
}

/* Under the loader's lock: no allocation here, an allocator may want that lock too. */
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct walk *walk = data;
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	size_t bytes = strlen(name) + 1;
	size_t at = walk->n_bytes;

	walk->n_bytes += bytes;
	if (walk->n_objects++ >= walk->max_objects || walk->n_bytes > walk->max_bytes)
		return 0;
	memcpy(walk->objects->names + at, name, bytes);
	walk->objects->object[walk->n_objects - 1] = (struct bps_object){
		.span = object_span(info),
		.name = walk->objects->names + at,
	};
	return 0;
}

int bps_objects_init(struct bps_objects *objects)
{
	struct walk walk = { .objects = objects };

	*objects = (struct bps_objects){ 0 };
	dl_iterate_phdr(visit, &walk);
	/* Again if another thread loaded something in between. */
	while (walk.n_objects > walk.max_objects || walk.n_bytes > walk.max_bytes) {
		bps_objects_deinit(objects);
		walk.max_objects = walk.n_objects;
		walk.max_bytes = walk.n_bytes;
		objects->object = calloc(walk.max_objects, sizeof(*objects->object));
		objects->names = malloc(walk.max_bytes);
		if (!objects->object || !objects->names) {
			bps_objects_deinit(objects);
			return -ENOMEM;
		}
		walk.n_objects = 0;
		walk.n_bytes = 0;
		dl_iterate_phdr(visit, &walk);
	}
	objects->n_objects = walk.n_objects;
	return 0;
}

void bps_objects_deinit(struct bps_objects *objects)
{
	free(objects->object);
	free(objects->names);
	*objects = (struct bps_objects){ 0 };
}

const struct bps_object *bps_objects_find(const struct bps_objects *objects,
                                          const void *address)
{
	for (size_t i = 0; i < objects->n_objects; i++)
		if (bps_span_has(&objects->object[i].span, address))
			return &objects->object[i];
	return NULL;
}
