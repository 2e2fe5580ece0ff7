/* SPDX-License-Identifier: BSD-3-Clause */
/* What a network card's driver tells the doctor of its link. */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "check/doctor/impl.h"

/* Of a set of link modes; the kernel tells it in a signed byte. */
#define MAX_WORDS ((size_t)127)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * The kernel's numbers of link modes, in runs of one speed; they never change. What lies
 * between is no speed. 56 Gbit/s (27 to 30) needs a switch of the card's maker, others
 * give it 40.
 */
static const struct {
	uint8_t first, last;
	uint32_t mbits;
} runs[] = {
	{ 0, 1, 10 },       { 2, 3, 100 },      { 4, 5, 1000 },     { 12, 12, 10000 },
	{ 15, 15, 2500 },   { 17, 17, 1000 },   { 18, 20, 10000 },  { 21, 22, 20000 },
	{ 23, 30, 40000 },  { 31, 33, 25000 },  { 34, 35, 50000 },  { 36, 39, 100000 },
	{ 40, 40, 50000 },  { 41, 41, 1000 },   { 42, 46, 10000 },  { 47, 47, 2500 },
	{ 48, 48, 5000 },   { 52, 56, 50000 },  { 57, 61, 100000 }, { 62, 66, 200000 },
	{ 67, 67, 100 },    { 68, 68, 1000 },   { 69, 73, 400000 }, { 75, 79, 100000 },
	{ 80, 84, 200000 }, { 85, 89, 400000 }, { 90, 91, 100 },    { 92, 92, 10 },
	{ 93, 98, 800000 },
};

uint32_t bps_doctor_most_mbits(const uint32_t *modes, uint32_t n_words)
{
	uint32_t most = 0;

	for (size_t i = 0; i < COUNT(runs); i++)
		for (uint32_t mode = runs[i].first; mode <= runs[i].last; mode++)
			if (mode / 32 < n_words && modes[mode / 32] >> mode % 32 & 1 &&
			    runs[i].mbits > most)
				most = runs[i].mbits;
	return most;
}

/* The first answer says how long the sets are, as a negative number. */
void bps_doctor_ask_driver(int fd, struct bps_doctor_nic *nic)
{
	_Alignas(struct ethtool_link_settings)
		uint8_t buf[sizeof(struct ethtool_link_settings) +
	                    3 * MAX_WORDS * sizeof(uint32_t)] = { 0 };
	struct ethtool_link_settings *settings = (void *)buf;
	struct ifreq request = { .ifr_data = (void *)buf };
	int n_words;

	memcpy(request.ifr_name, nic->netif.name, IF_NAMESIZE);
	settings->cmd = ETHTOOL_GLINKSETTINGS;
	if (ioctl(fd, SIOCETHTOOL, &request) || settings->link_mode_masks_nwords >= 0)
		return;
	n_words = -settings->link_mode_masks_nwords;
	if (n_words > (int)MAX_WORDS)
		return;
	settings->cmd = ETHTOOL_GLINKSETTINGS;
	settings->link_mode_masks_nwords = (int8_t)n_words;
	if (ioctl(fd, SIOCETHTOOL, &request))
		return;
	nic->half_duplex = settings->duplex == DUPLEX_HALF;
	nic->can_mbits =
		bps_doctor_most_mbits(settings->link_mode_masks, (uint32_t)n_words);
}
