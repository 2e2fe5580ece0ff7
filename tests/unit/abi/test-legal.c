/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations and types of MPI-4.0, 6.9.2, against the standard's own words. */
#include "abi/abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *const class_words[BPS_N_CLASSES] = {
	[BPS_CLASS_NONE] = "(none)",
	[BPS_CLASS_C_INT] = "C integer",
	[BPS_CLASS_FORTRAN_INT] = "Fortran integer",
	[BPS_CLASS_FLOATING] = "Floating point",
	[BPS_CLASS_LOGICAL] = "Logical",
	[BPS_CLASS_COMPLEX] = "Complex",
	[BPS_CLASS_BYTE] = "Byte",
	[BPS_CLASS_MULTI] = "Multi-language types",
};

static const struct {
	enum bps_redop op;
	const char *allowed;
} standard[] = {
	{ BPS_MAX, "C integer, Fortran integer, Floating point, Multi-language types" },
	{ BPS_MIN, "C integer, Fortran integer, Floating point, Multi-language types" },
	{ BPS_SUM,
	  "C integer, Fortran integer, Floating point, Complex, Multi-language types" },
	{ BPS_PROD,
	  "C integer, Fortran integer, Floating point, Complex, Multi-language types" },
	{ BPS_LAND, "C integer, Logical" },
	{ BPS_LOR, "C integer, Logical" },
	{ BPS_LXOR, "C integer, Logical" },
	{ BPS_BAND, "C integer, Fortran integer, Byte, Multi-language types" },
	{ BPS_BOR, "C integer, Fortran integer, Byte, Multi-language types" },
	{ BPS_BXOR, "C integer, Fortran integer, Byte, Multi-language types" },
};

static void matrix(void **state)
{
	for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
		for (int class = 0; class < BPS_N_CLASSES; class ++) {
			bool want =
				strstr(standard[i].allowed, class_words[class]) != NULL;

			assert_int_equal(bps_abi_legal(class, standard[i].op), want);
		}
}

static void not_an_operation(void **state)
{
	for (int class = 0; class < BPS_N_CLASSES; class ++) {
		assert_false(bps_abi_legal(class, BPS_REDOP_NONE));
		assert_false(bps_abi_legal(class, BPS_N_REDOPS));
		assert_false(bps_abi_legal(class, 1000));
	}
	assert_false(bps_abi_legal(BPS_N_CLASSES, BPS_SUM));
	assert_false(bps_abi_legal(1000, BPS_SUM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matrix),
		cmocka_unit_test(not_an_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
