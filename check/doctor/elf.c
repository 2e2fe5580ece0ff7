/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/doctor/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/note.h"

/* Of one table: those of very large programs take some ten MiB. */
#define MOST_BYTES (UINT64_C(256) << 20)
/* Of all segments' descriptions, as the kernel has it, and of the notes in one. */
#define MOST_SEGMENT_BYTES (64u << 10)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct file {
	int fd;
	uint64_t bytes;
	ElfW(Ehdr) head;
	ElfW(Phdr) * segments; /* [head.e_phnum], owned */
	struct bps_elf *elf;
};

/* -- reading -- */

static int read_at(const struct file *file, uint64_t offset, uint64_t bytes, void *ret)
{
	uint8_t *to = ret;

	if (offset > file->bytes || bytes > file->bytes - offset)
		return -EBADMSG;
	while (bytes > 0) {
		ssize_t n = pread(file->fd, to, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG; /* it has become shorter */
		to += n;
		offset += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* A part of the file with a zero behind it; the caller frees it. */
static int load(const struct file *file, uint64_t offset, uint64_t bytes, void **ret)
{
	char *part;
	int r;

	*ret = NULL;
	if (offset > file->bytes || bytes > file->bytes - offset || bytes > MOST_BYTES)
		return -EBADMSG;
	part = calloc(1, bytes + 1);
	if (!part)
		return -ENOMEM;
	r = read_at(file, offset, bytes, part);
	if (r < 0) {
		free(part);
		return r;
	}
	*ret = part;
	return 0;
}

/* -- the head -- */

/* The part of a head that is alike in all classes. */
#define COMMON_BYTES offsetof(ElfW(Ehdr), e_entry)

/* What this box runs is what this very program is. */
static int read_own_head(ElfW(Ehdr) * ret)
{
	int fd = bps_elf_open("/proc/self/exe");
	ssize_t n = fd >= 0 ? pread(fd, ret, COMMON_BYTES, 0) : fd;

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)COMMON_BYTES ? 0 : -EIO;
}

static int read_head(struct file *file)
{
	ElfW(Ehdr) *head = &file->head, own = { 0 };
	bool swapped;
	int r = file->bytes < SELFMAG ? -ENOEXEC : read_at(file, 0, SELFMAG, head);

	if (r == 0 && memcmp(head, ELFMAG, SELFMAG) != 0)
		r = -ENOEXEC;
	if (r == 0)
		r = read_at(file, 0, COMMON_BYTES, head);
	if (r == 0)
		r = read_own_head(&own);
	if (r < 0)
		return r;
	swapped = head->e_ident[EI_DATA] != own.e_ident[EI_DATA];
	file->elf->n_bits = head->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	file->elf->machine =
		swapped ? __builtin_bswap16(head->e_machine) : head->e_machine;
	file->elf->foreign = swapped || head->e_machine != own.e_machine ||
	                     head->e_ident[EI_CLASS] != own.e_ident[EI_CLASS];
	return file->elf->foreign ? 0 : read_at(file, 0, sizeof(*head), head);
}

/* A file that was copied in part lacks the end of its segments. */
static int read_segments(struct file *file)
{
	void *part = NULL;
	uint64_t bytes;
	int r;

	if (file->head.e_phnum == 0)
		return file->head.e_type == ET_REL ? 0 : -EBADMSG;
	bytes = file->head.e_phnum * sizeof(ElfW(Phdr));
	if (file->head.e_phentsize != sizeof(ElfW(Phdr)) || bytes > MOST_SEGMENT_BYTES)
		return -EBADMSG;
	r = load(file, file->head.e_phoff, bytes, &part);
	file->segments = part;
	for (int i = 0; r == 0 && i < file->head.e_phnum; i++) {
		const ElfW(Phdr) *segment = &file->segments[i];

		if (segment->p_type == PT_LOAD &&
		    (segment->p_offset > file->bytes ||
		     segment->p_filesz > file->bytes - segment->p_offset))
			r = -EBADMSG;
	}
	return r;
}

static const ElfW(Phdr) * find_segment(const struct file *file, uint32_t type)
{
	for (int i = 0; file->segments && i < file->head.e_phnum; i++)
		if (file->segments[i].p_type == type)
			return &file->segments[i];
	return NULL;
}

static int read_loader(struct file *file)
{
	const ElfW(Phdr) *segment = find_segment(file, PT_INTERP);
	char *loader = file->elf->loader;

	if (!segment)
		return 0;
	if (segment->p_filesz < 2 || segment->p_filesz > sizeof(file->elf->loader))
		return -EBADMSG;
	if (read_at(file, segment->p_offset, segment->p_filesz, loader) < 0 ||
	    loader[0] == '\0' || loader[segment->p_filesz - 1] != '\0')
		return -EBADMSG;
	return 0;
}

/* A text with its end behind a head of three numbers and an owner's name. */
static void read_note(const uint8_t *note, uint64_t bytes, struct bps_elf *elf)
{
	static const char owner[] = BPS_NOTE_OWNER;
	const uint64_t text_at = sizeof(ElfW(Nhdr)) + ((sizeof(owner) + 3) & ~3u);
	ElfW(Nhdr) head;

	if (bytes < text_at)
		return;
	memcpy(&head, note, sizeof(head));
	if (head.n_namesz != sizeof(owner) || head.n_type != BPS_NOTE_VERSION ||
	    head.n_descsz > bytes - text_at ||
	    memcmp(note + sizeof(head), owner, sizeof(owner)) != 0)
		return;
	(void)snprintf(elf->version, sizeof(elf->version), "%.*s", (int)head.n_descsz,
	               (const char *)note + text_at);
}

/* From one note to the next; lengths are rounded up to four bytes. */
static uint64_t skip_note(const uint8_t *note, uint64_t bytes)
{
	ElfW(Nhdr) head;

	if (bytes < sizeof(head))
		return bytes;
	memcpy(&head, note, sizeof(head));
	return sizeof(head) + ((head.n_namesz + UINT64_C(3)) & ~UINT64_C(3)) +
	       ((head.n_descsz + UINT64_C(3)) & ~UINT64_C(3));
}

static int read_notes(const struct file *file)
{
	int r = 0;

	for (int i = 0; r == 0 && i < file->head.e_phnum; i++) {
		const ElfW(Phdr) *segment = &file->segments[i];
		uint64_t step;
		void *part;

		if (segment->p_type != PT_NOTE || segment->p_filesz > MOST_SEGMENT_BYTES)
			continue;
		r = load(file, segment->p_offset, segment->p_filesz, &part);
		for (uint64_t at = 0; r == 0 && at < segment->p_filesz; at += step) {
			read_note((uint8_t *)part + at, segment->p_filesz - at,
			          file->elf);
			step = skip_note((uint8_t *)part + at, segment->p_filesz - at);
		}
		free(part);
	}
	return r;
}

/* -- what it needs -- */

struct dynamic {
	ElfW(Dyn) * entries; /* owned */
	size_t n_entries;
	char *names; /* owned */
	uint64_t names_bytes;
};

static uint64_t find_entry(const struct dynamic *dynamic, int64_t tag)
{
	for (size_t i = 0; i < dynamic->n_entries; i++)
		if (dynamic->entries[i].d_tag == tag)
			return dynamic->entries[i].d_un.d_val;
	return 0;
}

static int load_entries(const struct file *file, struct dynamic *dynamic)
{
	const ElfW(Phdr) *segment = find_segment(file, PT_DYNAMIC);
	void *part;
	size_t n;
	int r;

	if (!segment)
		return 0;
	r = load(file, segment->p_offset, segment->p_filesz, &part);
	if (r < 0)
		return r;
	dynamic->entries = part;
	n = segment->p_filesz / sizeof(*dynamic->entries);
	while (dynamic->n_entries < n &&
	       dynamic->entries[dynamic->n_entries].d_tag != DT_NULL)
		dynamic->n_entries++;
	return 0;
}

/* The table of names is told by its address in memory. */
static int load_names(const struct file *file, struct dynamic *dynamic)
{
	uint64_t address = find_entry(dynamic, DT_STRTAB);
	uint64_t bytes = find_entry(dynamic, DT_STRSZ);
	void *part;
	int r;

	for (int i = 0; file->segments && i < file->head.e_phnum; i++) {
		const ElfW(Phdr) *segment = &file->segments[i];
		uint64_t at = address - segment->p_vaddr;

		if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
		    at > segment->p_filesz || bytes > segment->p_filesz - at)
			continue;
		r = load(file, segment->p_offset + at, bytes, &part);
		if (r < 0)
			return r;
		dynamic->names = part;
		dynamic->names_bytes = bytes;
		return 0;
	}
	return address ? -EBADMSG : 0;
}

/* libmpi.so.40, libmpi_mpifh.so.40, libmpich.so.12, ... */
static void find_mpi(const struct dynamic *dynamic, struct bps_elf *elf)
{
	static const char start[] = "libmpi";

	for (size_t i = 0; i < dynamic->n_entries && !elf->mpi[0]; i++) {
		uint64_t at = dynamic->entries[i].d_un.d_val;

		if (dynamic->entries[i].d_tag == DT_NEEDED && at < dynamic->names_bytes &&
		    strncmp(dynamic->names + at, start, sizeof(start) - 1) == 0)
			(void)strncpy(elf->mpi, dynamic->names + at,
			              sizeof(elf->mpi) - 1);
	}
}

/* A static program of any address looks much like a library; and libc can be run, too. */
static enum bps_elf_kind find_kind(const struct file *file, const struct dynamic *dynamic)
{
	bool pie = find_entry(dynamic, DT_FLAGS_1) & DF_1_PIE;

	if (file->head.e_type == ET_EXEC)
		return BPS_ELF_PROGRAM;
	if (file->head.e_type != ET_DYN)
		return BPS_ELF_OTHER;
	if (!pie && (find_entry(dynamic, DT_SONAME) || !file->elf->loader[0]))
		return BPS_ELF_LIBRARY;
	return BPS_ELF_PROGRAM;
}

static int read_dynamic(struct file *file)
{
	struct dynamic dynamic = { 0 };
	int r = load_entries(file, &dynamic);

	if (r == 0)
		r = load_names(file, &dynamic);
	if (r == 0) {
		find_mpi(&dynamic, file->elf);
		file->elf->kind = find_kind(file, &dynamic);
	}
	free(dynamic.entries);
	free(dynamic.names);
	return r;
}

/* -- symbols -- */

/* A tool that is linked to a program has names that begin with MPI_, and calls those that
 * begin with PMPI_; an MPI library has both. */
struct sight {
	bool own;
	bool others; /* any */
	bool others_pmpi;
};

static void see(const ElfW(Sym) * symbol, const char *name, struct sight *sight)
{
	static const char *const names[] = { "MPI_Init", "MPI_Init_thread",
		                             "MPI_Allreduce" };
	bool pmpi = name[0] == 'P';

	for (size_t i = 0; i < COUNT(names); i++) {
		if (strcmp(name + pmpi, names[i]) != 0)
			continue;
		if (symbol->st_shndx != SHN_UNDEF) {
			sight->own = true;
			continue;
		}
		sight->others = true;
		sight->others_pmpi |= pmpi;
	}
}

static int see_symbols(const struct file *file, const ElfW(Shdr) * table,
                       const ElfW(Shdr) * strings, struct sight *sight)
{
	void *symbols_part = NULL, *names_part = NULL;
	const ElfW(Sym) * symbols;
	const char *names;
	int r = load(file, table->sh_offset, table->sh_size, &symbols_part);

	if (r == 0)
		r = load(file, strings->sh_offset, strings->sh_size, &names_part);
	symbols = symbols_part;
	names = names_part;
	for (uint64_t i = 0; r == 0 && i < table->sh_size / sizeof(*symbols); i++)
		if (symbols[i].st_name < strings->sh_size)
			see(&symbols[i], names + symbols[i].st_name, sight);
	free(symbols_part);
	free(names_part);
	return r;
}

static const ElfW(Shdr) *
	find_section(const ElfW(Shdr) * sections, uint32_t n, uint32_t type)
{
	for (uint32_t i = 0; i < n; i++)
		if (sections[i].sh_type == type && sections[i].sh_link < n)
			return &sections[i];
	return NULL;
}

/* Sections are for those who look; the program runs without, or with broken ones. */
static int read_symbols(struct file *file)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	uint32_t n = file->head.e_shnum;
	const ElfW(Shdr) * sections, *table;
	struct sight sight = { 0 };
	void *part = NULL;
	int r = 0;

	if (file->head.e_shentsize == sizeof(*sections))
		r = load(file, file->head.e_shoff, n * sizeof(*sections), &part);
	sections = part;
	for (size_t i = 0; sections && r != -ENOMEM && i < COUNT(types); i++) {
		table = find_section(sections, n, types[i]);
		if (table)
			r = see_symbols(file, table, &sections[table->sh_link], &sight);
	}
	free(part);
	file->elf->calls_mpi = sight.others;
	file->elf->has_mpi = sight.own && !sight.others_pmpi;
	return r == -ENOMEM ? r : 0;
}

/* -- the whole -- */

int bps_elf_read(int fd, struct bps_elf *ret)
{
	struct file file = { .fd = fd, .elf = ret };
	struct stat status;
	int r;

	*ret = (struct bps_elf){ .kind = BPS_ELF_OTHER };
	if (fstat(fd, &status))
		return -errno;
	file.bytes = status.st_size > 0 ? (uint64_t)status.st_size : 0;
	r = read_head(&file);
	if (r == 0 && !ret->foreign) {
		r = read_segments(&file);
		if (r == 0)
			r = read_loader(&file);
		if (r == 0)
			r = read_notes(&file);
		if (r == 0)
			r = read_dynamic(&file);
		if (r == 0)
			r = read_symbols(&file);
	}
	free(file.segments);
	return r;
}

int bps_elf_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	int r = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		r = -errno;
	else if (!S_ISREG(status.st_mode))
		r = -EINVAL;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}
