/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor looks at a program: can LD_PRELOAD bring the library into it? */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/check-doctor-elf.h"
#include "tools/check-doctor-impl.h"
#include "tools/check-doctor.h"

/* A script may be another's interpreter; the kernel follows as many. */
#define MAX_SCRIPTS 5
#define LINE_BYTES  256 /* of a script's first line, as the kernel reads it */

struct program {
	char path[PATH_MAX];
	struct stat status;
	bool has_rights; /* file capabilities */
	struct bps_elf elf;
};

/* -- what keeps it out -- */

static void say_static(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "%s is statically linked: it asks for no loader, which is "
	                 "who reads LD_PRELOAD",
	                 program->path);
	bps_doctor_cost(report, "the library does not get into it; it runs as without");
	bps_doctor_remedy(report,
	                  "link it to shared libraries: without -static, and with "
	                  "an MPI library that has them; what the compiler does:");
	bps_doctor_type(report, "mpicc -show");
}

static void say_own_mpi(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "%s has MPI's functions in itself: libmpi.a was linked to "
	                 "it",
	                 program->path);
	bps_doctor_cost(report, "its calls of MPI_Allreduce reach those, and never the "
	                        "library; it runs as without");
	bps_doctor_remedy(report, "link it to the shared libmpi.so; what the compiler "
	                          "does:");
	bps_doctor_type(report, "mpicc -show");
}

static void say_rights(const struct program *program, struct bps_doctor_report *report)
{
	bool bits = program->status.st_mode & (S_ISUID | S_ISGID);

	bps_doctor_found(report, "%s %s", program->path,
	                 bits ? "runs with its owner's rights (setuid or setgid)"
	                      : "has rights of its own (file capabilities)");
	bps_doctor_cost(report, "the loader does not take LD_PRELOAD from users for such "
	                        "programs; it runs as without the library");
	bps_doctor_remedy(report, "run a copy without these rights, or take them away:");
	bps_doctor_type(report, bits ? "chmod ug-s %s" : "setcap -r %s", program->path);
}

static void say_loader(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report, "%s is built for musl (%s)", program->path,
	                 program->elf.loader);
	bps_doctor_cost(report,
	                "a library that is built for glibc does not load there: the "
	                "program ends at its start");
	bps_doctor_remedy(report,
	                  "build it where the C library is glibc, as in images of "
	                  "Debian, Ubuntu, Fedora or Rocky instead of Alpine");
}

static void say_mpich(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "%s takes MPI from %s, as it is called by MPICH, Intel MPI "
	                 "and others like them",
	                 program->path, program->elf.mpi);
	bps_doctor_cost(report, "the library knows Open MPI; with others it passes every "
	                        "call on, and nothing becomes faster");
	bps_doctor_remedy(report, "build the program with Open MPI's compiler; which one "
	                          "this is:");
	bps_doctor_type(report, "mpicc --showme:version");
}

/* The names of MPICH's ABI initiative. */
static bool is_mpich(const char *library)
{
	return strncmp(library, "libmpich", 8) == 0 ||
	       strcmp(library, "libmpi.so.12") == 0 ||
	       strcmp(library, "libmpifort.so.12") == 0;
}

static void examine(const struct program *program, struct bps_doctor_report *report)
{
	const struct bps_elf *elf = &program->elf;

	if (!elf->loader[0])
		say_static(program, report);
	else if (elf->has_mpi)
		say_own_mpi(program, report);
	if (elf->loader[0] &&
	    (program->has_rights || program->status.st_mode & (S_ISUID | S_ISGID)))
		say_rights(program, report);
	if (strstr(elf->loader, "ld-musl"))
		say_loader(program, report);
	if (is_mpich(elf->mpi))
		say_mpich(program, report);
	if (report->n_findings > 0)
		return;
	if (elf->mpi[0])
		bps_doctor_note(report, "LD_PRELOAD works for %s; it takes MPI from %s",
		                program->path, elf->mpi);
	else
		bps_doctor_note(
			report,
			"LD_PRELOAD works for %s. It names no MPI library: one of "
			"its own libraries may bring one along (ldd shows that), or "
			"it loads one later, as Python does with mpi4py; or it "
			"starts other programs: look at these, too",
			program->path);
}

static void say_foreign(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "%s is for another processor than this program is (ELF machine "
	                 "%u, %u bits)",
	                 program->path, program->elf.machine, program->elf.n_bits);
	bps_doctor_cost(report,
	                "a library that is built for this one does not load there");
	bps_doctor_remedy(report, "build the library for that processor and width, on a "
	                          "host that has it");
}

/* -- which file it is -- */

/* As a shell finds it; where there is no such file, the name itself. */
static void find_in_path(const char *name, char *ret)
{
	const char *at = getenv("PATH");

	(void)snprintf(ret, PATH_MAX, "%s", name);
	if (!at || strchr(name, '/') || access(name, F_OK) == 0)
		return;
	while (*at) {
		int n = (int)strcspn(at, ":");

		if (snprintf(ret, PATH_MAX, "%.*s/%s", n, at, name) < PATH_MAX &&
		    access(ret, X_OK) == 0)
			return;
		at += n + (at[n] == ':');
	}
	(void)snprintf(ret, PATH_MAX, "%s", name);
}

/* "#!/usr/bin/env -S python3 -u" is python3's, "#!/bin/sh -e" /bin/sh's. */
static bool find_interpreter(char *line, char *ret)
{
	char *rest = NULL, *word = strtok_r(line, " \t", &rest);
	const char *name = word ? strrchr(word, '/') : NULL;

	if (name && strcmp(name, "/env") == 0) {
		char *next;

		while ((next = strtok_r(NULL, " \t", &rest)))
			if (next[0] != '-' && !strchr(next, '='))
				break;
		word = next ? next : word;
	}
	if (word)
		find_in_path(word, ret);
	return word;
}

/* The interpreter's path into @ret; false: it is no script. */
static bool read_script(int fd, char *ret)
{
	char line[LINE_BYTES + 1];
	ssize_t n = pread(fd, line, LINE_BYTES, 0);

	if (n < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	return find_interpreter(line + 2, ret);
}

/* -- the whole -- */

static int explain(const char *path, int error, char *ret_error, size_t error_bytes)
{
	const char *text = strerrordesc_np(-error);

	if (error == -EINVAL)
		text = "it is no plain file";
	if (error == -ENOEXEC)
		text = "it is no program that can be looked at: neither ELF nor a script "
		       "that begins with #!";
	if (error == -EBADMSG)
		text = "its ELF structure is broken, or its end is missing; was it copied "
		       "in full?";
	if (error == -ELIBEXEC)
		text = "it is no program, but a library or an object file; name the "
		       "program that mpirun starts";
	if (error == -ELOOP)
		text = "too many scripts that run each other";
	(void)snprintf(ret_error, error_bytes, "%s: %s", path, text);
	switch (error) {
	case -ENOEXEC:
	case -EBADMSG:
	case -ELIBEXEC:
	case -ELOOP:
		return -EINVAL;
	default:
		return error;
	}
}

/* One file. Return: 1: it is a script, and program->path its interpreter. */
static int look(struct program *program, struct bps_doctor_report *report)
{
	char script[PATH_MAX];
	int fd = bps_elf_open(program->path), r;

	if (fd < 0)
		return fd;
	memcpy(script, program->path, sizeof(script));
	if (read_script(fd, program->path)) {
		bps_doctor_note(report, "%s is a script of %s", script, program->path);
		r = 1;
	} else {
		r = bps_elf_read(fd, &program->elf);
		if (fstat(fd, &program->status))
			r = -errno;
		program->has_rights = fgetxattr(fd, "security.capability", NULL, 0) > 0;
	}
	close(fd);
	return r;
}

int bps_doctor_program(const char *path, FILE *out, char *ret_error, size_t error_bytes)
{
	char host[65];
	struct bps_doctor_report report = {
		.out = out,
		.host = host,
		.check = "program",
		.columns = BPS_DOCTOR_COLUMNS,
	};
	struct program program = { .path = "" };
	int r = 1;

	bps_doctor_name_host(host);
	find_in_path(path, program.path);
	for (int i = 0; r == 1 && i < MAX_SCRIPTS; i++)
		r = look(&program, &report);
	if (r == 1)
		r = -ELOOP;
	else if (r == 0 && !program.elf.foreign && program.elf.kind != BPS_ELF_PROGRAM)
		r = -ELIBEXEC;
	if (r < 0)
		return explain(program.path, r, ret_error, error_bytes);
	if (program.elf.foreign)
		say_foreign(&program, &report);
	else
		examine(&program, &report);
	return report.n_findings;
}
