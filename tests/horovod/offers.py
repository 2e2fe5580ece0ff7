# SPDX-License-Identifier: BSD-3-Clause
"""features.py with the library: every answer right, and what must be taken was."""

import os

from harness import CaseError
from training import QUIET, serve

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "features.py")
# Below each of the many tensors, above what Horovod says to itself by allreduces: then it
# does not matter how many of them Horovod sent together.
THRESHOLD = {"BPSMPI_THRESHOLD_BYTES": "5K"}


def start(lab, hosts, servers, env):
    env = dict(QUIET, **serve(lab, servers), **env)
    job = lab.job(hosts, lab.horovod.python("torch"), SCRIPT, env=env)
    if job.wait() != 0 or job.ours():
        raise CaseError("status %d:\n%s" % (job.status, job.said()))
    return job


def taken(job, rank, collective):
    """The bytes that the library took on this rank."""
    found = job.output.find(r" r%d stats: MPI_%s taken=\d+/(\d+)" % (rank, collective))
    if len(found) != 1:
        raise CaseError("no statistics of rank %d:\n%s" % (rank, job.said()))
    return int(found[0][1])


def always(hosts, servers):
    """All that is large enough is taken, to the byte."""
    def case(lab):
        job = start(lab, hosts, servers, dict(THRESHOLD, BPSMPI_MODE="always"))
        ends = job.output.find(r"^rank (\d+) gave allreduce=(\d+) bcast=(\d+)")
        if len(ends) != job.size:
            raise CaseError("not all came to the end:\n" + job.said())
        for end in ends:
            rank, allreduce, bcast = map(int, end.groups())
            got = taken(job, rank, "Allreduce")
            if got != allreduce:
                raise CaseError("rank %d: %d of %d bytes in allreduces were taken:\n%s"
                                % (rank, got, allreduce, job.said()))
            # Horovod tells by broadcasts which tensors are ready, some above 5 KiB.
            got = taken(job, rank, "Bcast")
            if not bcast <= got < bcast + (256 << 10):
                raise CaseError("rank %d: %d of %d bytes in broadcasts were taken:\n%s"
                                % (rank, got, bcast, job.said()))
    return case


def auto(hosts, servers):
    """As a user runs it: right, whoever carries it; and some are taken."""
    def case(lab):
        job = start(lab, hosts, servers, {"BPSMPI_MODE": "auto"})
        for rank in range(job.size):
            if taken(job, rank, "Allreduce") == 0:
                raise CaseError("nothing was taken on rank %d:\n%s" % (rank, job.said()))
    return case


CASES = [
    ("features, 2+1+1 ranks, 2 servers", always("h1:2,h2:1,h3:1", 2)),
    ("features, 4 ranks of one box", always("h1:4", 0)),
    ("features, 2+2 ranks, auto", auto("h1:2,h2:2", 0)),
]
