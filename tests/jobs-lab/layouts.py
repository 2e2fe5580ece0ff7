# SPDX-License-Identifier: BSD-3-Clause
"""Layouts: uneven boxes and sub-communicators, who shares a box, progress, same bits."""

from harness import CaseError, JOB_LIMIT_S

MODES = {
    "in-box": ({}, "in one box"),
    "colocated": ({}, "colocated servers"),
    "one server": ({"BPSMPI_SERVERS": "s1"}, "1 dedicated "),
    "two servers": ({"BPSMPI_SERVERS": "s[1-2]"}, "2 dedicated "),
}


def serve(lab, env):
    """The servers that a mode names."""
    servers = env.get("BPSMPI_SERVERS", "")
    return [lab.serve(x) for x in ("s1", "s2")[:{"": 0, "s1": 1}.get(servers, 2)]]


def run(lab, mode, hosts, *words, **more):
    """A job of this mode, all right and taken."""
    env, kind = MODES[mode]
    serve(lab, env)
    env = dict(env, **(more.pop("env", None) or {}))
    limit = more.pop("limit", JOB_LIMIT_S)
    return lab.job(hosts, *words, env=env, **more).check(kind, limit=limit)


def comms(mode, hosts, threshold, rounds):
    def case(lab):
        env = {"BPSMPI_THRESHOLD_BYTES": threshold} if threshold else {}
        run(lab, mode, hosts, "comms", rounds, env=env)
    return case


def off(lab):
    job = lab.job("h1:2,h2:1", "sums", env={"BPSMPI_ENABLE": "0"})
    job.check_native(lines=0)


def deadlock(mode, hosts, peer):
    def case(lab):
        job = run(lab, mode, hosts, "deadlock", peer, limit=30)
        said = [x[1] for x in job.output.find("^case (.*)")]
        if sorted(said) != ["A", "A after", "B", "C"]:
            raise CaseError("cases %s" % said)
    return case


def hashes(job):
    found = {x[1] for x in job.output.find(r"^rank \d+ hash (\w+)")}
    if len(found) != 1:
        raise CaseError("ranks differ:\n" + job.said())
    return found


def same_bits(lab):
    """20 runs of one layout, carried in different ways; 5 calls each, random delays."""
    ways = [{}, {"BPSMPI_SERVERS": "s1"}, {"BPSMPI_SERVERS": "s[1-2]"},
            {"BPSMPI_SERVERS": "s2,s1", "BPSMPI_PARTITION_BYTES": "8K"},
            {"BPSMPI_PARTITION_BYTES": "128K", "BPSMPI_WINDOW_BYTES": "1M"}]
    serve(lab, {"BPSMPI_SERVERS": "s[1-2]"})
    seen = set()
    for i in range(20):
        seen |= hashes(lab.job("h1:2,h2:1,h3:1", "repro", "5",
                               env=ways[i % 5]).check("servers"))
        if len(seen) > 1:
            raise CaseError("run %d gave other bits" % i)


def same_bits_in_box(lab):
    seen = set()
    for _ in range(3):
        seen |= hashes(lab.job("h1:4", "repro", "20").check("in one box"))
    if len(seen) > 1:
        raise CaseError("the runs differ")


def boxes(names, wanted):
    """Hosts with these names and one machine-id are as many boxes as there are."""
    def case(lab):
        try:
            for host, name in zip(("h1", "h2"), names):
                lab.on(host, "hostname", name)
            for hosts in ("h1:1,h2:1", "h1:2,h2:2"):
                lab.job(hosts, "sums", "-n", "8", "1000003",
                        env={"BPSMPI_THRESHOLD_BYTES": "1"}).check(wanted)
        finally:
            for host in ("h1", "h2"):
                lab.on(host, "hostname", host)
    return case


def names_in_box(lab):
    """Containers of one machine: different names, one network and shared memory."""
    script = "hostname c$OMPI_COMM_WORLD_RANK; exec %s -n 8 1000003" % lab.program("sums")
    job = lab.job("h1:3", "sh", "-c", script, prefix=("unshare", "-u"))
    job.check("3 ranks in (one box|3 boxes)")


def hostid(lab):
    """One host, taken for two where the user says so."""
    job = lab.job("h1:1", "sh", "-c", "BPSMPI_HOSTID=$OMPI_COMM_WORLD_RANK exec %s -n 8"
                  % lab.program("sums"), mca=("-np", "3", "--oversubscribe"))
    job.size = 3
    job.check("3 ranks in 3 boxes, 3 colocated")


CASES = [
    ("off: every call is passed", off),
    ("C09 in-box, 4 ranks, 1 byte", comms("in-box", "h1:4", "1", "100")),
    ("C09 in-box, 4 ranks", comms("in-box", "h1:4", "", "100")),
    ("C09 colocated, 3+1 ranks, 1 byte", comms("colocated", "h1:3,h2:1", "1", "100")),
    ("C09 colocated, 1+3 ranks", comms("colocated", "h1:1,h2:3", "", "100")),
    ("C09 colocated, 1+1+2 ranks, 1 byte",
     comms("colocated", "h1:1,h2:1,h3:2", "1", "100")),
    ("C09 one server, 2+1 ranks, 1 byte", comms("one server", "h1:2,h2:1", "1", "100")),
    ("C09 one server, 1+1 ranks", comms("one server", "h1:1,h2:1", "", "300")),
    ("C09 two servers, 1+3 ranks, 1 byte", comms("two servers", "h1:1,h2:3", "1", "100")),
    ("C09 two servers, 2+1+1 ranks", comms("two servers", "h1:2,h2:1,h3:1", "", "100")),
    ("C03 two hosts with one name", boxes(("same", "same"), "in 2 boxes")),
    ("C03 two hosts with one first name", boxes(("n.a", "n.b"), "in 2 boxes")),
    ("C03 one host with three names", names_in_box),
    ("C03 BPSMPI_HOSTID", hostid),
    ("progress, shared memory, in-box", deadlock("in-box", "h1:3", "1")),
    ("progress, shared memory, colocated", deadlock("colocated", "h1:2,h2:1", "1")),
    ("progress, tcp, colocated", deadlock("colocated", "h1:2,h2:1", "2")),
    ("progress, shared memory, one server", deadlock("one server", "h1:2,h2:1", "1")),
    ("progress, tcp, two servers", deadlock("two servers", "h1:2,h2:1", "2")),
    ("A13 same bits in 20 runs", same_bits),
    ("A13 same bits, in-box", same_bits_in_box),
]
