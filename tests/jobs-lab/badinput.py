# SPDX-License-Identifier: BSD-3-Clause
"""Wrong settings, servers that are none, strangers at the port: a line each, no harm."""

import time

from harness import CaseError, finish
from layouts import serve

PYTHON = "/usr/bin/python3"

# The first eight bytes of a message: magic, version, type, header bytes.
OTHER_VERSION = b"TBPS" + bytes([9, 1]) + (96).to_bytes(2, "little")
HALF_HELLO = b"TBPS" + bytes([3, 1]) + (40).to_bytes(2, "little") + bytes(20)
HUGE = b"TBPS" + bytes([3, 4]) + (68).to_bytes(2, "little") + b"\xff" * 60

LISTEN = """
import socket, sys
listener = socket.create_server(("", 7000))
print("ready", flush=True)
answer = bytes.fromhex(sys.argv[1])
held = []
while True:
    conn, _ = listener.accept()
    if answer:
        conn.recv(8)
        conn.sendall(answer)
    held.append(conn)
"""

# What strangers do at a port, and how many lines on standard input they want from it.
VISIT = """
import os, socket, sys, time
def visit(data, hold=0, wait=False):
    conn = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
    try:
        conn.sendall(data)
        conn.settimeout(hold or 5)
        while wait and conn.recv(65536):
            pass
    except OSError:
        pass
    return conn
start = time.monotonic()
half = visit(bytes.fromhex(sys.argv[3]))
visit(os.urandom(1 << 20))
visit(b"GET / HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n", wait=True)
visit(bytes.fromhex(sys.argv[4]), wait=True)
visit(bytes.fromhex(sys.argv[5]), wait=True)
for _ in range(1000):
    visit(b"").close()
half.settimeout(25)
try:
    while half.recv(100):
        pass
except ConnectionError:
    pass
print("half a hello was ended after %.1f s" % (time.monotonic() - start))
"""


def native(env, *patterns, lines=1, words=("sums",), hosts="h1:2,h2:1", limit=45):
    """These settings give a native job and so many lines, which say these things."""
    def case(lab):
        lab.job(hosts, *words, env=env).check_native(*patterns, lines=lines, limit=limit)
    return case


def unknown(lab):
    job = lab.job("h1:2,h2:1", "sums", env={"BPSMPI_TRESHOLD_BYTES": "1M"})
    job.check("colocated", quiet=False)
    job.check_lines("BPSMPI_TRESHOLD_BYTES.*BPSMPI_THRESHOLD_BYTES", lines=1)


def absent(lab):
    """No server: native after BPSMPI_RETRY_S."""
    env = {"BPSMPI_SERVERS": "s1", "BPSMPI_RETRY_S": "2"}
    job = lab.job("h1:2,h2:1", "sums", env=env)
    job.check_native("server s1:7000 cannot be used .*start bpsmpi-server", lines=1,
                     limit=30)
    if job.seconds < 2:
        raise CaseError("given up after %.1f s" % job.seconds)


def one_absent(lab):
    """Of two servers one: native, and the one that is there is let go in order."""
    server = lab.serve("s1")
    env = {"BPSMPI_SERVERS": "s[1-2]", "BPSMPI_RETRY_S": "1"}
    lab.job("h1:2,h2:1", "sums", env=env).check_native("server s2:7000 cannot", lines=3)
    if server.stop() != 0 or server.output.find("lost"):
        raise CaseError(server.output.text())


def impostor(answer, *patterns, limit=45):
    """Something else listens there; it gives this answer to eight bytes."""
    def case(lab):
        other = lab.popen("exec", "s1", PYTHON, "-c", LISTEN, answer.hex())
        try:
            other.stdout.readline()
            env = {"BPSMPI_SERVERS": "s1", "BPSMPI_TIMEOUT_S": "3"}
            lab.job("h1:2,h2:1", "sums", env=env).check_native(*patterns, lines=5,
                                                              limit=limit)
        finally:
            other.kill()
            finish(other, 5)
    return case


def missing_file(lab):
    """A list in a file: rank 0 reads it, its host alone has it."""
    serve(lab, {"BPSMPI_SERVERS": "s[1-2]"})
    lab.on("h1", "sh", "-c", "printf 's1:7000 # one\\ns2\\n' >/dev/shm/list")
    try:
        lab.job("h1:2,h2:1", "sums", env={"BPSMPI_SERVERS": "@/dev/shm/list"}
                ).check("2 dedicated ")
        lab.job("h2:1,h1:2", "sums", env={"BPSMPI_SERVERS": "@/dev/shm/list"}
                ).check_native("/dev/shm/list", lines=2)
    finally:
        lab.on("h1", "rm", "/dev/shm/list")


def rank_0_rules(lab):
    """Settings of other ranks do not count, not even wrong ones."""
    script = ("[ $OMPI_COMM_WORLD_RANK = 0 ] || export BPSMPI_THRESHOLD_BYTES=1G "
              "BPSMPI_SERVERS=nowhere BPSMPI_PARTITION_BYTES=64K BPSMPI_TIMEOUT_S=x; "
              "exec %s -n 10 1000 500000" % lab.program("sums"))
    job = lab.job("h1:2,h2:1", "sh", "-c", script, env={"BPSMPI_THRESHOLD_BYTES": "100"})
    job.check("colocated", quiet=False)
    job.check_lines(lines=0)


def lacking(rank, *patterns):
    """A rank without the library: nobody uses it."""
    def case(lab):
        script = "[ $OMPI_COMM_WORLD_RANK = %d ] && unset LD_PRELOAD; exec %s" % (
            rank, lab.program("sums"))
        env = {"BPSMPI_INIT_TIMEOUT_S": "2"}
        job = lab.job("h1:2,h2:1", "sh", "-c", script, env=env)
        if job.wait(45) != 0 or job.output.find("WRONG"):
            raise CaseError("status %d:\n%s" % (job.status, job.said()))
        if job.output.find("taken=[1-9]"):
            raise CaseError("a rank used it:\n" + job.said())
        job.check_lines(*patterns, lines=2)
    return case


def never(lab):
    """A program that never starts MPI, alone and with settings that are wrong."""
    for env in ({}, {"BPSMPI_SERVERS": "nowhere", "BPSMPI_TIMEOUT_S": "x"}):
        words = ["env", "LD_PRELOAD=" + lab.library, *("%s=%s" % x for x in env.items())]
        said = lab.on("h1", *words, lab.program("noinit"))
        if said != "never initialised: 0, MPI 3\n":
            raise CaseError("it says %r" % said)


def strangers(lab):
    """D13: noise, scans, other versions and half a hello at a server's port in a job."""
    server = lab.serve("s1")
    env = {"BPSMPI_SERVERS": "s1"}
    lab.job("h1:2,h2:1", "sums", env=env).check("1 dedicated")
    rss = server.rss()
    job = lab.job("h1:2,h2:1", "sums", "-t", "14", "-d", "1000000", env=env)
    job.pids()
    said = lab.on("h3", PYTHON, "-c", VISIT, "s1", "7000", HALF_HELLO.hex(),
                  OTHER_VERSION.hex(), HUGE.hex())
    took = float(said.split()[-2])
    job.check("1 dedicated", limit=60)
    if took > 25:
        raise CaseError(said)
    if server.rss() > rss + (50 << 20):
        raise CaseError("it grew from %d to %d bytes" % (rss, server.rss()))
    lines = [x for x in server.output.text().split("\n") if "listening" not in x]
    wanted = ("not a bytepsmpi peer", "GET / HTTP", "speaks protocol 9",
              "no valid header", "no whole message in time")
    for text in wanted:
        if not any(text in x for x in lines):
            raise CaseError("no line %r:\n%s" % (text, "\n".join(lines)))
    if len(lines) > 20:
        raise CaseError("%d lines:\n%s" % (len(lines), "\n".join(lines)))
    if server.stop() != 0:
        raise CaseError(server.output.text())


def strangers_at_leader(lab):
    """The same at the port of a server inside a rank."""
    job = lab.job("h1:2,h2:1", "sums", "-t", "13", "-d", "1000000",
                  env={"BPSMPI_PORT": "7100"})
    job.pids()
    time.sleep(0.5)
    lab.on("h3", PYTHON, "-c", VISIT, "h1", "7100", HALF_HELLO.hex(),
           OTHER_VERSION.hex(), HUGE.hex())
    job.check("colocated", quiet=False, limit=60)
    if len(job.ours()) > 20:
        raise CaseError("%d lines:\n%s" % (len(job.ours()), "\n".join(job.ours())))


def port_in_use(lab):
    """D04: the port is another's: status 1 in less than 2 s, with address and port."""
    first = lab.serve("s1")
    start = time.monotonic()
    second = lab.serve("s1")
    if finish(second.process, 5) != 1 or time.monotonic() - start > 2 or \
            not second.output.find(r"0\.0\.0\.0:7000.*in use"):
        raise CaseError(second.output.text())
    lab.job("h1:1,h2:1", "sums", env={"BPSMPI_SERVERS": "s1"}).check("1 dedicated")
    if first.stop() != 0:
        raise CaseError(first.output.text())


def leaders_port_in_use(lab):
    """BPSMPI_PORT is taken on one of the hosts."""
    other = lab.popen("exec", "h2", PYTHON, "-c", LISTEN, "")
    try:
        other.stdout.readline()
        lab.job("h1:2,h2:1", "sums", env={"BPSMPI_PORT": "7000"}).check_native(
            "7000.*in use", lines=2)
    finally:
        other.kill()
        finish(other, 5)


SILENT = b""
CASES = [
    ("an unknown variable", unknown),
    ("a value that is out of range",
     native({"BPSMPI_TIMEOUT_S": "0"}, "BPSMPI_TIMEOUT_S.*1", lines=2)),
    ("a value that is no number",
     native({"BPSMPI_PARTITION_BYTES": "many"}, "BPSMPI_PARTITION_BYTES", lines=2)),
    ("an empty host list", native({"BPSMPI_SERVERS": ","}, "BPSMPI_SERVERS", lines=2)),
    ("a host list that is wrong",
     native({"BPSMPI_SERVERS": "cpu[1-"}, "BPSMPI_SERVERS.*cpu", lines=2)),
    ("a host that does not resolve",
     native({"BPSMPI_SERVERS": "s1,nowhere.invalid"}, "nowhere.invalid", lines=3)),
    ("a file that is not there",
     native({"BPSMPI_SERVERS": "@/nowhere"}, "/nowhere", lines=2)),
    ("a list in a file of rank 0's host", missing_file),
    ("an interface that is not there", native(
        {"BPSMPI_INTERFACE": "nope"}, "BPSMPI_INTERFACE.*nope.*eth0 10.77", lines=1)),
    ("an interface that other hosts do not reach", native(
        {"BPSMPI_INTERFACE": "lo", "BPSMPI_INIT_TIMEOUT_S": "2"},
        "loopback alone.*BPSMPI_INTERFACE=10", lines=2)),
    ("rank 0's settings rule", rank_0_rules),
    ("a rank without the library", lacking(2, "not: 2.*mpirun -x LD_PRELOAD")),
    ("rank 0 without the library", lacking(0, "rank 0 does not.*mpirun -x LD_PRELOAD")),
    ("no server there", absent),
    ("one of two servers there", one_absent),
    ("a server of another version",
     impostor(OTHER_VERSION + bytes(88), "install the same")),
    ("an HTTP server there",
     impostor(b"HTTP/1.1 400 Bad", "s1:7000.*not a bpsmpi-server")),
    ("a server that says nothing", impostor(SILENT, "said nothing for 3 s")),
    ("MPI never initialised", never),
    ("D13 strangers at a server's port", strangers),
    ("D13 strangers at a leader's port", strangers_at_leader),
    ("D04 a server's port in use", port_in_use),
    ("D04 a leader's port in use", leaders_port_in_use),
]
