/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor of bpsmpi-check: what is wrong with this box and with the servers that
 * BPSMPI_SERVERS names, what that costs, and what to type. Nothing of it needs hwloc or
 * MPI.
 */
#pragma once

#include <stdio.h>

/**
 * bps_doctor() - look at the running system and write the findings, or a line that there
 * are none, below an empty line.
 * @out: borrowed during the call
 *
 * It greets each server as a job of its own and leaves again. Takes some milliseconds;
 * where servers do not answer, two seconds for each address of theirs, but 64 at once.
 *
 * Return: the number of findings, 0 or more; a negative errno (logged). The caller looks
 * whether @out could be written.
 */
int bps_doctor(FILE *out);
