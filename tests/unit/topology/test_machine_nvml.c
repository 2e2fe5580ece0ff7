/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs as NVML describes them: a made-up one, and the real one where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "made-machine.h"
#include "topology/machine.h"

#define NVIDIA 0x10de

/* -- a made-up one -- */

/* The four GPUs of fake-nvml.c, one of another maker in between, and one more. */
static void make_gpus(struct made *made)
{
	static const char *const buses[] = { "0000:04:00.0", "0000:05:00.0",
		                             "0000:06:00.0", "0000:08:00.0",
		                             "0000:0a:00.0", "0000:0c:00.0" };

	made_init(made);
	for (uint32_t i = 0; i < 6; i++) {
		struct bps_machine_gpu *gpu = &made->gpus[made_gpu(made, NONE, NONE)];

		memcpy(gpu->bus, buses[i], strlen(buses[i]));
		gpu->vendor = i == 1 ? 0x1a03 : NVIDIA;
		(void)snprintf(gpu->model, sizeof(gpu->model), "PCI %u", i);
	}
}

static void gpus_have_names_and_links(void **state)
{
	static const char *const models[] = { "NVIDIA Fake A", "PCI 1", "NVIDIA Fake B",
		                              "NVIDIA Fake?C", "PCI 4", "PCI 5" };
	uint32_t links[6][6] = { 0 };
	struct made made;

	(void)state;
	links[0][2] = links[2][0] = 2 + 2; /* and the fewer ones to switches */
	links[0][3] = links[3][0] = 1;
	make_gpus(&made);
	assert_int_equal(bps_machine_add_nvml(&made.machine, FAKE_NVML), 0);
	assert_memory_equal(made.machine.nvlinks, links, sizeof(links));
	for (uint32_t i = 0; i < 6; i++)
		assert_string_equal(made.gpus[i].model, models[i]);
	free(made.machine.nvlinks);
}

static void without_nvml_nothing_changes(void **state)
{
	static const struct {
		const char *library, *said;
	} bads[] = {
		{ "libbpsmpi-nothing.so.1", "libbpsmpi-nothing.so.1 cannot be loaded" },
		{ "libc.so.6", "libc.so.6 has no symbol nvmlInit_v2" },
		{ FAKE_NVML_BROKEN, "does not start" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		int fd = memfd_create("log", MFD_CLOEXEC), old = bps_log_set_fd(fd);
		char text[1024] = "";
		struct made made;

		make_gpus(&made);
		bps_log_set_level(BPS_LOG_DEBUG);
		assert_int_equal(bps_machine_add_nvml(&made.machine, bads[i].library), 0);
		bps_log_set_level(BPS_LOG_INFO);
		bps_log_set_fd(old);
		assert_null(made.machine.nvlinks);
		assert_string_equal(made.gpus[0].model, "PCI 0");
		assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
		close(fd);
		if (!strstr(text, bads[i].said) ||
		    strchr(text, '\n') != text + strlen(text) - 1)
			fail_msg("%s: %s", bads[i].library, text);
	}
}

/* Where no GPU is NVIDIA's, it stays out of the process. */
static void it_is_not_loaded_for_nothing(void **state)
{
	struct made made;

	(void)state;
	make_gpus(&made);
	for (uint32_t i = 0; i < 6; i++)
		made.gpus[i].vendor = 0x1002;
	assert_int_equal(bps_machine_add_nvml(&made.machine, FAKE_NVML), 0);
	assert_null(made.machine.nvlinks);
	assert_null(dlopen(FAKE_NVML, RTLD_NOW | RTLD_NOLOAD));
}

/* -- the real one -- */

/* What nvidia-smi says, with @n_bytes; false: nothing. */
static bool ask_smi(const char *arguments, char *ret, size_t n_bytes)
{
	char command[128];
	FILE *pipe;
	size_t n;

	(void)snprintf(command, sizeof(command), "nvidia-smi %s 2>/dev/null", arguments);
	pipe = popen(command, "re");
	if (!pipe)
		return false;
	n = fread(ret, 1, n_bytes - 1, pipe);
	ret[n] = '\0';
	return pclose(pipe) == 0 && n > 0;
}

static uint32_t find_gpu(const struct bps_machine *machine, const char *smi_bus)
{
	unsigned int domain, bus, device;
	char own[32];

	if (sscanf(smi_bus, "%x:%x:%x", &domain, &bus, &device) != 3)
		return NONE;
	(void)snprintf(own, sizeof(own), "%04x:%02x:%02x.0", domain, bus, device);
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (strcmp(machine->gpus[i].bus, own) == 0)
			return i;
	return NONE;
}

/* Lines "00000000:3B:00.0, NVIDIA H200"; our numbers of them in @ret. */
static uint32_t check_names(const struct bps_machine *machine, char *text, uint32_t *ret)
{
	uint32_t n = 0;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line && n < MADE_DEVICES;
	     line = strtok_r(NULL, "\n", &rest)) {
		const char *name = strstr(line, ", ");

		ret[n] = find_gpu(machine, line);
		if (ret[n] == NONE || !name)
			fail_msg("%s: there is no such GPU", line);
		else
			assert_string_equal(machine->gpus[ret[n]].model, name + 2);
		n++;
	}
	return n;
}

/* Rows "GPU0 X NV18 ...", columns separated by blanks. */
static void check_matrix(const struct bps_machine *machine, char *text,
                         const uint32_t *gpus, uint32_t n)
{
	uint32_t n_rows = 0;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *cells = NULL, *cell = strtok_r(line, " \t", &cells);
		unsigned int row, links;

		if (!cell || sscanf(cell, "GPU%u", &row) != 1 || row != n_rows)
			continue;
		cell = strtok_r(NULL, " \t", &cells);
		if (!cell || (row == 0 && strcmp(cell, "X") != 0))
			continue; /* the head */
		for (uint32_t j = 0; j < n && cell; j++) {
			links = 0;
			(void)sscanf(cell, "NV%u", &links);
			assert_int_equal(
				machine->nvlinks[gpus[row] * machine->n_gpus + gpus[j]],
				links);
			cell = strtok_r(NULL, " \t", &cells);
		}
		n_rows++;
	}
	assert_int_equal(n_rows, n);
}

/* Alone with --real, which is a test of its own: elsewhere it is skipped whole. */
static void the_real_one_agrees_with_nvidia_smi(void **state)
{
	static char text[65536];
	uint32_t gpus[MADE_DEVICES], n;
	const struct bps_machine *machine;

	(void)state;
	assert_true(ask_smi("--query-gpu=pci.bus_id,name --format=csv,noheader", text,
	                    sizeof(text)));
	assert_int_equal(bps_machine_look(NULL, &machine), 0);
	assert_int_equal(bps_machine_add_nvml(machine, NULL), 0);
	assert_non_null(machine->nvlinks);
	n = check_names(machine, text, gpus);
	assert_true(n > 0);
	assert_true(ask_smi("topo -m", text, sizeof(text)));
	check_matrix(machine, text, gpus, n);
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		assert_int_equal(machine->nvlinks[i * machine->n_gpus + i], 0);
	bps_machine_free(machine);
}

static int test_real(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_real_one_agrees_with_nvidia_smi),
	};
	const struct bps_machine *machine;
	char text[256];
	bool some;

	if (bps_machine_look(NULL, &machine) < 0)
		return 1;
	some = machine->n_gpus > 0;
	bps_machine_free(machine);
	if (some && ask_smi("-L", text, sizeof(text)))
		return cmocka_run_group_tests(tests, NULL, NULL);
	puts("1..0 # SKIP no NVIDIA GPU, or no hwloc that sees it");
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_not_loaded_for_nothing),
		cmocka_unit_test(gpus_have_names_and_links),
		cmocka_unit_test(without_nvml_nothing_changes),
	};

	if (argc > 1 && strcmp(argv[1], "--real") == 0)
		return test_real();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
