/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor of bpsmpi-check: what is wrong with this box, with the servers that
 * BPSMPI_SERVERS names, or with a program; what that costs, and what to type. Nothing of
 * it needs hwloc or MPI.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * bps_doctor() - look at the running system and write the findings, or a line that there
 * are none, below an empty line.
 * @out: borrowed during the call
 * @columns: of a line; lines to be typed may be longer
 *
 * It greets each server as a job of its own and leaves again: where servers do not answer
 * that takes two seconds for each address of theirs, but 64 at once. The rest takes some
 * milliseconds, where the box's own name does not have to be asked of a name server.
 *
 * Return: the number of findings, 0 or more; a negative errno (logged). The caller looks
 * whether @out could be written.
 */
int bps_doctor(FILE *out, uint32_t columns);

/**
 * bps_doctor_program() - look whether LD_PRELOAD can bring the library into a program.
 * @name: what mpirun would be told: a path, or a name to be found in PATH. The file may
 * be broken or hostile. A script is followed to the program that runs it.
 * @out: gets a line on what it is, or the findings; borrowed during the call
 * @columns: of a line; lines to be typed may be longer
 * @ret_error: on failure one line that names the file, at most @error_bytes with its end
 *
 * Return: the number of findings; -EINVAL: it cannot be started, is no program, or is
 * broken; or the error of reading it. Nothing is logged.
 */
int bps_doctor_program(const char *name, FILE *out, uint32_t columns, char *ret_error,
                       size_t error_bytes);
