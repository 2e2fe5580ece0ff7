# SPDX-License-Identifier: BSD-3-Clause
"""Machines that are short of something: shared memory, CPUs, ports; and signals."""

import re
import signal
import subprocess
import time

from harness import CaseError, Skip
from layouts import MODES, run, serve

MIB = 1 << 20


def small_shm(size, fill, mode, hosts, *sizes):
    """C01: a /dev/shm of this size, full or not. MPI itself must not want it either."""
    def case(lab):
        for host in ("h1", "h2"):
            lab.on(host, "mount", "-o", "remount,size=" + size, "/dev/shm")
            if fill:
                lab.on(host, "sh", "-c", "cat /dev/zero >/dev/shm/full 2>/dev/null; true")
        try:
            run(lab, mode, hosts, "sums", "-n", "5", *map(str, sizes),
                mca=("--mca", "btl", "tcp,self"))
        finally:
            for host in ("h1", "h2"):
                lab.on(host, "sh", "-c", "rm -f /dev/shm/full; "
                       "mount -o remount,size=50% /dev/shm")
    return case


def n_cpus(text):
    """How many a list as 0-3,8 has."""
    ends = [x.split("-") for x in text.split(",")]
    return sum(int(x[-1]) - int(x[0]) + 1 for x in ends)


def check_threads(job, cpus):
    """Our threads run there only, and take none of the application's signals; a process
    has no more of them than CPUs."""
    threads = job.output.find(r"^rank (\d+) thread (bps\S+) blocked (\w+) cpus (\S+)")
    if not any(x[2] == "bpsmpi-engine" for x in threads):
        raise CaseError("no engine thread:\n" + job.said())
    for rank, name, mask, where in (x.groups() for x in threads):
        free = [x for x in range(1, 32) if not int(mask, 16) >> (x - 1) & 1]
        if cpus and where not in cpus or free != [signal.SIGKILL, signal.SIGSTOP]:
            raise CaseError("%s on CPUs %s takes signals %s" % (name, where, free))
        n = sum(x[1] == rank for x in threads)
        if n > n_cpus(where):
            raise CaseError("rank %s: %d threads on CPUs %s" % (rank, n, where))


def few_cpus(mode, cpus, prefix=(), mca=(), env=None):
    """C06: fewer CPUs than the machine has, by taskset, mpirun or BPSMPI_CPUS."""
    def case(lab):
        job = run(lab, mode, "h1:2,h2:1", "sums", "-T", prefix=prefix, mca=mca, env=env)
        check_threads(job, cpus)
    return case


def absent_cpu(lab):
    """BPSMPI_CPUS names none that is allowed: native, and it is said why."""
    job = lab.job("h1:2,h2:1", "sums", env={"BPSMPI_CPUS": "7999"})
    job.check_native("BPSMPI_CPUS.*7999", lines=3)


def server_cpus(lab):
    """A server on one CPU has one reducer, there; an absent CPU is refused."""
    server = lab.serve("s1", "--reducers", "0", prefix=("taskset", "-c", "1"))
    server.output.wait("1 reducer,")
    with open("/proc/%d/status" % server.pid) as file:
        if not re.search(r"Cpus_allowed_list:\s+1$", file.read(), re.MULTILINE):
            raise CaseError("it left its CPU")
    lab.job("h1:1,h2:1", "sums", env={"BPSMPI_SERVERS": "s1"}).check("1 dedicated")
    other = lab.serve("s2", "--cpus", "7999", wait=False)
    if other.process.wait(5) != 1 or not other.output.find("7999"):
        raise CaseError(other.output.text())


def crowded(lab):
    """C07: more ranks than CPUs and a server: it goes on as the native library does."""
    server = serve(lab, {"BPSMPI_SERVERS": "s1"})[0]
    took = {}
    for preload in (False, True):
        job = lab.job("h1:2,h2:2", "sums", "-n", "60", str(4 * MIB), str(64 << 10),
                      env={"BPSMPI_SERVERS": "s1"}, preload=preload)
        job.wait()
        took[preload] = job.seconds
    job.check("1 dedicated")
    if took[True] > 3 * took[False] + 2:
        raise CaseError("%.1f s, native %.1f s" % (took[True], took[False]))
    if server.stop() != 0:
        raise CaseError(server.output.text())


# Make a control group of version 1 or 2 and say where; $1 and $2: a CPU list, a quota.
GROUP = """
set -e
cd /sys/fs/cgroup
if [ -f cgroup.controllers ]; then
	mkdir bpsjobs
	[ -z "$1" ] || echo "$1" >bpsjobs/cpuset.cpus
	[ -z "$2" ] || echo "$2 100000" >bpsjobs/cpu.max
	echo /sys/fs/cgroup/bpsjobs
elif [ "$1" ]; then
	mkdir cpuset/bpsjobs
	cat cpuset/cpuset.mems >cpuset/bpsjobs/cpuset.mems
	echo "$1" >cpuset/bpsjobs/cpuset.cpus
	echo /sys/fs/cgroup/cpuset/bpsjobs
else
	mkdir cpu/bpsjobs
	echo "$2" >cpu/bpsjobs/cpu.cfs_quota_us
	echo /sys/fs/cgroup/cpu/bpsjobs
fi
"""


def in_group(mode, hosts, cpus, quota, *words):
    """A job in a control group with these CPUs, or so many microseconds in 0.1 s."""
    def case(lab):
        made = subprocess.run(["sh", "-c", GROUP, "sh", cpus, quota], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        folder = made.stdout.strip().split("\n")[-1]
        try:
            if made.returncode != 0:
                raise Skip("no control group can be made here: " + folder)
            job = run(lab, mode, hosts, *words, group=folder)
            if cpus:
                check_threads(job, (cpus,))
        finally:
            subprocess.run(["sh", "-c", "cd /sys/fs/cgroup && "
                            "rmdir bpsjobs cpu/bpsjobs cpuset/bpsjobs"],
                           stderr=subprocess.DEVNULL)
    return case


def fire(mode, hosts):
    """D10: signals all the time; and their actions are those of a native job."""
    def case(lab):
        env, kind = MODES[mode]
        serve(lab, env)
        seen = {}
        for preload in (False, True):
            job = lab.job(hosts, "signals", "200", env=env, preload=preload)
            job.check(kind if preload else None)
            seen[preload] = sorted(x[1] for x in job.output.find("^signals (.*)"))
        if seen[False] != seen[True] or len(seen[True]) != 2 * job.size:
            raise CaseError("%s\nnative:\n%s" % (seen[True], seen[False]))
    return case


def restart(lab):
    """D04: kill -9 of a server under load; another one takes the port at once."""
    env = {"BPSMPI_SERVERS": "s1", "BPSMPI_TIMEOUT_S": "5"}
    server = serve(lab, env)[0]
    job = lab.job("h1:2,h2:1", "fail", "return", str(4 * MIB), env=env)
    job.output.wait("^running")
    server.process.kill()
    server.process.wait()
    serve(lab, env)[0].output.wait("listening on", 2)
    if job.wait() != 0 or job.output.find("WRONG"):
        raise CaseError(job.said())
    lab.job("h1:1,h2:1", "sums", env=env).check("1 dedicated")


def early(lab):
    """D04: the job is there before its server."""
    job = lab.job("h1:2,h2:1", "sums", env={"BPSMPI_SERVERS": "s1"})
    job.output.wait("s1:7000.*does not answer yet", 10)
    serve(lab, {"BPSMPI_SERVERS": "s1"})
    job.check("1 dedicated", quiet=False)
    job.check_lines(lines=2)


def self_connect(lab):
    """D04: the only port that connections get is the server's: nobody meets himself."""
    ports = "/proc/sys/net/ipv4/ip_local_port_range"
    before = lab.on("h2", "cat", ports).split()
    job = lab.job("h1:1,h2:1", "sums", env={"BPSMPI_SERVERS": "h2:45002"})
    job.output.wait("h2:45002.*does not answer yet", 10)
    try:
        lab.on("h2", "sh", "-c", "echo 45002 45002 >" + ports)
        time.sleep(3)
        # Now and then the port is taken for a moment, by one who tries to meet himself.
        for _ in range(10):
            server = lab.serve("h2", port=45002)
            if server.output.find("listening on"):
                break
        server.output.wait("listening on", 5)
    finally:
        lab.on("h2", "sh", "-c", "echo %s >%s" % (" ".join(before), ports))
    job.check("1 dedicated", quiet=False)


CASES = [
    ("C01 /dev/shm of 64 MB, in-box",
     small_shm("64m", False, "in-box", "h1:4", MIB, 64 * MIB)),
    ("C01 /dev/shm of 1 MB, colocated",
     small_shm("1m", False, "colocated", "h1:1,h2:1", MIB, 256 * MIB)),
    ("C01 /dev/shm full, colocated",
     small_shm("1m", True, "colocated", "h1:2,h2:2", MIB, 64 * MIB)),
    ("C06 one CPU by taskset, colocated",
     few_cpus("colocated", ("1",), prefix=("taskset", "-c", "1"))),
    ("C06 one CPU by taskset, one server",
     few_cpus("one server", ("1",), prefix=("taskset", "-c", "1"))),
    ("C06 ranks bound to cores", few_cpus(
        "colocated", ("0", "1"), mca=("--bind-to", "core", "--map-by", "core"))),
    ("C06 BPSMPI_CPUS", few_cpus("colocated", ("1",), env={"BPSMPI_CPUS": "1,5000"})),
    ("C06 BPSMPI_CPUS that are not there", absent_cpu),
    ("C06 a server on one CPU", server_cpus),
    ("C07 more ranks than CPUs", crowded),
    ("C07 half a CPU's time", in_group(
        "in-box", "h1:4", "", "50000", "sums", "-n", "20", str(4 * MIB), str(64 << 10))),
    ("C07 half a CPU's time, colocated", in_group(
        "colocated", "h1:2,h2:1", "", "50000", "sums", "-n", "10", str(4 * MIB))),
    ("C06 a control group with one CPU",
     in_group("colocated", "h1:2,h2:1", "1", "", "sums", "-T")),
    ("D10 signals, in-box", fire("in-box", "h1:3")),
    ("D10 signals, two servers", fire("two servers", "h1:2,h2:1")),
    ("D04 a server is restarted at once", restart),
    ("D04 a job before its server", early),
    ("D04 no connection to oneself", self_connect),
]
