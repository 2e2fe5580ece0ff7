/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/abi.h"

#define BIT(op) (1U << BPS_##op)

enum {
	MIN_MAX = BIT(MIN) | BIT(MAX),
	SUM_PROD = BIT(SUM) | BIT(PROD),
	LOGICAL = BIT(LAND) | BIT(LOR) | BIT(LXOR),
	BITWISE = BIT(BAND) | BIT(BOR) | BIT(BXOR),
};

bool bps_abi_legal(enum bps_type_class class, enum bps_redop op)
{
	static const uint16_t allowed[BPS_N_CLASSES] = {
		[BPS_CLASS_C_INT] = MIN_MAX | SUM_PROD | LOGICAL | BITWISE,
		[BPS_CLASS_FORTRAN_INT] = MIN_MAX | SUM_PROD | BITWISE,
		[BPS_CLASS_FLOATING] = MIN_MAX | SUM_PROD,
		[BPS_CLASS_LOGICAL] = LOGICAL,
		[BPS_CLASS_COMPLEX] = SUM_PROD,
		[BPS_CLASS_BYTE] = BITWISE,
		[BPS_CLASS_MULTI] = MIN_MAX | SUM_PROD | BITWISE,
	};

	return class < BPS_N_CLASSES && op < BPS_N_REDOPS && (allowed[class] >> op & 1);
}
