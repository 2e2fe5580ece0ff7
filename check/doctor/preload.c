/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's check of LD_PRELOAD, as it stands where this program runs. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "check/doctor/elf.h"
#include "check/doctor/impl.h"

/* Why this file cannot be preloaded; "": it can. */
static const char *judge_file(const char *path, char *ret_version)
{
	struct bps_elf elf = { 0 };
	int fd = bps_elf_open(path), r = fd;

	if (fd >= 0) {
		r = bps_elf_read(fd, &elf);
		close(fd);
	}
	if (r == -ENOENT)
		return "there is no such file";
	if (r == -EBADMSG)
		return "it is broken, or its end is missing";
	if (r == -ENOEXEC || r == -EINVAL)
		return "it is no library";
	if (r < 0)
		return strerrordesc_np(-r);
	if (elf.foreign)
		return "it is built for another processor, or for programs of another width";
	memcpy(ret_version, elf.version, sizeof(elf.version));
	return elf.kind == BPS_ELF_LIBRARY ? "" : "it is no library";
}

/* The loader looks for names without a slash in its own folders, and has done so. */
static const char *judge_name(const char *name)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

	if (!handle)
		return "the loader finds none of that name in its folders";
	dlclose(handle);
	return "";
}

/* Entries are apart by blanks and colons; those with a $ are the loader's to expand. */
void bps_doctor_collect_preloads(const char *text, struct bps_doctor_facts *facts)
{
	static const char apart[] = " :";

	for (const char *at = text ? text : ""; *at;) {
		struct bps_doctor_preload *preload = &facts->preloads[facts->n_preloads];
		size_t n = strcspn(at, apart);

		if (n > 0 && n < sizeof(preload->name) && !memchr(at, '$', n) &&
		    facts->n_preloads < BPS_DOCTOR_MAX_PRELOADS) {
			memcpy(preload->name, at, n);
			(void)snprintf(
				preload->why, sizeof(preload->why), "%s",
				strchr(preload->name, '/')
					? judge_file(preload->name, preload->version)
					: judge_name(preload->name));
			facts->n_preloads++;
		}
		at += n + (at[n] != '\0');
	}
}

static void other_version(const struct bps_doctor_preload *preload,
                          struct bps_doctor_report *report)
{
	bps_doctor_found(report,
	                 "LD_PRELOAD names %s, which is bytepsmpi %s; this program "
	                 "is of %s",
	                 preload->name, preload->version, BPS_VERSION);
	bps_doctor_cost(report,
	                "jobs whose ranks carry different versions run without; and "
	                "what is said here may not be so there");
	bps_doctor_remedy(report, "install one version everywhere, and name that one:");
	bps_doctor_type(report, "export LD_PRELOAD=/path/to/libbytepsmpi.so");
}

void bps_doctor_check_preload(const struct bps_doctor_facts *facts,
                              struct bps_doctor_report *report)
{
	for (uint32_t i = 0; i < facts->n_preloads; i++) {
		const struct bps_doctor_preload *preload = &facts->preloads[i];

		if (preload->version[0] && strcmp(preload->version, BPS_VERSION) != 0)
			other_version(preload, report);
		if (!preload->why[0])
			continue;
		bps_doctor_found(report, "LD_PRELOAD names %s: %s", preload->name,
		                 preload->why);
		bps_doctor_cost(report,
		                "the loader says a line in every program that starts, "
		                "and goes on without it; if it was to be bytepsmpi, "
		                "all ranks of the job run without");
		bps_doctor_remedy(report,
		                  "name a file that is there on every host, by its "
		                  "whole path:");
		bps_doctor_type(report, "export LD_PRELOAD=/path/to/libbytepsmpi.so");
	}
}
