# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of stock Open MPI and of the library in turn, in one box or in a lab."""

import argparse
import json
import os
import tempfile

from comparison import (calls_taken, job_command, library, library_env,
                        server_program)
from hosts import CompareError, run_limited
from onebox import MPIRUN

JOB_SECONDS = 120
# The library leaves smaller calls to the MPI library, in any mode: here it is measured.
THRESHOLD = "BPSMPI_THRESHOLD_BYTES=64K"
IMPLS = ("stock", "bytepsmpi")


class Box:
    """Ranks in one box, without a server; words: for mpirun, else its own defaults."""

    name = "one box"

    def __init__(self, args, ranks, words=()):
        self.ranks, self.words = ranks, words
        self.env = env_of(args)

    def command(self, impl):
        words = ["env", *("%s=%s" % x for x in MPIRUN.items()), "mpirun",
                 "-np", str(self.ranks), *self.words]
        for name, value in (self.env if impl == "bytepsmpi" else {}).items():
            words += ["-x", "%s=%s" % (name, value)]
        return words


class Hosts:
    """Ranks on all hosts of a lab, which has idle ranks yield whatever runs."""

    def __init__(self, args, lab, running=None):
        self.args, self.lab, self.running = args, lab, running
        self.ranks = args.hosts * args.ranks_per_host
        self.env = env_of(args)
        self.name = "%d hosts, %s" % (args.hosts, args.rate)

    def command(self, impl):
        self.lab.forget_metrics()
        if self.running:
            self.running.check()
        return job_command(self.lab, self.args, self.env if impl == "bytepsmpi" else {})


def env_of(args):
    """What the ranks need to carry the library; --env comes last."""
    return library_env(argparse.Namespace(
        **{**vars(args), "env": [THRESHOLD, *args.env]}))


def job(place, impl, words):
    """(the JSON that a program writes, what it printed). words: a function of the path of
    the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.json")
        status, said = run_limited(place.command(impl) + words(path), JOB_SECONDS)
        if status != 0:
            raise CompareError("%s, %s: status %s\n%s"
                               % (place.name, impl, status, said[-4000:]))
        with open(path) as file:
            found = json.load(file)
    if found.get("errors"):
        raise CompareError("%s, %s: wrong results\n%s" % (place.name, impl, said[-4000:]))
    return found, said


def taken_share(place, said, calls):
    """The part of all ranks' calls that the library took; None: it did not say."""
    taken = calls_taken(said, "allreduce")
    return None if taken is None else taken / (calls * place.ranks)


def check_programs(args, names):
    paths = [os.path.join(args.build, "benchmarks", x) for x in names]
    for path in [*paths, library(args), server_program(args)]:
        if not os.path.exists(path):
            raise CompareError("no %s: meson setup build && meson compile -C build, "
                               "or say --build DIR" % path)
    return paths


def write_json(path, rows):
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


def warn_of_others(rows):
    """A comparison of stock Open MPI with itself must not pass for one."""
    if any(row["impl"] != "stock" and row["taken"] not in (None, 1) for row in rows):
        print("below 100%: the calls not taken are stock Open MPI's own")


def share_text(share):
    return "-" if share is None else "%.0f%%" % (share * 100)


def ratio_text(over, under):
    return "%.2f" % (over / under) if under else "-"
