/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulator, servers and the jobs that share them, as most tests need them.
 */
#pragma once

#include "tests/sim/job.h"

#define BPS_SIM_MAX_SERVERS 64
#define BPS_SIM_MAX_JOBS    4

struct bps_sim_world {
	struct bps_sim *sim;
	struct bps_sim_server *servers[BPS_SIM_MAX_SERVERS];
	uint32_t n_servers;
	struct bps_sim_job *jobs[BPS_SIM_MAX_JOBS];
	uint32_t n_jobs;
};

/** bps_sim_world_open() - @memory_bytes bounds each server; 0: no bound. */
void bps_sim_world_open(struct bps_sim_world *world, const struct bps_sim_config *config,
                        uint32_t n_servers, const struct bps_sim_nic *nic,
                        uint64_t memory_bytes);
/** bps_sim_world_add() - start a job; on all servers, where @config names none. */
struct bps_sim_job *bps_sim_world_add(struct bps_sim_world *world,
                                      const struct bps_sim_job_config *config);
/** bps_sim_world_run() - until every job is done; it is wrong if that takes longer. */
void bps_sim_world_run(struct bps_sim_world *world, uint64_t longest_ns);
/** bps_sim_world_close() - nothing is left on any server; frees all. */
void bps_sim_world_close(struct bps_sim_world *world);
