# SPDX-License-Identifier: BSD-3-Clause
"""Who sums what, told by what each server says that it was sent."""

import threading
import time

from harness import CaseError
from modes import links

BYTES = 4 << 20
CALLS = 4  # a broadcast after the first: four allreduces and a broadcast


def sent(server):
    """Bytes that were pushed to it, from its closing line."""
    server.stop()
    found = server.output.wait(r"pushes of ([\d.]+) ?(\w+) summed", 10)
    units = {"B": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    return float(found[1]) * units[found[2]]


def check(job, servers, hosts, shares):
    """Each dedicated server got its share of all that the hosts pushed. The broadcast
    adds at most a copy of its data, and the measurement in MPI_Init a little."""
    job.check()
    pushed = hosts * CALLS * BYTES
    for server, share in zip(servers, shares):
        got = sent(server)
        if not 0.98 * share * pushed < got < 1.02 * share * pushed + 1.2 * BYTES:
            raise CaseError("%s got %.1f MiB of %.1f, not %.1f %%:\n%s" % (
                server.host, got / 2**20, pushed / 2**20, 100 * share, job.said()))


def mixed(lab):
    """One dedicated server beside those of three hosts: 2(n-1)/(n^2+kn-2k) is its."""
    n, k = 3, 1
    servers = [lab.serve("s1")]
    job = lab.job("h1:1,h2:1,h3:1", "sums", "-n", str(CALLS), str(BYTES),
                  env={"BPSMPI_SERVERS": "s1", "BPSMPI_BANDWIDTH": "1Gbit"})
    check(job, servers, n, [2 * (n - 1) / (n * n + k * n - 2 * k)])


def unequal(lab):
    """Two hosts, two servers, one of them four times as fast: it sums four fifths."""
    servers = [lab.serve("s1"), lab.serve("s2")]
    job = lab.job("h1:1,h2:2", "sums", "-n", str(CALLS), str(BYTES),
                  env={"BPSMPI_SERVERS": "s[1-2]",
                       "BPSMPI_BANDWIDTH": "s1=400Mbit,*=100Mbit"})
    check(job, servers, 2, [0.8, 0.2])


def measured(lab):
    """The same, found out by measuring."""
    servers = [lab.serve("s1"), lab.serve("s2")]
    with links(lab, ("h1", "h2", "s1"), "200mbit"), links(lab, ("s2",), "50mbit"):
        job = lab.job("h1:1,h2:1", "sums", "-n", str(CALLS), str(BYTES),
                      env={"BPSMPI_SERVERS": "s[1-2]"})
        job.check()
        one, other = sent(servers[0]), sent(servers[1])
    # 4 to 1, but for what the measurement itself took and how exact it was
    if not 2.5 < one / other < 5:
        raise CaseError("%.1f and %.1f MiB:\n%s" % (one / 2**20, other / 2**20,
                                                   job.said()))


def stolen(lab):
    """A server that gets slow in mid-job is sent less than the other from then on."""
    servers = [lab.serve("s1"), lab.serve("s2")]
    with links(lab, ("h1", "h2", "s1", "s2"), "400mbit"):
        job = lab.job("h1:1,h2:1", "sums", "-t", "12", str(BYTES),
                      env={"BPSMPI_SERVERS": "s[1-2]", "BPSMPI_LOG": "debug",
                           "BPSMPI_BANDWIDTH": "400Mbit"})
        timer = threading.Timer(3, lab.change, ("s2", "--rate", "50mbit"))
        timer.start()
        try:
            job.check(quiet=False)
        finally:
            timer.cancel()
            time.sleep(0.1)
        one, other = sent(servers[0]), sent(servers[1])
    if not job.output.find("other shares") or one < 1.3 * other:
        raise CaseError("%.1f and %.1f MiB:\n%s" % (one / 2**20, other / 2**20,
                                                   job.said()))


def nonsense(lab):
    """A bandwidth that is none: one line that says what to write, and no job is lost."""
    job = lab.job("h1:1,h2:1", "sums", "-n", "4", str(BYTES),
                  env={"BPSMPI_BANDWIDTH": "10Gb/h"})
    job.check_native("BPSMPI_BANDWIDTH")


CASES = [
    ("plan, mixed servers", mixed),
    ("plan, unequal links", unequal),
    ("plan, unequal links that are measured", measured),
    ("plan, a server gets slow", stolen),
    ("plan, a bandwidth that is none", nonsense),
]
