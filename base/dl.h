/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Optional libraries: opened when they are wanted, never linked, so that the preloaded
 * library needs libc alone. The list of symbols is written once:
 *
 *	#define HWLOC_SYMBOLS(X) X(hwloc_topology_init) X(hwloc_topology_destroy)
 *
 *	struct hwloc_table {
 *		HWLOC_SYMBOLS(BPS_DL_FIELD)
 *	};
 *
 *	static const char *const hwloc_names[] = { HWLOC_SYMBOLS(BPS_DL_NAME) };
 *
 *	BPS_DL_CHECK(struct hwloc_table, hwloc_names);
 *	r = bps_dl_open("libhwloc.so.15", hwloc_names, BPS_DL_COUNT(hwloc_names),
 *	                &table, &handle, error, sizeof(error));
 *
 * The types come from the library's own header: table.hwloc_topology_init(&topology).
 */
#pragma once

#include <stddef.h>

#define BPS_DL_FIELD(symbol) __typeof__(&symbol) symbol;
#define BPS_DL_NAME(symbol)  #symbol,
#define BPS_DL_COUNT(names)  (sizeof(names) / sizeof((names)[0]))

/* The table has a pointer a name, in the same order, and nothing else. */
#define BPS_DL_CHECK(type, names)                                            \
	_Static_assert(sizeof(type) == BPS_DL_COUNT(names) * sizeof(void *), \
	               "a table of symbols holds their pointers alone")

/**
 * bps_dl_open() - open a library and fill a table with its symbols.
 * @library: as dlopen(3) takes it, for example "libhwloc.so.15"
 * @names: the symbols, @n_names of them
 * @ret_table: @n_names function pointers; all NULL on failure
 * @ret_handle: the caller owns it until bps_dl_close(); NULL on failure
 * @ret_error: on failure what went wrong, naming library and symbol, at most
 * @error_bytes with its end; may be NULL with 0
 *
 * Nothing is logged: a missing optional library is the caller's to judge.
 * Returns 0, -ENOENT (the library cannot be opened) or -ENOSYS (a symbol is missing).
 */
int bps_dl_open(const char *library, const char *const *names, size_t n_names,
                void *ret_table, void **ret_handle, char *ret_error, size_t error_bytes);

/** bps_dl_close() - give a handle back; NULL is fine. The pointers are void after it. */
void bps_dl_close(void *handle);
