# SPDX-License-Identifier: BSD-3-Clause
"""Stock Open MPI against bytepsmpi inside this machine: two ranks, no network, no root.

Jobs of the two in turn, with mpirun's own binding. A size's time is the median over the
jobs of each job's median; between jobs of the same kind memory and cores fall out
differently, which more calls in one job do not show.
"""

import json
import os
import tempfile

from comparison import calls_taken, library_env, program, progress
from hosts import CompareError, run_limited

RANKS = 2
JOB_SECONDS = 120
MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(args, low, high):
    """For each implementation a dictionary of bytes to the times of its jobs, each a
    list; sizes are low, doubled up to high. args: coll, build, mode, env, iters (a job),
    warmup, rounds (jobs of each).
    """
    envs = {"stock-default": {}, "bytepsmpi": library_env(args)}
    found = {impl: {} for impl in envs}
    for number in range(args.rounds):
        for impl, env in envs.items():
            progress("box, %s %d to %d, job %d of %d, %s" % (
                args.coll, low, high, number + 1, args.rounds, impl))
            for row in job(args, env, low, high):
                found[impl].setdefault(row["bytes"], []).append(row["times_s"])
    progress("")
    return found


def job(args, env, low, high):
    """The sizes of the program's JSON, after a look at whether all is as it should be."""
    words = ["env", *("%s=%s" % x for x in MPIRUN.items()), "mpirun", "-np", str(RANKS)]
    for name, value in env.items():
        words += ["-x", "%s=%s" % (name, value)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.json")
        status, said = run_limited(words + [
            program(args), "-m", "%d:%d" % (low, high), "-i", str(args.iters),
            "-x", str(args.warmup), "-d", "float", "--json", path], JOB_SECONDS)
        if status != 0:
            raise CompareError("one box: status %s\n%s" % (status, said[-4000:]))
        with open(path) as file:
            result = json.load(file)
    if result["errors"] or not result["checked"]:
        raise CompareError("one box: wrong results\n%s" % said)
    calls = (args.iters + args.warmup) * RANKS * len(result["sizes"])
    taken = calls_taken(said, args.coll)
    if env and args.mode == "always" and taken is not None and taken != calls:
        raise CompareError("one box: the library took %d of %d calls" % (taken, calls))
    return result["sizes"]
