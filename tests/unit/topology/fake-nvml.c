/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library with the names of NVML and four GPUs of its own, for test_machine_nvml.c and
 * test-box.py. With FAKE_NVML_TELLS in the environment it says that it was loaded. With
 * STARTS 0 it does not start, as where the driver is missing.
 *
 *	04  two links to 06 and one that is down, one to 08, three to switches
 *	06  two links to 04, two to switches
 *	08  one link to 04, one to a GPU that is not in the box
 *	0a  no links, and no name
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

enum { GOOD, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_DRIVER = 9 };
enum { TO_GPU = 0, TO_SWITCH = 2 };
enum { N_GPUS = 4, N_LINKS = 8 };

#define DOWN 0x100u

struct gpu {
	unsigned int bus;
	const char *name; /* NULL: not told */
	/* The bus of each link's other end, 1: a switch; or DOWN; 0: there is none */
	unsigned int links[N_LINKS];
};

static struct gpu gpus[N_GPUS] = {
	{ 0x04, "NVIDIA Fake A", { 6, 1, 6, DOWN | 6, 8, 1, 1 } },
	{ 0x06, "NVIDIA Fake B", { 1, 4, 4, 1 } },
	{ 0x08, "NVIDIA Fake\nC", { 0x99, 4 } },
	{ 0x0a, NULL, { 0 } },
};

struct pci {
	char old_bus[16];
	unsigned int domain, bus, device, ids[2];
	char new_bus[32];
};

__attribute__((constructor)) static void tell(void)
{
	static const char text[] = "the fake NVML is loaded\n";

	if (getenv("FAKE_NVML_TELLS") && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		abort();
}

PUBLIC int nvmlInit_v2(void);
PUBLIC int nvmlInit_v2(void)
{
	return STARTS ? GOOD : NO_DRIVER;
}

PUBLIC int nvmlShutdown(void);
PUBLIC int nvmlShutdown(void)
{
	return GOOD;
}

PUBLIC int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct gpu **ret);
PUBLIC int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct gpu **ret)
{
	for (int i = 0; i < N_GPUS; i++) {
		char own[16];

		(void)snprintf(own, sizeof(own), "0000:%02x:00.0", gpus[i].bus);
		if (strcmp(own, bus) != 0)
			continue;
		*ret = &gpus[i];
		return GOOD;
	}
	return BAD_ARGUMENT;
}

PUBLIC int nvmlDeviceGetName(struct gpu *gpu, char *ret, unsigned int ret_bytes);
PUBLIC int nvmlDeviceGetName(struct gpu *gpu, char *ret, unsigned int ret_bytes)
{
	if (!gpu->name)
		return NOT_SUPPORTED;
	(void)snprintf(ret, ret_bytes, "%s", gpu->name);
	return GOOD;
}

PUBLIC int nvmlDeviceGetNvLinkState(struct gpu *gpu, unsigned int link, int *ret);
PUBLIC int nvmlDeviceGetNvLinkState(struct gpu *gpu, unsigned int link, int *ret)
{
	if (link >= N_LINKS || gpu->links[link] == 0)
		return BAD_ARGUMENT;
	*ret = !(gpu->links[link] & DOWN);
	return GOOD;
}

PUBLIC int nvmlDeviceGetNvLinkRemoteDeviceType(struct gpu *gpu, unsigned int link,
                                               int *ret);
PUBLIC int nvmlDeviceGetNvLinkRemoteDeviceType(struct gpu *gpu, unsigned int link,
                                               int *ret)
{
	*ret = gpu->links[link] == 1 ? TO_SWITCH : TO_GPU;
	return GOOD;
}

PUBLIC int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *gpu, unsigned int link,
                                               struct pci *ret);
PUBLIC int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *gpu, unsigned int link,
                                               struct pci *ret)
{
	*ret = (struct pci){ .bus = gpu->links[link] & ~DOWN };
	return GOOD;
}
