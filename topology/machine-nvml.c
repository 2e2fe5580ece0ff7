/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What NVIDIA's driver knows of GPUs, by its management library. It has no header where
 * there is no such driver, so what is used of it is declared here.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dl.h"
#include "base/log.h"
#include "topology/machine-build.h"

#define NVML   "libnvidia-ml.so.1"
#define NVIDIA 0x10de /* PCI's number of the vendor */

#define LINKS_MAX  64 /* of a GPU; 18 today, and all above fail */
#define NAME_BYTES 96

enum { NVML_GOOD = 0 };
enum { LINK_ACTIVE = 1 };
enum { LINK_TO_GPU = 0, LINK_TO_SWITCH = 2 };

struct nvml_device; /* its own */

struct nvml_pci {
	char old_bus[16];
	unsigned int domain, bus, device, device_and_vendor, subsystem;
	char new_bus[32];
};

_Static_assert(sizeof(struct nvml_pci) == 68, "as NVML has it");

typedef struct nvml_device *device_t;

/* In the order of the names below. */
struct nvml {
	int (*start)(void);
	int (*stop)(void);
	int (*device)(const char *bus, device_t *ret);
	int (*name)(device_t device, char *ret, unsigned int ret_bytes);
	int (*link_state)(device_t device, unsigned int link, int *ret);
	int (*link_type)(device_t device, unsigned int link, int *ret);
	int (*link_pci)(device_t device, unsigned int link, struct nvml_pci *ret);
};

static const char *const names[] = {
	"nvmlInit_v2",
	"nvmlShutdown",
	"nvmlDeviceGetHandleByPciBusId_v2",
	"nvmlDeviceGetName",
	"nvmlDeviceGetNvLinkState",
	"nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetNvLinkRemotePciInfo_v2",
};

BPS_DL_CHECK(struct nvml, names);

struct reader {
	struct nvml nvml;
	struct bps_machine *machine;
	uint32_t *to_switches; /* [n_gpus]: links of each */
};

static bool is_ours(const struct bps_machine_gpu *gpu)
{
	return gpu->vendor == NVIDIA;
}

static bool has_ours(const struct bps_machine *machine)
{
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (is_ours(&machine->gpus[i]))
			return true;
	return false;
}

/* The GPU at that place of PCI; NONE: it is not in this box, or not for us. */
static uint32_t find(const struct bps_machine *machine, const struct nvml_pci *pci)
{
	unsigned int domain, bus, device, function;

	for (uint32_t i = 0; i < machine->n_gpus; i++)
		if (sscanf(machine->gpus[i].bus, "%x:%x:%x.%x", &domain, &bus, &device,
		           &function) == 4 &&
		    domain == pci->domain && bus == pci->bus && device == pci->device)
			return i;
	return BPS_MACHINE_NONE;
}

static void count_link(struct reader *reader, device_t device, uint32_t gpu,
                       unsigned int link)
{
	const struct bps_machine *machine = reader->machine;
	struct nvml_pci pci = { 0 };
	uint32_t other;
	int type;

	if (reader->nvml.link_type(device, link, &type) != NVML_GOOD)
		return;
	if (type == LINK_TO_SWITCH)
		reader->to_switches[gpu]++;
	if (type != LINK_TO_GPU || reader->nvml.link_pci(device, link, &pci) != NVML_GOOD)
		return;
	other = find(machine, &pci);
	if (other != BPS_MACHINE_NONE && other != gpu)
		machine->nvlinks[(size_t)gpu * machine->n_gpus + other]++;
}

static void read_gpu(struct reader *reader, uint32_t gpu)
{
	struct bps_machine_gpu *to = &reader->machine->gpus[gpu];
	char name[NAME_BYTES] = "";
	device_t device;
	int state;

	if (!is_ours(to) || reader->nvml.device(to->bus, &device) != NVML_GOOD)
		return;
	if (reader->nvml.name(device, name, sizeof(name)) == NVML_GOOD && name[0])
		bps_machine_text(to->model, sizeof(to->model), name);
	for (unsigned int link = 0; link < LINKS_MAX; link++)
		if (reader->nvml.link_state(device, link, &state) == NVML_GOOD &&
		    state == LINK_ACTIVE)
			count_link(reader, device, gpu, link);
}

/* The switches of a box join all GPUs that have links to them. */
static void add_switched(struct reader *reader)
{
	const struct bps_machine *machine = reader->machine;

	for (uint32_t i = 0; i < machine->n_gpus; i++)
		for (uint32_t j = 0; j < machine->n_gpus; j++) {
			uint32_t a = reader->to_switches[i], b = reader->to_switches[j];

			if (i != j)
				machine->nvlinks[(size_t)i * machine->n_gpus + j] +=
					a < b ? a : b;
		}
}

static int read_all(struct reader *reader)
{
	struct bps_machine *machine = reader->machine;
	size_t n = machine->n_gpus;

	reader->to_switches = calloc(n, sizeof(*reader->to_switches));
	machine->nvlinks = calloc(n * n, sizeof(*machine->nvlinks));
	if (!reader->to_switches || !machine->nvlinks) {
		free(reader->to_switches);
		free(machine->nvlinks);
		machine->nvlinks = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < machine->n_gpus; i++)
		read_gpu(reader, i);
	add_switched(reader);
	free(reader->to_switches);
	return 0;
}

int bps_machine_add_nvml(const struct bps_machine *machine, const char *nvml)
{
	struct reader reader = { .machine = (struct bps_machine *)machine };
	const char *library = nvml ? nvml : NVML;
	char error[256];
	void *handle;
	int r = 0;

	if (!has_ours(machine) || machine->nvlinks)
		return 0;
	if (bps_dl_open(library, names, BPS_DL_COUNT(names), &reader.nvml, &handle, error,
	                sizeof(error))) {
		bps_debug("GPUs are described without NVML: %s", error);
		return 0;
	}
	if (reader.nvml.start() == NVML_GOOD) {
		r = read_all(&reader);
		(void)reader.nvml.stop();
	} else {
		bps_debug("GPUs are described without NVML: %s does not start", library);
	}
	bps_dl_close(handle);
	return r;
}
