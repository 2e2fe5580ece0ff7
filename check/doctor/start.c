/* SPDX-License-Identifier: BSD-3-Clause */
#include "check/doctor/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "check/doctor/elf.h"

/* A script may be another's interpreter: the kernel follows as many. With env between
 * them it follows any number; more than that do not end. */
#define MAX_SCRIPTS 5
#define MAX_ENVS    20

#define BLANKS     " \t"         /* the kernel's */
#define ENV_BLANKS " \t\r\n\v\f" /* those of env -S */

static int fail(struct bps_start *start, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

static int fail(struct bps_start *start, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(start->why, sizeof(start->why), format, args);
	va_end(args);
	return -EINVAL;
}

/* -- which file a name stands for -- */

static bool is_program(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* As execvp(3) does it. Where nothing of that name can be started, the first one is
 * taken, to say why it cannot. */
static bool search(const char *folders, const char *name, char *ret_path)
{
	const char *at = folders;
	bool found = false;

	do {
		int n = (int)strcspn(at, ":");
		char path[PATH_MAX];

		if (snprintf(path, sizeof(path), "%.*s/%s", n ? n : 1, n ? at : ".",
		             name) < PATH_MAX &&
		    faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (!found || is_program(path))) {
			memcpy(ret_path, path, sizeof(path));
			found = true;
			if (is_program(path))
				break;
		}
		at += n + 1;
	} while (at[-1]);
	return found;
}

static const char *or_usual(const char *folders)
{
	return folders ? folders : "/bin:/usr/bin";
}

/* A launcher looks in the folder where it is last. */
static int find_by_name(struct bps_start *start, const char *name)
{
	char *folders;
	bool found;

	if (asprintf(&folders, "%s:.", or_usual(start->folders)) < 0)
		return fail(start, "out of memory");
	found = search(folders, name, start->path);
	free(folders);
	if (found)
		return 0;
	return fail(
		start,
		"%.256s: there is no program of that name in the folders of PATH, nor in "
		"this one",
		name);
}

int bps_start_find(const char *name, struct bps_start *ret_start)
{
	*ret_start = (struct bps_start){ .folders = getenv("PATH") };
	if (!strchr(name, '/'))
		return find_by_name(ret_start, name);
	if (snprintf(ret_start->path, PATH_MAX, "%s", name) >= PATH_MAX)
		return fail(ret_start, "%.64s...: %s", name, strerror(ENAMETOOLONG));
	return 0;
}

/* -- whether it can be started -- */

static int explain(struct bps_start *start, int error)
{
	const char *path = start->path;
	struct statvfs system;

	switch (error) {
	case EINVAL:
		return fail(start, "%s: it is no plain file", path);
	case ELOOP:
		return fail(start, "%s: its symbolic links lead in a circle", path);
	case ENOEXEC:
		if (statvfs(path, &system) == 0 && system.f_flag & ST_NOEXEC)
			return fail(start,
			            "%s: it lies on a file system that is mounted "
			            "noexec, which starts no programs",
			            path);
		return fail(start,
		            "%s: it may not be executed; if it is a program: chmod +x %s",
		            path, path);
	default:
		return fail(start, "%s: %s", path, strerrordesc_np(error));
	}
}

int bps_start_open(struct bps_start *start)
{
	int fd = bps_elf_open(start->path);

	if (fd >= 0 && is_program(start->path))
		return fd;
	if (fd >= 0)
		close(fd);
	if (fd == -EACCES && is_program(start->path))
		return fail(start,
		            "%s: it may be executed but not read; who may read it can "
		            "look at it",
		            start->path);
	return explain(start, fd >= 0 ? ENOEXEC : -fd);
}

/* -- what env(1) does -- */

/* What stands behind -S, which has env cut it into words; NULL: no -S. */
static char *find_split(char *arg)
{
	static const char longer[] = "--split-string=";
	size_t n = strspn(arg, "-iv0");

	if (strncmp(arg, longer, sizeof(longer) - 1) == 0)
		return arg + sizeof(longer) - 1;
	return arg[0] == '-' && arg[1] != '-' && arg[n] == 'S' ? arg + n + 1 : NULL;
}

static void drop(struct bps_start *start, const char *script, const char *variable)
{
	bool all = variable[0] == '\0';

	if (all || strcmp(variable, "LD_PRELOAD") == 0)
		memcpy(start->dropper, script, sizeof(start->dropper));
	if (all || strcmp(variable, "PATH") == 0)
		start->folders = NULL;
}

/* One option of env's, of which @word is the first; returns the word behind it. */
static char *take_option(struct bps_start *start, const char *script, char *word,
                         char **rest)
{
	static const char unset[] = "--unset=";
	char *next = strtok_r(NULL, ENV_BLANKS, rest);

	if (strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0) {
		if (next && word[1] == 'u')
			drop(start, script, next);
		next = strtok_r(NULL, ENV_BLANKS, rest);
	} else if (strncmp(word, "-u", 2) == 0) {
		drop(start, script, word + 2);
	} else if (strncmp(word, unset, sizeof(unset) - 1) == 0) {
		drop(start, script, word + sizeof(unset) - 1);
	} else if (strcmp(word, "-") == 0 || strcmp(word, "--ignore-environment") == 0 ||
	           (word[1] != '-' && strchr(word, 'i'))) {
		drop(start, script, "");
	}
	return next;
}

static void assign(struct bps_start *start, const char *script, char *name)
{
	char *value = strchr(name, '=');

	*value++ = '\0';
	if (strcmp(name, "LD_PRELOAD") == 0)
		drop(start, script, name);
	if (strcmp(name, "PATH") != 0)
		return;
	(void)snprintf(start->own_folders, sizeof(start->own_folders), "%s", value);
	start->folders = start->own_folders;
}

/* The program among the words of env -S; NULL: none. */
static char *skip_to_program(struct bps_start *start, const char *script, char *words)
{
	char *rest = NULL, *word = strtok_r(words, ENV_BLANKS, &rest);

	while (word && word[0] == '-' && strcmp(word, "--") != 0)
		word = take_option(start, script, word, &rest);
	if (word && strcmp(word, "--") == 0)
		word = strtok_r(NULL, ENV_BLANKS, &rest);
	for (; word && strchr(word, '='); word = strtok_r(NULL, ENV_BLANKS, &rest))
		assign(start, script, word);
	return word;
}

/* The program that env runs, in one word; NULL: why was said. */
static char *find_word(struct bps_start *start, const char *script, char *arg)
{
	char *words = arg ? find_split(arg) : NULL;

	if (words && strpbrk(words, "\"'\\$#")) {
		(void)fail(start,
		           "%s: what env makes of the quotes and variables in its first "
		           "line is not followed here; name the program that runs it",
		           script);
		return NULL;
	}
	if (!words && arg && strpbrk(arg, BLANKS)) {
		(void)fail(start,
		           "%s: the kernel gives env all of '%s' as one word; write "
		           "#!/usr/bin/env -S %s",
		           script, arg, arg);
		return NULL;
	}
	if (words)
		arg = skip_to_program(start, script, words);
	if (arg && arg[0] != '-' && !strchr(arg, '='))
		return arg;
	(void)fail(start,
	           "%s: its first line names no program for env to run: that runs the "
	           "script again, without end",
	           script);
	return NULL;
}

static int follow_env(struct bps_start *start, const char *script, char *arg)
{
	int fd = bps_start_open(start);
	char *word;

	if (fd < 0)
		return fd;
	close(fd);
	word = find_word(start, script, arg);
	if (!word)
		return -EINVAL;
	if (++start->n_envs > MAX_ENVS)
		return fail(start, "%s: scripts start each other without end", script);
	start->n_scripts = 0;
	if (strchr(word, '/'))
		(void)snprintf(start->path, PATH_MAX, "%s", word);
	else if (!search(or_usual(start->folders), word, start->path))
		return fail(start, "%s: env finds no '%s' in the folders of PATH", script,
		            word);
	return 1;
}

/* -- scripts -- */

/* Cuts the first line into what the kernel takes from it. Return: 1; 0: to the kernel it
 * is no script; or as fail(). */
static int cut_line(struct bps_start *start, size_t n, char **ret_name, char **ret_arg)
{
	char *line = start->line, *name, *end, *arg;
	bool whole = memchr(line, '\n', n) || n < BPS_START_LINE_BYTES;

	line[whole ? n : n - 1] = '\0';
	line[strcspn(line, "\n")] = '\0';
	name = line + 2 + strspn(line + 2, BLANKS);
	if (!whole && !name[strcspn(name, BLANKS)])
		return fail(
			start,
			"%s: its first line is longer than the %d characters that the "
			"kernel reads",
			start->path, BPS_START_LINE_BYTES - 1);
	for (end = line + strlen(line); strchr(BLANKS, end[-1]); end--)
		;
	if (end <= name)
		return 0;
	*end = '\0';
	arg = name + strcspn(name, BLANKS);
	if (*arg)
		*arg++ = '\0';
	arg += strspn(arg, BLANKS);
	*ret_name = name;
	*ret_arg = *arg ? arg : NULL;
	return 1;
}

/* What is written in the first line, but is not what its writer means. */
static int refuse_line(struct bps_start *start, const char *name, char *arg, bool env)
{
	const char *last = arg ? arg : name;

	if (last[strlen(last) - 1] == '\r' && !(env && arg && find_split(arg)))
		return fail(
			start,
			"%s: its first line ends in a carriage return, as on Windows, and "
			"that is part of the last word there; take them out: sed -i "
			"'s/\\r$//' %s",
			start->path, start->path);
	if (name[0] != '/' && access(name, F_OK) < 0)
		return fail(start,
		            "%s: its first line names '%s', which is looked for in the "
		            "folder where it is started, and not in PATH; write "
		            "#!/usr/bin/env %s",
		            start->path, name, name);
	return 0;
}

int bps_start_follow(struct bps_start *start, int fd)
{
	ssize_t n = pread(fd, start->line, BPS_START_LINE_BYTES, 0);
	char script[PATH_MAX], *name = start->line, *arg = NULL;
	const char *base;
	bool env;
	int r;

	if (n < 2 || memcmp(start->line, "#!", 2) != 0)
		return 0;
	r = cut_line(start, (size_t)n, &name, &arg);
	if (r <= 0)
		return r;
	base = strrchr(name, '/');
	env = base && strcmp(base, "/env") == 0;
	r = refuse_line(start, name, arg, env);
	if (r)
		return r;
	if (++start->n_scripts > MAX_SCRIPTS)
		return fail(
			start,
			"%s: too many scripts that run each other; the kernel follows %d",
			start->path, MAX_SCRIPTS);
	memcpy(script, start->path, sizeof(script));
	(void)snprintf(start->path, PATH_MAX, "%s", name);
	return env ? follow_env(start, script, arg) : 1;
}
