/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI side of the report on a job: the library is found by what the launcher left in
 * the environment, loaded, and used for a few collectives on MPI_COMM_WORLD. This program
 * is linked to none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check/job/impl.h"
#include "check/job/job.h"

#define HINT_BYTES 160
#define MOST_SAID  (64u << 20) /* what a rank may say */

/* -- the library -- */

/*
 * By a variable that every rank has, and that nobody has outside of a job: which
 * libraries to try, and what of the environment numbers the ranks of a box.
 */
static const struct launcher {
	const char *variable;
	const char *libraries[3];
	const char *local;
} launchers[] = {
	{ "OMPI_COMM_WORLD_RANK",
	  { "libmpi.so.40", "libmpi.so" },
	  "OMPI_COMM_WORLD_LOCAL_RANK" },
	{ "PMIX_RANK", { "libmpi.so.40", "libmpi.so" }, "SLURM_LOCALID" },
	{ "PMI_RANK",
	  { "libmpich.so.12", "libmpi.so.12", "libmpi.so" },
	  "MPI_LOCALRANKID" },
};

static const struct launcher *find_launcher(void)
{
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (bps_env_get(environ, launchers[i].variable))
			return &launchers[i];
	return NULL;
}

bool bps_job_launched(void)
{
	return find_launcher() != NULL;
}

bool bps_job_is_first(void)
{
	const struct launcher *launcher = find_launcher();

	return launcher && strcmp(bps_env_get(environ, launcher->variable), "0") == 0;
}

/* One line a box, where it fails on all. */
static bool speaks(void)
{
	const struct launcher *launcher = find_launcher();
	const char *local = launcher ? bps_env_get(environ, launcher->local) : NULL;

	return !local || strcmp(local, "0") == 0;
}

static int load(const char *file)
{
	const struct launcher *launcher = find_launcher();
	const char *const one[] = { file, NULL, NULL };
	const char *const *names = file ? one : launcher->libraries;
	char why[512] = "", host[BPS_JOB_HOST_BYTES];

	for (int i = 0; i < 3 && names[i]; i++) {
		/* Open MPI's components look for its symbols among all. */
		if (dlopen(names[i], RTLD_NOW | RTLD_GLOBAL))
			return 0;
		if (!why[0])
			(void)snprintf(why, sizeof(why), "%s", dlerror());
	}
	bps_doctor_name_host(host);
	if (speaks())
		bps_check_complain("%s: the MPI library cannot be loaded: %s; name its "
		                   "file: bpsmpi-check --mpi /path/to/libmpi.so",
		                   host, why);
	return -ENOENT;
}

int bps_job_open_mpi(const char *file, struct bps_mpi **ret)
{
	struct bps_mpi *mpi = NULL;
	char host[BPS_JOB_HOST_BYTES];
	int r = load(file);

	if (r)
		return r;
	bps_doctor_name_host(host);
	r = bps_mpi_resolve(NULL, &mpi);
	if (r && speaks())
		bps_check_complain("%s: %s is no MPI library", host,
		                   file ? file : "that");
	if (r)
		return r;
	if (mpi->abi == BPS_ABI_NONE) {
		if (speaks())
			bps_check_complain(
				"%s: bytepsmpi does not know this MPI library, "
				"%s (%s): jobs run without bytepsmpi",
				host, mpi->version, mpi->path);
		return -ENOTSUP;
	}
	if (mpi->Init(NULL, NULL) != mpi->success || bps_mpi_check(mpi)) {
		if (speaks())
			bps_check_complain("%s: MPI_Init failed (%s)", host, mpi->path);
		return -EIO;
	}
	*ret = mpi;
	return 0;
}

/* -- who is where -- */

/* Equal on the ranks of a box, as the preloaded library sees boxes. */
static void fill_hint(char *ret)
{
	const char *hostid = bps_env_get(environ, "BPSMPI_HOSTID");
	struct stat net = { 0 };
	char boot[64] = "";

	(void)bps_file_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	(void)stat("/proc/self/ns/net", &net);
	memset(ret, 0, HINT_BYTES);
	(void)snprintf(ret, HINT_BYTES, "%.36s/%lx/%.64s", boot,
	               (unsigned long)net.st_ino, hostid ? hostid : "");
}

static void number_boxes(struct bps_job *job, const char *hints)
{
	for (uint32_t r = 0; r < job->size; r++) {
		uint32_t box = 0;

		while (box < job->n_boxes &&
		       memcmp(hints + (size_t)job->first[box] * HINT_BYTES,
		              hints + (size_t)r * HINT_BYTES, HINT_BYTES) != 0)
			box++;
		job->box_of[r] = box;
		if (box == job->n_boxes)
			job->first[job->n_boxes++] = r;
	}
}

int bps_job_meet(struct bps_job *job)
{
	const struct bps_mpi *mpi = job->mpi;
	const bps_handle byte = mpi->type[BPS_MPI_BYTE];
	char mine[HINT_BYTES], *hints;
	int rank = 0, size = 1;

	(void)mpi->Comm_rank(mpi->comm_world, &rank);
	(void)mpi->Comm_size(mpi->comm_world, &size);
	job->rank = (uint32_t)rank;
	job->size = (uint32_t)size;
	hints = calloc(job->size, HINT_BYTES);
	job->box_of = calloc(job->size, sizeof(*job->box_of));
	job->first = calloc(job->size, sizeof(*job->first));
	if (!hints || !job->box_of || !job->first) {
		free(hints);
		return -ENOMEM;
	}
	fill_hint(mine);
	(void)mpi->Allgather(mine, HINT_BYTES, byte, hints, HINT_BYTES, byte,
	                     mpi->comm_world);
	number_boxes(job, hints);
	free(hints);
	return 0;
}

/* -- messages -- */

static void say_why(int error, char *ret_why, size_t why_bytes)
{
	if (error == -EPROTONOSUPPORT)
		(void)snprintf(ret_why, why_bytes,
		               "this is bpsmpi-check %s, rank 0 runs another version",
		               BPS_VERSION);
	else
		(void)snprintf(ret_why, why_bytes, "%s", strerrordesc_np(-error));
}

int bps_job_tell(struct bps_job *job, char *ret_why, size_t why_bytes)
{
	const struct bps_mpi *mpi = job->mpi;
	struct bps_parcel written = { 0 }, read;
	int64_t n_bytes;
	void *bytes;
	int r = 0;

	if (job->rank == 0)
		bps_job_charter_carry(&written, &job->charter);
	n_bytes = written.error ? 0 : (int64_t)written.n_bytes;
	(void)mpi->Bcast(&n_bytes, 1, mpi->type[BPS_MPI_INT64_T], 0, mpi->comm_world);
	bytes = job->rank == 0 ? written.bytes : calloc(1, (size_t)n_bytes + 1);
	if (!bytes) /* nothing else can be done: the launcher ends the job */
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Bcast(bytes, (int)n_bytes, mpi->type[BPS_MPI_BYTE], 0,
	                 mpi->comm_world);
	if (job->rank != 0) {
		read = bps_parcel_open(bytes, (size_t)n_bytes);
		bps_job_charter_carry(&read, &job->charter);
		r = read.error;
		free(bytes);
	}
	if (r)
		say_why(r, ret_why, why_bytes);
	bps_parcel_deinit(&written);
	return r;
}

/* -- to rank 0 -- */

/* What came from all ranks, one behind the other. */
struct pile {
	int64_t *n_bytes; /* [size] */
	int *counts, *starts;
	uint8_t *bytes;
};

static void pile_deinit(struct pile *pile)
{
	free(pile->n_bytes);
	free(pile->counts);
	free(pile->starts);
	free(pile->bytes);
}

/* MPI counts in int. */
static int make_room(const struct bps_job *job, struct pile *pile)
{
	int64_t total = 0;

	pile->counts = calloc(job->size, sizeof(*pile->counts));
	pile->starts = calloc(job->size, sizeof(*pile->starts));
	if (!pile->counts || !pile->starts)
		return -ENOMEM;
	for (uint32_t r = 0; r < job->size; r++) {
		if (pile->n_bytes[r] < 0 || pile->n_bytes[r] > MOST_SAID)
			return -EBADMSG;
		pile->starts[r] = (int)total;
		pile->counts[r] = (int)pile->n_bytes[r];
		total += pile->n_bytes[r];
		if (total > INT32_MAX)
			return -EFBIG;
	}
	pile->bytes = calloc(1, (size_t)total + 1);
	return pile->bytes ? 0 : -ENOMEM;
}

static int collect(struct bps_job *job, struct bps_parcel *mine, struct pile *pile)
{
	const struct bps_mpi *mpi = job->mpi;
	const bps_handle byte = mpi->type[BPS_MPI_BYTE];
	const bps_handle number = mpi->type[BPS_MPI_INT64_T];
	int64_t n_bytes = mine->error ? 0 : (int64_t)mine->n_bytes;
	int r = 0;

	pile->n_bytes = calloc(job->size, sizeof(*pile->n_bytes));
	if (!pile->n_bytes)
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	(void)mpi->Allgather(&n_bytes, 1, number, pile->n_bytes, 1, number,
	                     mpi->comm_world);
	if (job->rank == 0)
		r = make_room(job, pile);
	if (r) {
		bps_check_complain("what the ranks say cannot be taken in: %s",
		                   strerrordesc_np(-r));
		(void)mpi->Abort(mpi->comm_world, BPS_CHECK_CANNOT);
	}
	(void)mpi->Gatherv(mine->bytes, (int)n_bytes, byte, pile->bytes, pile->counts,
	                   pile->starts, byte, 0, mpi->comm_world);
	return mine->error;
}

/* Take over what rank @r said; its box becomes the job's. */
static int take(struct bps_job *job, const struct pile *pile, uint32_t r)
{
	struct bps_parcel parcel =
		bps_parcel_open(pile->bytes + pile->starts[r], (size_t)pile->counts[r]);
	struct bps_job_said said = { 0 };
	const uint32_t box = job->box_of[r];
	char why[BPS_JOB_WHY_BYTES];

	bps_job_said_carry(&parcel, &said);
	if (!parcel.error && (job->first[box] == r) != said.has_box && !said.problem[0])
		parcel.error = -EBADMSG;
	if (parcel.error || said.problem[0]) {
		say_why(parcel.error, why, sizeof(why));
		bps_check_complain("rank %u%s%s: %s", r, said.rank.host[0] ? " on " : "",
		                   said.rank.host, said.problem[0] ? said.problem : why);
		bps_job_said_deinit(&said);
		return parcel.error ? parcel.error : -EIO;
	}
	said.rank.box = box;
	job->ranks[r] = said.rank;
	if (said.has_box)
		job->boxes[box] = said.box;
	return 0;
}

static int number_ranks(struct bps_job *job)
{
	for (uint32_t b = 0; b < job->n_boxes; b++) {
		struct bps_job_box *box = &job->boxes[b];

		box->ranks = calloc(job->size, sizeof(*box->ranks));
		if (!box->ranks)
			return -ENOMEM;
		for (uint32_t r = 0; r < job->size; r++)
			if (job->box_of[r] == b)
				box->ranks[box->n_ranks++] = r;
	}
	return 0;
}

int bps_job_gather(struct bps_job *job, struct bps_job_said *said)
{
	struct bps_parcel mine = { 0 };
	struct pile pile = { 0 };
	int r, failed = 0;

	bps_job_said_carry(&mine, said);
	r = collect(job, &mine, &pile);
	if (job->rank == 0) {
		job->ranks = calloc(job->size, sizeof(*job->ranks));
		job->boxes = calloc(job->n_boxes, sizeof(*job->boxes));
		r = job->ranks && job->boxes ? 0 : -ENOMEM;
		for (uint32_t i = 0; i < job->size && r == 0; i++)
			failed = take(job, &pile, i) ? -EIO : failed;
		if (!r && !failed)
			r = number_ranks(job);
		if (!r && !failed)
			bps_job_name_boxes(job);
	}
	pile_deinit(&pile);
	bps_parcel_deinit(&mine);
	return r ? r : failed;
}
