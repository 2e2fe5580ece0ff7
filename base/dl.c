/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int fill_table(void *handle, const char *const *names, size_t n_names,
                      void **table, const char **ret_missing)
{
	for (size_t i = 0; i < n_names; i++) {
		table[i] = dlsym(handle, names[i]);
		if (!table[i]) {
			*ret_missing = names[i];
			return -ENOSYS;
		}
	}
	return 0;
}

int bps_dl_open(const char *library, const char *const *names, size_t n_names,
                void *ret_table, void **ret_handle, char *ret_error, size_t error_bytes)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	memset(ret_table, 0, n_names * sizeof(void *));
	*ret_handle = NULL;
	if (!handle) {
		const char *why = dlerror();

		(void)snprintf(ret_error, error_bytes, "%s cannot be loaded: %s", library,
		               why ? why : "no reason given");
		return -ENOENT;
	}
	if (fill_table(handle, names, n_names, ret_table, &missing)) {
		(void)snprintf(ret_error, error_bytes,
		               "%s has no symbol %s (another version is needed)", library,
		               missing);
		memset(ret_table, 0, n_names * sizeof(void *));
		dlclose(handle);
		return -ENOSYS;
	}
	*ret_handle = handle;
	return 0;
}

void bps_dl_close(void *handle)
{
	if (handle)
		dlclose(handle);
}
