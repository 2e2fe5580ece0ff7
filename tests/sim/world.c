/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/world.h"

#include <string.h>

#include "base/clock.h"

void bps_sim_world_open(struct bps_sim_world *world, const struct bps_sim_config *config,
                        uint32_t n_servers, const struct bps_sim_nic *nic,
                        uint64_t memory_bytes)
{
	const struct bps_server_config server = {
		.host = "h",
		.memory_bytes = memory_bytes ? memory_bytes : UINT64_MAX,
		.n_reducers = 2,
		.max_slots = 64,
		.quiet = true,
	};

	memset(world, 0, sizeof(*world));
	world->sim = bps_sim_new(config);
	world->n_servers = n_servers;
	bps_sim_servers_new(world->sim, n_servers, nic, &server, world->servers);
}

struct bps_sim_job *bps_sim_world_add(struct bps_sim_world *world,
                                      const struct bps_sim_job_config *config)
{
	struct bps_sim_job_config own = *config;
	struct bps_sim_job *job;

	if (!own.servers && world->n_servers > 0) {
		own.servers = world->servers;
		own.n_servers = world->n_servers;
	}
	job = bps_sim_job_new(world->sim, &own);
	world->jobs[world->n_jobs++] = job;
	bps_sim_job_start(job);
	return job;
}

static bool jobs_done(const struct bps_sim_world *world)
{
	uint32_t i;

	for (i = 0; i < world->n_jobs; i++) {
		if (!bps_sim_job_done(world->jobs[i]))
			return false;
	}
	return true;
}

void bps_sim_world_run(struct bps_sim_world *world, uint64_t longest_ns)
{
	uint64_t end_ns = bps_sim_now(world->sim) + longest_ns;

	while (!jobs_done(world) && bps_sim_now(world->sim) < end_ns &&
	       bps_sim_step(world->sim))
		;
	if (!jobs_done(world))
		bps_sim_wrong("a job hangs");
}

void bps_sim_world_close(struct bps_sim_world *world)
{
	uint32_t i;

	for (i = 0; i < world->n_jobs; i++)
		bps_sim_job_close(world->jobs[i]);
	bps_sim_end_silence(world->sim);
	bps_sim_run(world->sim, bps_sim_now(world->sim) + 20 * BPS_NS_PER_S);
	for (i = 0; i < world->n_servers; i++)
		bps_sim_server_empty(world->servers[i]);
	bps_sim_free(world->sim);
	for (i = 0; i < world->n_jobs; i++)
		bps_sim_job_free(world->jobs[i]);
	for (i = 0; i < world->n_servers; i++)
		bps_sim_server_free(world->servers[i]);
}
