/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast the network links of boxes and servers are, one way: as a user says it in
 * BPSMPI_BANDWIDTH, and as the kernel says it of an interface. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The rates that make sense, in bytes a second: 1 kbit/s to 100 Tbit/s. */
#define BPS_RATE_MIN 125.0
#define BPS_RATE_MAX 12.5e12

#define BPS_RATE_CHARS 32 /* a rate as text, with its end */

/**
 * bps_rate_parse() - read "10Gbit", "100Mbit", "1.25GB", "800MiB".
 *
 * k, M, G and T in either case are powers of 1000, with i behind them of 1024; then comes
 * bit in any case, or B for bytes; "/s" may follow. Equal texts give equal bits
 * everywhere.
 *
 * Return: 0; -EINVAL for anything else, and beyond BPS_RATE_MIN to BPS_RATE_MAX. Nothing
 * is logged.
 */
int bps_rate_parse(const char *text, double *ret_bytes_per_s);

/** bps_rate_format() - "10 Gbit/s", for people; at most BPS_RATE_CHARS, returns @buf. */
char *bps_rate_format(double bytes_per_s, char *buf);

/* What a user said of the links. */
struct bps_bandwidths {
	struct bps_bandwidth *rows; /* owned */
	uint32_t n_rows;
	double others; /* of those that no row names, in bytes a second; 0: not said */
};

/**
 * bps_bandwidths_parse() - read a rate for all, or a list such as
 * "n[1-8]=10Gbit,cpu3=25Gbit,*=1Gbit" whose names are those of base/hostlist.h, without
 * ports; * stands for all that are not named.
 * @what: what errors call it, for example "BPSMPI_BANDWIDTH"
 * @ret: on success the caller owns it until bps_bandwidths_deinit(); empty on failure,
 * and for an empty @text
 * @ret_error: on failure one line that says what is wrong and what to write, at most
 * @error_bytes with its end
 *
 * Return: 0, -EINVAL (a wrong rate or name, a name twice), -E2BIG, or -ENOMEM. Nothing is
 * logged.
 */
int bps_bandwidths_parse(const char *what, const char *text, struct bps_bandwidths *ret,
                         char *ret_error, size_t error_bytes);

/** bps_bandwidths_deinit() - release what it owns and make it empty. */
void bps_bandwidths_deinit(struct bps_bandwidths *bandwidths);

/**
 * bps_bandwidths_of() - what was said of a box or server.
 * @host: a box's host name, or a server as BPSMPI_SERVERS names it. Case does not matter;
 * where no row has this name, n1 and n1.example.org are the same.
 *
 * Return: bytes a second; 0: nothing was said.
 */
double bps_bandwidths_of(const struct bps_bandwidths *bandwidths, const char *host);

/** bps_bandwidths_name() - the name in row @row (< n_rows), borrowed from @bandwidths. */
const char *bps_bandwidths_name(const struct bps_bandwidths *bandwidths, uint32_t row);

/* bps_nic_speed(): what the kernel says of this interface is nothing, or not its speed.
 */
#define BPS_NIC_E_UNKNOWN 1

/**
 * bps_nic_speed() - the speed of a network interface, from the kernel.
 * @sysfs: where the interfaces are: "/sys/class/net"
 *
 * Virtual interfaces report nothing, or a constant: tunnels, bridges, bonds, veth, and
 * the network cards of virtual machines. So only one that has a device behind it, whose
 * driver is not one of those, is believed.
 *
 * Return: 0; BPS_NIC_E_UNKNOWN: it must be measured; -ENODEV: there is no such interface;
 * -EINVAL: @interface is no name.
 */
int bps_nic_speed(const char *sysfs, const char *interface, double *ret_bytes_per_s);
