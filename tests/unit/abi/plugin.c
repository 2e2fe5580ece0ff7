/* SPDX-License-Identifier: BSD-3-Clause */
/* Code that lies in an object of its own: it calls what it is given. */
#include <stddef.h>

int PMPI_Type_size(void *type, int *size);
const void *plugin_call(const void *(*function)(void));
int plugin_size(void);

const void *plugin_call(const void *(*function)(void))
{
	const void *answer = function();

	__asm__ volatile("" ::: "memory"); /* no tail call */
	return answer;
}

#ifdef PLUGIN_USES_MPI
int plugin_size(void)
{
	int size = 0;

	PMPI_Type_size(NULL, &size);
	return size;
}
#endif
