# SPDX-License-Identifier: BSD-3-Clause
"""Servers and workers that die or fall silent in mid-job; ranks that are late."""

import os
import re
import signal
import time

from harness import CaseError
import nodes
from layouts import MODES, serve

TIMEOUT_S = 4


def die(how, handler, hosts, n_servers, kill=1):
    """Server number `kill` is ended in mid-call by the signal `how`."""
    def case(lab):
        # A slow link: nearly all of the time is spent inside calls.
        lab.change("s%d" % kill, "--rate", "200mbit")
        try:
            run_die(lab, how, handler, hosts, n_servers, kill)
        finally:
            lab.change("s%d" % kill, "--rate", "none")
    return case


def run_die(lab, how, handler, hosts, n_servers, kill):
    env = {"BPSMPI_SERVERS": "s[1-%d]" % n_servers if n_servers > 1 else "s1",
           "BPSMPI_TIMEOUT_S": str(TIMEOUT_S)}
    servers = serve(lab, env)
    job = lab.job(hosts, "fail", handler, str(4 << 20), env=env)
    job.output.wait("^running")
    time.sleep(0.3)
    victim = servers[kill - 1]
    victim.signal(how)
    killed = time.monotonic()
    if handler == "fatal":
        check_fatal(job)
    else:
        check_returned(job)
    check_report(job, victim)
    if time.monotonic() - killed > TIMEOUT_S + 20:  # of a minute and a half
        raise CaseError("it took %.1f s" % (time.monotonic() - killed))
    check_others(lab, servers, victim)


def check_returned(job):
    """An error on every rank, in one call or the next; all else works, exit 0."""
    if job.wait() != 0 or job.output.find("WRONG"):
        raise CaseError("status %d:\n%s" % (job.status, job.said()))
    ends = job.output.find(r"^rank (\d+) class (\d+) call (\d+)")
    calls = {int(x[3]) for x in ends}
    if len(ends) != job.size or max(calls) - min(calls) > 1:
        raise CaseError("not the same end on all ranks:\n" + job.said())


def check_fatal(job):
    if job.wait() == 0 or job.output.find("^rank . class"):
        raise CaseError("status %d:\n%s" % (job.status, job.said()))


def check_report(job, victim):
    """One line a box at most, and at least one that says all that there is to say."""
    lines = [x for x in job.ours() if "died" in x]
    boxes = len(job.hosts.split(","))
    pattern = r"server %s:7000 died .*number \d+ of gradients cannot (end|begin)" \
        % victim.host
    if not any(re.search(pattern, x) for x in lines) or len(lines) > boxes:
        raise CaseError("no line %r, or more than %d:\n%s" % (pattern, boxes, job.said()))


def check_others(lab, servers, victim):
    """The servers that are left go on, for a new job too."""
    left = [x for x in servers if x is not victim]
    for server in left:
        if not server.alive():
            raise CaseError("server %s ended too:\n%s" % (
                server.host, server.output.text()))
        lab.job("h1:1,h2:1", "sums", "1000000",
                env={"BPSMPI_SERVERS": server.host}).check("1 dedicated")
        if server.stop() != 0:
            raise CaseError("server %s:\n%s" % (server.host, server.output.text()))


def pause(lab):
    """Servers and ranks stand still for less than the timeout: nothing comes of it."""
    env = {"BPSMPI_SERVERS": "s[1-2]", "BPSMPI_TIMEOUT_S": "10"}
    servers = serve(lab, env)
    job = lab.job("h1:2,h2:1", "sums", "-t", "6", str(8 << 20), env=env)
    pids = job.pids()
    for pid in (servers[0].pid, pids[1], servers[1].pid, pids[2]):
        time.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)
    job.check("2 dedicated")


def suspended(mode):
    """All ranks stand still for longer than the timeout, as a batch system has it."""
    def case(lab):
        env, kind = MODES[mode]
        serve(lab, env)
        # A slow link: ranks are stopped while they wait for it.
        lab.change("h2", "--rate", "200mbit")
        try:
            job = lab.job("h1:1,h2:1,h3:1", "sums", "-t", "12", str(8 << 20),
                          env={**env, "BPSMPI_TIMEOUT_S": "3"})
            pids = job.pids().values()
            time.sleep(1)
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in pids:
                    os.kill(pid, number)
                time.sleep(5)
            job.check(kind, quiet=False)
        finally:
            lab.change("h2", "--rate", "none")
    return case


DROP = "for c in INPUT OUTPUT; do iptables -%s $c -j DROP || exit; done"


def unplugged(seconds):
    """A server's network is dead: for good, or for less than the timeout."""
    def case(lab):
        env = {"BPSMPI_SERVERS": "s[1-2]", "BPSMPI_TIMEOUT_S": "15" if seconds else "3"}
        serve(lab, env)
        program = ("sums", "-t", "4", str(8 << 20)) if seconds else ("fail", "return",
                                                                    str(4 << 20))
        job = lab.job("h1:2,h2:1", *program, env=env)
        job.pids()
        time.sleep(1)
        lab.on("s1", "sh", "-c", DROP % "A")
        try:
            if seconds:
                time.sleep(seconds)
            else:
                check_returned(job)
        finally:
            lab.on("s1", "sh", "-c", DROP % "D")
        if seconds:
            job.check("2 dedicated")
        else:
            job.check_lines("server s1:7000 died .*said nothing for 3 s", lines=2)
    return case


def silent_rank_at_server(lab):
    """The message names the ranks that a dead server still waited for."""
    env = {"BPSMPI_SERVERS": "s1", "BPSMPI_TIMEOUT_S": "30"}
    servers = serve(lab, env)
    job = lab.job("h1:2,h2:1,h3:1", "fail", "return", str(4 << 20), env=env)
    job.output.wait("^running")
    late = job.pids()[3]
    os.kill(late, signal.SIGSTOP)
    time.sleep(3)
    servers[0].signal(signal.SIGKILL)
    time.sleep(1)
    os.kill(late, signal.SIGCONT)
    check_returned(job)
    if not any(re.search("missing: .*rank 3 on h3", x) for x in job.ours()):
        raise CaseError("the missing rank is not named:\n" + job.said())


def late(mode, hosts, rank, *patterns):
    """A rank that sleeps is named once a box, waited for, and costs no CPU time."""
    def case(lab):
        env, kind = MODES[mode]
        servers = serve(lab, env)
        env = dict(env, BPSMPI_TIMEOUT_S="2")
        job = lab.job(hosts, "wait", "2", str(rank), "3", env=env)
        job.output.wait("^idle begins")
        time.sleep(0.2)
        before = [x.cpu() for x in servers]
        job.output.wait("^idle ends")
        spent = [x.cpu() - y for x, y in zip(servers, before)]
        job.check(kind, quiet=False)
        job.check_lines(*patterns, lines=len(hosts.split(",")))
        check_idle(job, rank, spent)
    return case


def check_idle(job, rank, spent):
    """Below 5% where nobody has anything to do, below 20% where one waits."""
    idle = [float(x[2]) / float(x[1]) for x in
            job.output.find(r"^rank \d+ idle ([\d.]+) cpu ([\d.]+)")]
    waits = [float(x[3]) / float(x[2]) for x in
             job.output.find(r"^rank (\d+) waited ([\d.]+) cpu ([\d.]+)")
             if int(x[1]) != rank]
    if len(idle) != job.size or max(idle) > 0.05 or max(spent, default=0) > 0.1:
        raise CaseError("idle: ranks %s of a CPU, servers %s s" % (idle, spent))
    if len(waits) != job.size - 1 or max(waits) > 0.2:
        raise CaseError("waiting: %s of a CPU" % waits)


def stopped(mode, hosts, late_rank, victim, prepare=None):
    """A rank that is stopped inside a call is named alone, once the late one is there."""
    def case(lab):
        env, kind = MODES[mode]
        serve(lab, env)
        more, prefix = prepare(lab) if prepare else ({}, ())
        job = lab.job(hosts, "wait", "0", str(late_rank), "3",
                      env={**env, **more, "BPSMPI_TIMEOUT_S": "2"}, prefix=prefix)
        pid = job.pids()[victim]
        job.output.wait("^idle ends")
        time.sleep(1)
        os.kill(pid, signal.SIGSTOP)
        try:
            job.output.wait(r"waited \d+ s for rank %d; going on" % victim, 15)
        finally:
            os.kill(pid, signal.SIGCONT)
        job.check(kind, quiet=False)
    return case


def late_below_ping(lab):
    """The smallest timeout there is does not take a late rank for a dead server."""
    env = {"BPSMPI_SERVERS": "s1", "BPSMPI_TIMEOUT_S": "1"}
    serve(lab, env)
    job = lab.job("h1:1,h2:1", "wait", "0", "1", "3.5", env=env)
    job.check("1 dedicated", quiet=False)


def traces(lab):
    """What a job could leave behind: files in shared places, processes."""
    found = set()
    for host in ("h1", "h2"):
        found |= {host + " /dev/shm/" + x for x in lab.on(host, "ls", "/dev/shm").split()}
    # A job's own session files lie elsewhere in the lab; bps-* are folders of tests.
    found |= {"/tmp/" + x for x in os.listdir("/tmp")
              if "bps" in x.lower() and not x.startswith("bps-")}
    return found


def programs(lab):
    """Processes of the test programs."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and os.readlink("/proc/%s/exe" % pid).startswith(lab.folder):
                found.append(int(pid))
        except OSError:
            pass
    return found


def worker(mode, hosts, victim):
    """kill -9 of a rank: the job ends as a native one does, and nothing is left."""
    def case(lab):
        env, _ = MODES[mode]
        servers = serve(lab, env)
        before = traces(lab)
        took = {}
        for preload in (False, True):
            job = lab.job(hosts, "sums", "-t", "40", str(16 << 20), env=env,
                          preload=preload)
            pid = job.pids()[victim]
            time.sleep(1)
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            if job.wait(45) == 0 or not job.output.find("signal 9") or job.ours():
                raise CaseError("status %d:\n%s" % (job.status, job.said()))
            took[preload] = time.monotonic() - killed
        if took[True] > 3 * took[False] + 4:
            raise CaseError("it took %.1f s, native %.1f s" % (took[True], took[False]))
        left = [x for x in programs(lab) if not gone(x)]
        if left or traces(lab) - before:
            raise CaseError("left: %s %s" % (left, traces(lab) - before))
        for server in servers:
            lab.job("h1:1,h2:1", "sums", "-n", "5",
                    env={"BPSMPI_SERVERS": server.host}).check("1 dedicated")
    return case


def gone(pid):
    for _ in range(30):
        if not os.path.exists("/proc/%d" % pid):
            return True
        time.sleep(0.1)
    return False


def two_jobs(lab):
    """Jobs at once on the same servers, one of which is killed; the others are right."""
    env = {"BPSMPI_SERVERS": "s[1-2]"}
    servers = serve(lab, env)
    first = lab.job("h1:1,h2:2", "sums", "-t", "5", "-d", "300000", "4000000", env=env)
    second = lab.job("h2:1,h3:1", "sums", "-t", "4", "100000", "3000000", env=env)
    third = lab.job("h1:1,h3:1", "sums", "-t", "30", "2000000", env=env)
    pids = third.pids()
    time.sleep(1.5)
    os.kill(pids[1], signal.SIGKILL)
    third.wait()
    second.check("2 dedicated")
    first.check("2 dedicated")
    for server in servers:
        if server.stop() != 0 or not server.output.find("ended: 3 jobs"):
            raise CaseError(server.output.text())


def terminate(lab):
    """SIGTERM while a job is on: the server lets it finish; a second job runs native."""
    env = {"BPSMPI_SERVERS": "s1", "BPSMPI_RETRY_S": "1"}
    server = serve(lab, env)[0]
    job = lab.job("h1:1,h2:1", "sums", "-t", "3", "1000000", env=env)
    job.pids()
    time.sleep(1)
    server.signal(signal.SIGTERM)
    server.output.wait("told to end")
    lab.job("h1:1,h2:1", "sums", env=env).check_native("cannot be used", lines=4)
    job.check("1 dedicated")
    if server.process.wait(10) != 0:
        raise CaseError(server.output.text())


CASES = [
    ("a server is killed, errors return, 2+1 ranks",
     die(signal.SIGKILL, "return", "h1:2,h2:1", 2)),
    ("a server is killed, errors return, 1+1+2 ranks",
     die(signal.SIGKILL, "return", "h1:1,h2:1,h3:2", 2, kill=2)),
    ("the only server is killed, a handler of the user's",
     die(signal.SIGKILL, "user", "h1:1,h2:2", 1)),
    ("a server is killed, errors are fatal",
     die(signal.SIGKILL, "fatal", "h1:2,h2:1", 2)),
    ("a server falls silent, errors return",
     die(signal.SIGSTOP, "return", "h1:2,h2:1", 2)),
    ("a server falls silent, errors are fatal",
     die(signal.SIGSTOP, "fatal", "h1:1,h2:1", 1)),
    ("a server dies while a rank is missing", silent_rank_at_server),
    ("servers and ranks that pause", pause),
    ("a job that is suspended, colocated", suspended("colocated")),
    ("a job that is suspended, two servers", suspended("two servers")),
    ("a server is unplugged, killed for the job", unplugged(0)),
    ("a server is unplugged for 2 s", unplugged(2)),
    ("C07 idle, and a late rank of another box",
     late("colocated", "h1:2,h2:1", 2,
          "MPI_Allreduce number 1 of falling.* rank 2 on h2")),
    ("C07 idle, and a late rank of the same box",
     late("two servers", "h1:2,h2:1", 1, r"waited \d+ s for rank 1\b",
          "waited .* ranks 0-1 on h1")),
    ("C07 idle, and a late rank, in-box",
     late("in-box", "h1:3", 0, r"waited \d+ s for rank 0\b")),
    ("a rank that is stopped inside a call, in-box", stopped("in-box", "h1:3", 2, 0)),
    ("a rank that is stopped inside a call, two boxes",
     stopped("two servers", "h1:3,h2:1", 2, 1)),
    ("a rank that is stopped inside a call, memory nodes, in-box",
     stopped("in-box", "h1:4", 3, 0, nodes.two)),
    ("a rank that is stopped inside a call, memory nodes, two boxes",
     stopped("two servers", "h1:4,h2:1", 3, 1, nodes.two)),
    ("a late rank and BPSMPI_TIMEOUT_S=1", late_below_ping),
    ("a worker is killed, one server", worker("one server", "h1:2,h2:1", 1)),
    ("a worker is killed, colocated", worker("colocated", "h1:2,h2:1", 2)),
    ("a worker is killed, in-box", worker("in-box", "h1:3", 1)),
    ("two jobs at once, and a third that dies", two_jobs),
    ("a server is told to end", terminate),
]
