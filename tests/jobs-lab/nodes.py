# SPDX-License-Identifier: BSD-3-Clause
"""Boxes of two memory nodes, as a description says that is not true: what crosses."""

import json
import os
import re
import sys
import time

from halves import boxes as sizes
from harness import CaseError, Skip, shim
from layouts import MODES, hashes, run, serve

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..",
                                "unit", "topology"))
import boxes  # noqa: E402

MIB = 1 << 20
# Neighbours share a CPU, and so a node: the first half of a host's ranks is on node 0.
HALVES = ("sh", "-c", "exec taskset -c $((OMPI_COMM_WORLD_LOCAL_RANK * 2 / "
          "OMPI_COMM_WORLD_LOCAL_SIZE)) \"$0\" \"$@\"")


def described(lab):
    """What makes hwloc describe this machine as two nodes of a CPU each."""
    if os.cpu_count() < 2:
        raise Skip("needs two CPUs")
    path = os.path.join(lab.folder, "two-nodes.xml")
    box = boxes.Box([boxes.Package(0, [boxes.Node(0, n_cores=1)]),
                     boxes.Package(1, [boxes.Node(1, n_cores=1)])])
    with open(path, "w") as file:
        file.write(box.xml)
    return {"HWLOC_XMLFILE": path, "HWLOC_THISSYSTEM": "1"}


def two(lab):
    """Environment and prefix of a job on hosts of two nodes."""
    return described(lab), HALVES


def crossed(job):
    """Bytes between nodes, by rank, and the rank's node."""
    found = job.output.find(r" r(\d+) stats: memory node=(\S+) crossed=(\d+)")
    return {int(x[1]): (x[2], int(x[3])) for x in found}


def alone(n_ranks, n_calls, size):
    """Two nodes: of each sum a half goes over as a partial and half as a total, both ways;
    every fourth call is followed by a broadcast, which goes over once."""
    def case(lab):
        job = run(lab, "in-box", "h1:%d" % n_ranks, "sums", "-n", str(n_calls), str(size),
                  env=described(lab), prefix=HALVES)
        found = crossed(job)
        wanted = 2 * n_calls * size + (n_calls + 3) // 4 * size
        if sum(x[1] for x in found.values()) != wanted:
            raise CaseError("%s crossed, not %d" % (found, wanted))
        for rank, (node, _) in found.items():
            if node != str(rank * 2 // n_ranks):
                raise CaseError("rank %d is on node %s" % (rank, node))
    return case


def several(mode, hosts, n_boxes):
    """In each box the partials of one node and the totals for it; a broadcast comes once
    to each node, and maybe goes to the network's from the root's."""
    def case(lab):
        job = run(lab, mode, hosts, "sums", "-n", "8", str(2 * MIB), env=described(lab),
                  prefix=HALVES)
        total = sum(x[1] for x in crossed(job).values())
        least = n_boxes * (8 * 2 * 2 * MIB + 2 * 2 * MIB)
        # What the ranks agree on is a few hundred bytes each time.
        if not least <= total <= least + 2 * 2 * MIB + 64 * 1024:
            raise CaseError("%d bytes crossed, not %d and little more" % (total, least))
    return case


def engines(lab, env, prefix):
    """Where the threads of a job's engines may run, by h1's rank 0 and by bpsmpi-check."""
    job = lab.job("h1:1,h2:1", "sums", "-n", "3", "-T", "1000000", env=env, prefix=prefix)
    job.check("colocated")
    real = job.output.find(r"rank 0 thread bpsmpi-engine .* cpus (\S+)")[0][1]
    job = lab.job("h1:1,h2:1", os.path.join(os.path.dirname(lab.server), "bpsmpi-check"),
                  "--json", env=env, prefix=prefix)
    job.wait()
    said = job.said()
    said = json.JSONDecoder().raw_decode(said[said.index("{"):])[0]
    return real, said["boxes"][0]["machine"]["plan"]["engine"]["cpus"]


def shown_engine(lab):
    """The engine's thread stays within its rank's CPUs, and where BPSMPI_CPUS says."""
    if os.cpu_count() < 2:
        raise Skip("needs two CPUs")
    for env, prefix, wanted in (({}, ("taskset", "-c", "0"), "0"),
                                ({}, ("taskset", "-c", "1"), "1"),
                                ({"BPSMPI_CPUS": "1"}, ("taskset", "-c", "0,1"), "1")):
        found = engines(lab, env, prefix)
        if found != (wanted, wanted):
            raise CaseError("%s %s: the engine is on %s, by bpsmpi-check on %s" % (
                env, prefix, *found))


def communicators(mode, hosts):
    """Communicators of all kinds come and go, with a broadcast as their last call."""
    def case(lab):
        env = dict(described(lab), BPSMPI_THRESHOLD_BYTES="1")
        job = run(lab, mode, hosts, "comms", "2", env=env, prefix=HALVES)
        if not crossed(job):
            raise CaseError("no nodes:\n" + job.said())
    return case


def turned_off(lab):
    env = dict(described(lab), BPSMPI_NUMA="0")
    job = run(lab, "in-box", "h1:4", "sums", "-n", "4", env=env, prefix=HALVES)
    if crossed(job):
        raise CaseError("nodes were told apart:\n" + job.said())


def unbound(lab):
    """Ranks that may run on both nodes are one group."""
    job = run(lab, "in-box", "h1:3", "sums", "-n", "4", env=described(lab))
    if crossed(job):
        raise CaseError("nodes were told apart:\n" + job.said())


def same_bits(mode, hosts):
    """The same layout gives the same bits, whatever the nodes are and who comes first."""
    def case(lab):
        serve(lab, MODES[mode][0])
        seen = set()
        for _ in range(3):
            job = lab.job(hosts, "repro", "5", env=dict(MODES[mode][0], **described(lab)),
                          prefix=HALVES).check(MODES[mode][1])
            if not crossed(job):
                raise CaseError("no nodes:\n" + job.said())
            seen |= hashes(job)
        if len(seen) > 1:
            raise CaseError("the runs differ")
    return case


def halves(mode, hosts):
    """16-bit floats are summed in 32 bits across nodes too, and rounded once."""
    def case(lab):
        job = run(lab, mode, hosts, "halves", sizes(hosts), env=described(lab),
                  prefix=HALVES)
        if not crossed(job):
            raise CaseError("no nodes:\n" + job.said())
    return case


def threads_of(server):
    """Where the server's threads may run, by name."""
    found = {}
    for task in os.listdir("/proc/%d/task" % server.pid):
        with open("/proc/%d/task/%s/status" % (server.pid, task)) as file:
            text = file.read()
        name = re.search(r"^Name:\s+(\S+)", text, re.MULTILINE)[1]
        found[name] = re.search(r"^Cpus_allowed_list:\s+(\S+)", text, re.MULTILINE)[1]
    return found


# The loader finds no hwloc; Open MPI's own was linked to it.
NO_HWLOC = """
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
        void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
        int missing = name && strstr(name, "libhwloc");
        return next(missing ? "libhwloc-that-is-missing.so" : name, flags);
}
"""


def without_hwloc(lab):
    """A line for each box in the debug log, and none for others; the job as it should be."""
    preload = shim(lab, "no-hwloc", NO_HWLOC)
    one = lab.serve("s1", "--log", "debug", prefix=("env", "LD_PRELOAD=" + preload))
    for hosts, env, kind in (("h1:4", {}, "in one box"), ("h1:3,h2:2", {}, "colocated"),
                             ("h1:2,h2:2", {"BPSMPI_SERVERS": "s1"}, "1 dedicated")):
        for level in ("info", "debug"):
            more = {"LD_PRELOAD": preload + ":" + lab.library, "BPSMPI_LOG": level}
            job = lab.job(hosts, "sums", "-n", "4", str(MIB), env={**env, **more},
                          preload=False, prefix=HALVES).check(kind, quiet=level == "info")
            said = job.output.find("libhwloc.so.15 cannot be loaded")
            if len(said) != (hosts.count("h") if level == "debug" else 0) or crossed(job):
                raise CaseError("%d lines:\n%s" % (len(said), job.said()))
    if len(one.output.find("libhwloc.so.15 cannot be loaded")) != 1 or one.stop() != 0:
        raise CaseError(one.output.text())


def server(lab):
    """A card that is near no node: each node has its part of the reducers."""
    words = ["%s=%s" % x for x in described(lab).items()]
    one = lab.serve("s1", "--reducers", "0", "--loops", "2", "--cpus", "0-1",
                    prefix=("env", *words))
    wanted = {"bps-sum-0": "0", "bps-sum-1": "1", "bps-loop-0": "0", "bps-loop-1": "1"}
    until = time.monotonic() + 5  # each thread binds itself
    while {x: y for x, y in threads_of(one).items() if x in wanted} != wanted:
        if time.monotonic() > until:
            raise CaseError("threads run on %s" % threads_of(one))
        time.sleep(0.02)
    lab.job("h1:1,h2:1", "sums", env={"BPSMPI_SERVERS": "s1"}).check("1 dedicated")
    if one.stop() != 0:
        raise CaseError(one.output.text())


CASES = [
    ("two nodes, a box of 2 ranks: what crosses is the least", alone(2, 8, MIB)),
    ("two nodes, a box of 4 ranks: what crosses is the least", alone(4, 9, 3 * MIB)),
    ("two nodes, a box of 5 ranks: what crosses is the least", alone(5, 4, MIB + 40)),
    ("two nodes, boxes of 4 and 2 ranks, colocated: what crosses",
     several("colocated", "h1:4,h2:2", 2)),
    ("two nodes, boxes of 3, 2 and 4 ranks, two servers: what crosses",
     several("two servers", "h1:3,h2:2,h3:4", 3)),
    *(("two nodes, communicators, %s" % mode, communicators(mode, hosts))
      for mode, hosts in (("in-box", "h1:5"), ("colocated", "h1:4,h2:3"),
                          ("two servers", "h1:3,h2:2,h3:2"))),
    ("two nodes, BPSMPI_NUMA=0", turned_off),
    ("two nodes, ranks that may run on both", unbound),
    ("two nodes, the same bits in a box", same_bits("in-box", "h1:4")),
    ("two nodes, the same bits in boxes", same_bits("one server", "h1:3,h2:2")),
    ("two nodes, 16-bit floats in a box", halves("in-box", "h1:4")),
    ("two nodes, 16-bit floats in boxes", halves("colocated", "h1:4,h2:2")),
    ("two nodes, a server's threads", server),
    ("the engine's thread, as bpsmpi-check shows it", shown_engine),
    ("no hwloc", without_hwloc),
]
