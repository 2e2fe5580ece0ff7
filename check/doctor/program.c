/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor looks at a program: can LD_PRELOAD bring the library into it? */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check/doctor/doctor.h"
#include "check/doctor/elf.h"
#include "check/doctor/impl.h"
#include "check/doctor/start.h"

struct program {
	struct bps_start start; /* and its path, when it was followed */
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
	                 program->start.path);
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
	                 program->start.path);
	bps_doctor_cost(report, "its calls of MPI_Allreduce reach those, and never the "
	                        "library; it runs as without");
	bps_doctor_remedy(report, "link it to the shared libmpi.so; what the compiler "
	                          "does:");
	bps_doctor_type(report, "mpicc -show");
}

static void say_rights(const struct program *program, struct bps_doctor_report *report)
{
	bool bits = program->status.st_mode & (S_ISUID | S_ISGID);

	bps_doctor_found(report, "%s %s", program->start.path,
	                 bits ? "runs with its owner's rights (setuid or setgid)"
	                      : "has rights of its own (file capabilities)");
	bps_doctor_cost(report, "the loader does not take LD_PRELOAD from users for such "
	                        "programs; it runs as without the library");
	bps_doctor_remedy(report, "run a copy without these rights, or take them away:");
	bps_doctor_type(report, bits ? "chmod ug-s %s" : "setcap -r %s",
	                program->start.path);
}

static void say_loader(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report, "%s is built for musl (%s)", program->start.path,
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
	                 program->start.path, program->elf.mpi);
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

static bool is_musl(const struct bps_elf *elf)
{
	return strstr(elf->loader, "ld-musl");
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
	if (is_musl(elf))
		say_loader(program, report);
	if (is_mpich(elf->mpi))
		say_mpich(program, report);
	if (report->n_findings > 0)
		return;
	if (elf->mpi[0])
		bps_doctor_note(report, "LD_PRELOAD works for %s; it takes MPI from %s",
		                program->start.path, elf->mpi);
	else
		bps_doctor_note(
			report,
			"LD_PRELOAD works for %s. It names no MPI library: one of "
			"its own libraries may bring one along (ldd shows that), or "
			"it loads one later, as Python does with mpi4py; or it "
			"starts other programs: look at these, too",
			program->start.path);
}

static void say_foreign(const struct program *program, struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "%s is for another processor than this program is (ELF machine "
	                 "%u, %u bits)",
	                 program->start.path, program->elf.machine, program->elf.n_bits);
	bps_doctor_cost(report,
	                "a library that is built for this one does not load there");
	bps_doctor_remedy(report, "build the library for that processor and width, on a "
	                          "host that has it");
}

/* What env takes away cannot be put back by a launcher. */
static void say_dropped(const struct program *program, struct bps_doctor_report *report)
{
	const char *script = program->start.dropper;

	bps_doctor_found(report,
	                 "%s has env take LD_PRELOAD away, or give it another value, in "
	                 "its first line",
	                 script);
	bps_doctor_cost(report,
	                "the library does not get into what env starts; it runs as "
	                "without");
	bps_doctor_remedy(report, "take that out of the line (-i, -u, LD_PRELOAD=):");
	bps_doctor_type(report, "head -1 %s", script);
}

/* -- the whole -- */

static int explain(const struct program *program, int error, char *ret_error,
                   size_t error_bytes)
{
	const char *path = program->start.path, *text = strerrordesc_np(-error);

	if (program->start.why[0]) {
		(void)snprintf(ret_error, error_bytes, "%s", program->start.why);
		return error;
	}
	if (error == -ELIBACC) {
		(void)snprintf(ret_error, error_bytes,
		               "%s: its loader %s is not here: it is built for another "
		               "system",
		               path, program->elf.loader);
		return -EINVAL;
	}
	if (error == -ENOEXEC)
		text = "it is no program that can be looked at: neither ELF nor a script "
		       "that begins with #!";
	if (error == -EBADMSG)
		text = "its ELF structure is broken, or its end is missing; was it copied "
		       "in full?";
	if (error == -ELIBEXEC)
		text = "it is no program, but a library or an object file; name the "
		       "program that mpirun starts";
	(void)snprintf(ret_error, error_bytes, "%s: %s", path, text);
	return error == -ENOMEM ? error : -EINVAL;
}

/* For musl that is a finding, whether it is here or not. */
static bool lacks_loader(const struct bps_elf *elf)
{
	return elf->loader[0] && !is_musl(elf) &&
	       faccessat(AT_FDCWD, elf->loader, X_OK, AT_EACCESS) < 0;
}

static int read_program(struct program *program, int fd)
{
	int r = bps_elf_read(fd, &program->elf);

	if (fstat(fd, &program->status))
		return -errno;
	program->has_rights = fgetxattr(fd, "security.capability", NULL, 0) > 0;
	if (r == 0 && !program->elf.foreign && program->elf.kind != BPS_ELF_PROGRAM)
		r = -ELIBEXEC;
	if (r == 0 && !program->elf.foreign && lacks_loader(&program->elf))
		r = -ELIBACC;
	return r;
}

/* One file. Return: 1: it is a script, and start.path its interpreter. */
static int look(struct program *program, struct bps_doctor_report *report)
{
	struct bps_start *start = &program->start;
	char script[PATH_MAX];
	int fd = bps_start_open(start), r;

	if (fd < 0)
		return fd;
	memcpy(script, start->path, sizeof(script));
	r = bps_start_follow(start, fd);
	if (r == 1)
		bps_doctor_note(report, "%s is a script of %s", script, start->path);
	else if (r == 0)
		r = read_program(program, fd);
	close(fd);
	return r;
}

int bps_doctor_program(const char *name, FILE *out, uint32_t columns, char *ret_error,
                       size_t error_bytes)
{
	char host[65];
	struct bps_doctor_report report = {
		.out = out,
		.host = host,
		.check = "program",
		.columns = columns,
	};
	struct program program;
	int r = bps_start_find(name, &program.start) ? -EINVAL : 1;

	bps_doctor_name_host(host);
	while (r == 1)
		r = look(&program, &report);
	if (r < 0) {
		r = explain(&program, r, ret_error, error_bytes);
		bps_doctor_tame(ret_error);
		return r;
	}
	if (program.start.dropper[0])
		say_dropped(&program, &report);
	if (program.elf.foreign)
		say_foreign(&program, &report);
	else
		examine(&program, &report);
	return report.n_findings;
}
