/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The summation servers of a job, and how fast the links to them are. Numbered: the
 * dedicated ones first, then, where those are fewer than the boxes, the one that each
 * box's leader carries. All in MPI_Init, or inside the first collective of a process that
 * begins to lead something; under the job's lock where that is said.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "interpose/job.h"

/** bps_servers_parse() - BPSMPI_SERVERS into @ret. 0, or a negative errno (logged). */
int bps_servers_parse(const struct bps_config *config, struct bps_hostlist *ret);

/** bps_servers_carried() - whether each box's leader carries a server. */
bool bps_servers_carried(const struct bps_job *job);

/**
 * bps_servers_name() - job->servers, and room for job->rates, on every rank; the cards
 * are known. 0 or -ENOMEM.
 */
int bps_servers_name(struct bps_job *job);

/** bps_servers_listen() - a leader's: carry a server, if leaders do. */
int bps_servers_listen(struct bps_job *job, struct bps_reason *ret_reason);

/** bps_servers_slot_bytes() - the largest partition that servers have room for. */
uint32_t bps_servers_slot_bytes(const struct bps_job *job);

/** bps_servers_window() - partitions that a member may have unanswered at a server. */
uint32_t bps_servers_window(const struct bps_job *job);

/** bps_servers_engine() - a leader's: start the engine if there is none yet. */
int bps_servers_engine(struct bps_job *job);

/**
 * bps_servers_connect() - start the engine and greet all servers, unless that is done.
 * Under the lock. A failure without text in *@ret_reason was logged.
 */
int bps_servers_connect(struct bps_job *job, struct bps_reason *ret_reason);

#define BPS_SERVERS_ALL UINT32_MAX

/**
 * bps_servers_greet() - have @n_connections to @server, or to all; one to each other one.
 * While no communicator uses them.
 */
int bps_servers_greet(struct bps_job *job, uint32_t server, uint32_t n_connections,
                      struct bps_reason *ret_reason);

/**
 * bps_servers_greet_all() - have job->n_connections to each; one, where they were found
 * out, not given, and some server refuses so many.
 */
int bps_servers_greet_all(struct bps_job *job, struct bps_reason *ret_reason);

/**
 * bps_servers_know() - a leader's, once it is connected: which servers these are.
 * Return: 0; -EADDRNOTAVAIL with its reason where one is another than the job uses.
 */
int bps_servers_know(struct bps_job *job, struct bps_reason *ret_reason);

/**
 * bps_servers_agree() - every rank calls it, after the leaders connected: that all of
 * them use the same servers, and the most rails that one has to any. Before
 * bps_servers_rate(). Return: as of bps_servers_know(); it may differ from rank to rank.
 */
int bps_servers_agree(struct bps_job *job, struct bps_reason *ret_reason);

/**
 * bps_servers_rate() - find out job->rates: what BPSMPI_BANDWIDTH says, else what the
 * kernel says of the box's interface, else by measuring; then also whether several
 * connections to a server carry more, unless BPSMPI_CONNECTIONS says how many there are.
 * Every rank calls it, after the leaders connected.
 * Return: 0; a negative errno, which may differ from rank to rank.
 */
int bps_servers_rate(struct bps_job *job, struct bps_reason *ret_reason);

/** bps_servers_free() - forget them and their rates. */
void bps_servers_free(struct bps_job *job);

/** bps_servers_lanes() - the connections of a leader to a server, on all rails. */
uint32_t bps_servers_lanes(const struct bps_job *job);

/* -- servers-rails.c -- */

/**
 * bps_servers_nics() - a leader's: job->nics, by BPSMPI_INTERFACE where it is given;
 * job->local is on one of these then. 0, or a negative errno with its reason.
 */
int bps_servers_nics(struct bps_job *job, struct bps_reason *ret_reason);

/** bps_servers_source() - where a first connection to @server leaves; NULL: by route. */
const struct bps_addr *bps_servers_source(const struct bps_job *job,
                                          const struct bps_job_server *server);

/**
 * bps_servers_rails() - with one connection to each server: find the rails to it by the
 * addresses that it tells, have a connection on each, and leave out those that do not
 * come up, with a line. 0 or -ENOMEM.
 */
int bps_servers_rails(struct bps_job *job);

#define BPS_SERVERS_MAX_CARDS 8

/**
 * bps_servers_cards() - the network cards that this leader's connections use, each once.
 * Return: how many names there are in @ret_names.
 */
uint32_t bps_servers_cards(const struct bps_job *job, char (*ret_names)[IF_NAMESIZE]);

/** bps_servers_nic_rate() - of all cards that rails use; 0: the kernel does not know. */
double bps_servers_nic_rate(const struct bps_job *job);

/** bps_servers_print_cards() - BPSMPI_STATS: what each card of a leader carried. */
void bps_servers_print_cards(const struct bps_job *job);
