/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor alone, on the running system: its findings on standard output, and their
 * number as exit status (99: it failed).
 */
#include "check/doctor/doctor.h"

int main(void)
{
	int n = bps_doctor(stdout, 80);

	return n < 0 || n > 98 ? 99 : n;
}
