/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>

#include "check/check.h"
#include "check/doctor/doctor.h"

int bps_check_program(const struct bps_check_options *options)
{
	char error[2 * PATH_MAX];
	int n = bps_doctor_program(options->program, stdout, (uint32_t)bps_check_width(),
	                           error, sizeof(error));

	if (n < 0) {
		bps_check_complain("%s", error);
		return BPS_CHECK_CANNOT;
	}
	return n > 0 ? BPS_CHECK_WRONG : BPS_CHECK_FINE;
}
