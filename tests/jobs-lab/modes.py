# SPDX-License-Identifier: BSD-3-Clause
"""BPSMPI_MODE: auto finds out who is faster, never passes all; the counters prove it."""

import contextlib
import re

from harness import CaseError

BYTES = 512 << 10
CALLS = 30  # a broadcast after every fourth, from the first on
# The first allreduces and two broadcasts carry 3.5 MiB: not worth a setup yet.
YOUNG = 5
# Open MPI sums at rank 0, and sends the total to each other rank in turn.
LINEAR = ("--mca", "coll_tuned_use_dynamic_rules", "1",
          "--mca", "coll_tuned_allreduce_algorithm", "1")


@contextlib.contextmanager
def links(lab, hosts, rate):
    """These hosts' links are limited for a while."""
    try:
        for host in hosts:
            lab.change(host, "--rate", rate)
        yield
    finally:
        for host in hosts:
            lab.change(host, "--rate", "none")


def counters(job):
    """How many MPI_Allreduce went which way; all sums right, all ranks the same."""
    if job.wait() != 0 or job.output.find("WRONG") or job.ours():
        raise CaseError("status %d:\n%s" % (job.status, job.said()))
    found = [{name: int(n) for name, n in re.findall(r"([a-z-]+)=(\d+)/", x[1])
              if int(n)} for x in job.output.find("stats: MPI_Allreduce (.*)")]
    if len(found) != job.size or any(x != found[0] for x in found):
        raise CaseError("the ranks' counters:\n" + job.said())
    return found[0]


def learnt(job, winner):
    """Both ways were tried equally often; then all calls went one, and it is reported."""
    found = counters(job)
    trials = found.get("trial", 0)
    rest = CALLS - YOUNG - 2 * trials
    want = {"young": YOUNG, "trial": trials, "taken": trials}
    if winner == "own":
        want["taken"] += rest
    else:
        want["native-faster"] = rest
    if not 2 <= trials <= 8 or found != want:
        raise CaseError("counted %s, not %s:\n%s" % (found, want, job.said()))
    report = r"r0 stats: cost MPI_COMM_WORLD MPI_Allreduce: 512K %s \([\d.]+x\)$" % winner
    if len(job.output.find(report)) != 1:
        raise CaseError("no report of %s:\n%s" % (winner, job.said()))


def slow_engine(lab):
    """Parts of 1 KiB that wait for each other's answers: far behind the MPI library."""
    env = {"BPSMPI_MODE": "auto", "BPSMPI_PARTITION_BYTES": "1K",
           "BPSMPI_WINDOW_BYTES": "1K"}
    learnt(lab.job("h1:1,h2:2", "sums", "-n", str(CALLS), str(BYTES), env=env), "native")


def slow_native(lab):
    """Links are slow, and the MPI library sends more over one than it needs to."""
    for host in ("s1", "s2"):
        lab.serve(host)
    env = {"BPSMPI_MODE": "auto", "BPSMPI_SERVERS": "s[1-2]"}
    with links(lab, ("h1", "h2", "h3"), "100mbit"):
        learnt(lab.job("h1:1,h2:1,h3:1", "sums", "-n", str(CALLS), str(BYTES), env=env,
                       mca=LINEAR), "own")


def never(lab):
    """Every call that could be taken is passed."""
    job = lab.job("h1:2,h2:1", "sums", "-n", str(CALLS), str(BYTES),
                  env={"BPSMPI_MODE": "never"})
    found = counters(job)
    if found != {"never": CALLS}:
        raise CaseError("counted %s:\n%s" % (found, job.said()))


def rules(lab):
    """Rank 0's mode is that of all."""
    script = ("[ $OMPI_COMM_WORLD_RANK = 0 ] || export BPSMPI_MODE=never; "
              "exec %s -n 8" % lab.program("sums"))
    lab.job("h1:2,h2:1", "sh", "-c", script).check("colocated servers")


CASES = [
    ("auto, a slow engine", slow_engine),
    ("auto, a slow MPI library", slow_native),
    ("never", never),
    ("rank 0's mode rules", rules),
]
