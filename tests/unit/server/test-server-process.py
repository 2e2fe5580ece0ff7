#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-server as a process: how it starts, ends, and bears what comes to its port.

usage: test-server-process.py BPSMPI_SERVER PUSHLOOP [NAME...]

Prints TAP. With names, only those tests run.
"""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import check, run_all  # noqa: E402

SERVER, PUSHLOOP = sys.argv[1:3]
HDR_BYTES, PUSH_HDR_BYTES = 40, 68
HELLO, WELCOME, REFUSE, PUSH, PING, BYE = 1, 2, 3, 4, 7, 9
ENV = {k: v for k, v in os.environ.items() if not k.startswith("BPSMPI_")}


class Server:
    """A running server, and what it has written so far."""

    def __init__(self, *args, env=None, port=0, bind="127.0.0.1"):
        self.log = tempfile.TemporaryFile()
        command = [SERVER, "--port", str(port)]
        if bind and "--bind" not in args:
            command += ["--bind", bind]
        self.process = subprocess.Popen(
            command + list(args), stderr=self.log, stdin=subprocess.DEVNULL,
            env={**ENV, **(env or {})})
        self.pid = self.process.pid
        self.port = int(self.wait_for(r"listening on \S+:(\d+)")[1])

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def wait_for(self, pattern, seconds=5):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.text())
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"no '{pattern}' in: {self.text()}")

    def lines(self, pattern):
        return [line for line in self.text().splitlines() if re.search(pattern, line)]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def status(self, name):
        with open(f"/proc/{self.pid}/status") as file:
            return re.search(rf"^{name}:\s*(\S+)", file.read(), re.M)[1]

    def rss_kib(self):
        return int(self.status("VmRSS"))

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_ticks(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def end(self, number=signal.SIGTERM, seconds=5):
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextlib.contextmanager
def server(*args, **kwargs):
    started = Server(*args, **kwargs)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        started.log.close()


def job(server_, seconds, members=3, max_bytes=400000):
    return subprocess.Popen(
        [PUSHLOOP, str(server_.port), str(members), str(seconds), str(max_bytes)],
        stdout=subprocess.PIPE, text=True, env=ENV)


def check_job(process, seconds=60):
    output = process.communicate(timeout=seconds)[0]
    check(process.returncode == 0 and output.startswith("ok: "), output)
    return int(output.split()[1])


def header(kind, payload_bytes=0, version=3, op_bytes=0, slot=0, n_members=1):
    n_bytes = PUSH_HDR_BYTES if kind == PUSH else HDR_BYTES
    fields = struct.pack("<IBBHIHHQQIIIHHQ", 0x53504254, version, kind, n_bytes,
                         payload_bytes, slot, 0, 1, 0, 0, 0, 1, n_members, 0, op_bytes)
    return fields.ljust(n_bytes, b"\0")[:n_bytes]


def hello(identity, rank=0, n_peers=2, n_slots=2, slot_bytes=1024, connection=0,
          fill=0):
    payload = struct.pack("<16sIIIII16s64s", identity, rank, n_peers, n_slots, slot_bytes,
                          connection, b"test", b"testhost") + bytes(fill)
    return header(HELLO, len(payload)) + payload


def receive(connection):
    """One message: its type and payload."""
    head = connection.recv(HDR_BYTES, socket.MSG_WAITALL)
    check(len(head) == HDR_BYTES, f"only {len(head)} bytes of a header came")
    kind, n_bytes = head[5], struct.unpack_from("<I", head, 8)[0]
    return kind, connection.recv(n_bytes, socket.MSG_WAITALL) if n_bytes else b""


def is_closed(connection, seconds):
    """Whether the server ends the connection in that time."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def run(*args, env=None, status=0, seconds=2):
    """Run the server where it is expected to end at once; returns its output."""
    start = time.monotonic()
    result = subprocess.run([SERVER, *args], capture_output=True, text=True, timeout=10,
                            env={**ENV, **(env or {})})
    output = result.stdout + result.stderr
    check(result.returncode == status, f"{args}: status {result.returncode}: {output}")
    check(time.monotonic() - start < seconds, f"{args}: took too long")
    return output


def test_usage():
    check("--port" in run("--help"))
    check(re.match(r"bpsmpi-server \d", run("--version")))
    for args in (["--nonsense"], ["word"], ["--loops", "0"], ["--loops", "65"],
                 ["--port", "65536"], ["--port", "-1"], ["--port", "7x"],
                 ["--memory", "much"], ["--max-connections", "0"], ["--grace", "-1"],
                 ["--log", "loud"], ["--cpus"], ["--lo=2"]):
        output = run(*args, status=2)
        check(len(output.splitlines()) == 2, output)


def test_who_is_wrong_is_called_as_the_user_did():
    """Options that are variables too; a good option makes up for a wrong variable."""
    long = "x" * 300
    for option, name, wrong, good in (
            ("--loops", "BPSMPI_LOOPS", "0", "1"),
            ("--reducers", "BPSMPI_REDUCERS", "257", "1"),
            ("--memory", "BPSMPI_SERVER_MEMORY_BYTES", "1K", "1M"),
            ("--log", "BPSMPI_LOG", "loud", "info"),
            ("--cpus", "BPSMPI_CPUS", "3-1", str(min(os.sched_getaffinity(0)))),
            ("--cpus", "BPSMPI_CPUS", long, str(min(os.sched_getaffinity(0)))),
            ("--bind", "BPSMPI_INTERFACE", long, "127.0.0.1")):
        for args, env, said in (([option, wrong], {}, option),
                                ([option + "=" + wrong], {name: good}, option),
                                ([], {name: wrong}, name)):
            lines = run(*args, env=env, status=2).splitlines()
            check(len(lines) == 2 and f": {said}: '{wrong[:60]}" in lines[0], lines)
            check((name if said == option else option) not in lines[0], lines)
        with server(option, good, env={name: wrong}) as s:
            check(s.end() == 0)
    for option in ("--port", "--bind", "--loops", "--reducers", "--cpus", "--memory",
                   "--max-connections", "--grace", "--log"):
        lines = run(option + "=", status=2).splitlines()
        check(len(lines) == 2 and
              lines[0].endswith(f": {option}: what stands behind it is empty"), lines)
    lines = run("-b", long, status=2).splitlines()
    check(": --bind: '" in lines[0], lines)


def test_output_that_cannot_be_written():
    for option in ("--help", "--version"):
        with open("/dev/full", "w") as full:
            result = subprocess.run([SERVER, option], stdout=full, stderr=subprocess.PIPE,
                                    text=True, env=ENV, timeout=10)
        check(result.returncode == 1 and result.stderr ==
              "bpsmpi-server: cannot write the output: No space left on device\n", result)


def test_environment():
    env = {"BPSMPI_LOOPS": "3", "BPSMPI_REDUCERS": "2", "BPSMPI_INTERFACE": "lo",
           "BPSMPI_SERVER_MEMORY_BYTES": "64M"}
    with server("--bind", "127.0.0.1", "--loo", "2", env=env) as s:
        check(s.lines(r"listening on 127.0.0.1:\d+, 2 loops, 2 reducers, "
                      r"kernels \w+, memory bound 64 MiB$"), s.text())
        check(s.end() == 0)


def test_cannot_listen():
    output = run("--bind", "203.0.113.9", "--port", "7123", status=1)
    check(len(output.splitlines()) == 1 and "203.0.113.9" in output and "7123" in output,
          output)
    output = run("--bind", "nosuch0", status=1)
    check(len(output.splitlines()) == 1 and "nosuch0" in output and "lo" in output,
          output)
    output = run("--cpus", "8000", status=1)
    check(len(output.splitlines()) == 1 and "8000" in output, output)


def test_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        for where in (["--bind", "127.0.0.1"], []):
            output = run("--port", str(port), *where, status=1)
            check(len(output.splitlines()) == 1 and f":{port}" in output and
                  "choose another port" in output, output)


def listening_addresses(s):
    """(address, port) in hexadecimal of every listening TCP socket of the process."""
    inodes = set()
    for fd in os.listdir(f"/proc/{s.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{s.pid}/fd/{fd}"))
            if found:
                inodes.add(found[1])
    addresses = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{s.pid}/net/{name}") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        addresses += [row[1].split(":")[0] for row in rows
                      if row[3] == "0A" and row[9] in inodes]
    return sorted(addresses)


def test_addresses():
    with server("--bind", "127.0.0.1") as s:
        check(listening_addresses(s) == ["0100007F"], listening_addresses(s))
    with server("--bind", "127.0.0.0/8") as s:
        check(listening_addresses(s) == ["0100007F"], listening_addresses(s))
    with server(bind=None) as s:
        found = listening_addresses(s)
        check("00000000" in found, found)
        if len(found) > 1:
            with socket.create_connection(("::1", s.port), timeout=5) as connection:
                connection.sendall(hello(b"six"))
                check(receive(connection)[0] == WELCOME)


def test_threads():
    allowed = sorted(os.sched_getaffinity(0))
    with server("--loops", "2", "--reducers", "3", "--cpus", str(allowed[-1])) as s:
        names = []
        for task in os.listdir(f"/proc/{s.pid}/task"):
            with open(f"/proc/{s.pid}/task/{task}/comm") as file:
                name = file.read().strip()
            if name.startswith("bps-"):
                names.append(name)
                check(os.sched_getaffinity(int(task)) == {allowed[-1]}, name)
        check(sorted(names) == ["bps-loop-0", "bps-loop-1", "bps-sum-0", "bps-sum-1",
                                "bps-sum-2"], names)
        check_job(job(s, 0.3))
        time.sleep(0.2)
        before = s.cpu_ticks()
        time.sleep(1)
        check(s.cpu_ticks() - before <= 1, "it uses CPU time while it has nothing to do")
        check(s.end(signal.SIGINT) == 0)


def test_end():
    with server() as s:
        start = time.monotonic()
        check(s.end() == 0 and time.monotonic() - start < 1)
        check(s.lines("ended: 0 jobs"), s.text())
    # Jobs that are there may finish; nobody else is let in.
    with server() as s:
        process = job(s, 2)
        s.connect().close()
        time.sleep(0.5)
        s.process.terminate()
        s.wait_for("waiting at most 10 s for 1 job")
        with contextlib.suppress(ConnectionError):
            s.connect()
            raise AssertionError("a newcomer was let in")
        check_job(process)
        check(s.process.wait(3) == 0)
        check(s.lines(r"ended: 1 jobs, 3 members, [1-9]\d* pushes"), s.text())
    # Not for ever.
    with server("--grace", "1") as s:
        process = job(s, 8)
        time.sleep(0.5)
        start = time.monotonic()
        check(s.end(seconds=8) == 0)
        check(0.9 < time.monotonic() - start < 6)
        check(s.lines("cut off 1 job") and s.lines("ended: 1 jobs"), s.text())
        check("failed: " in process.communicate(timeout=20)[0])
    # A second signal is an order.
    with server() as s:
        process = job(s, 8)
        time.sleep(0.5)
        s.process.terminate()
        s.wait_for("waiting at most")
        start = time.monotonic()
        check(s.end() == 1 and time.monotonic() - start < 2)
        process.communicate(timeout=20)


def test_restart():
    with server("--loops", "2") as s:
        port = s.port
        process = job(s, 5)
        time.sleep(0.5)
        s.end(signal.SIGKILL)
        with server(port=port) as again:
            check(again.port == port)
            check("failed: " in process.communicate(timeout=20)[0])
            check_job(job(again, 0.3))


def test_max_connections():
    with server("--max-connections", "20", "--loops", "2") as s:
        before = s.n_descriptors()
        connections = [s.connect() for _ in range(60)]
        time.sleep(0.3)
        check(s.n_descriptors() - before <= 22, s.n_descriptors() - before)
        check(1 <= len(s.lines("too many connections")) <= 12, s.text())
        for connection in connections:
            connection.close()
        time.sleep(0.2)
        check(s.n_descriptors() == before)
        check_job(job(s, 0.3))


def strangers(s):
    """What does not speak the protocol is closed at once, with a line."""
    with s.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(is_closed(connection, 2), "HTTP was not closed")
    check(len(s.lines("GET / HTTP")) == 1, s.text())
    with s.connect() as connection, contextlib.suppress(ConnectionError):
        for _ in range(16):
            connection.sendall(os.urandom(65536))
    check(s.wait_for("(?s)not a bytepsmpi peer.*not a bytepsmpi peer"))
    with s.connect() as connection:
        connection.sendall(header(HELLO, version=77))
        check(receive(connection)[0] == REFUSE)
        check(is_closed(connection, 5))
    check(len(s.lines("speaks protocol 77, we speak 3")) == 1, s.text())
    with s.connect() as connection:
        connection.sendall(header(HELLO, 0xffffffff, op_bytes=1 << 63))
        check(is_closed(connection, 2))
    check(len(s.lines("its message 1 has no valid header")) == 1, s.text())
    with s.connect() as connection:
        connection.sendall(header(PUSH, 1024, op_bytes=1 << 63) + bytes(1024))
        check(is_closed(connection, 2), "a push before a hello was not closed")


def impostors(s):
    """Peers that speak the protocol and want what they must not have."""
    with s.connect() as first:
        first.sendall(hello(b"known"))
        check(receive(first)[0] == WELCOME)
        for wrong in (hello(b"known"), hello(b"known", 1, 3), hello(b"known", 5),
                      hello(b"other", n_peers=0), hello(b"other", slot_bytes=1),
                      hello(b"other", slot_bytes=1 << 30),
                      hello(b"other", connection=16)):
            with s.connect() as second:
                second.sendall(wrong)
                kind, text = receive(second)
                check(kind == REFUSE and len(text) > 10, (kind, text))
        check(len(s.lines("refused 127.0.0.1")) == 7, s.text())
        with s.connect() as second:
            second.sendall(hello(b"known", 1))
            check(receive(second)[0] == WELCOME)
            second.sendall(header(PUSH, 1024, slot=1000, op_bytes=1 << 63, n_members=2))
            check(is_closed(second, 2), "a push to a slot that is none was not closed")
        first.sendall(header(BYE))
        first.shutdown(socket.SHUT_WR)
        check(is_closed(first, 3))


def test_hostile():
    with server("--loops", "2") as s:
        check_job(job(s, 1))
        rss, n_descriptors = s.rss_kib(), s.n_descriptors()
        process = job(s, 14)
        half = s.connect()
        half.sendall(header(HELLO, 116)[:30])
        silent = s.connect()
        start = time.monotonic()
        strangers(s)
        impostors(s)
        for _ in range(1000):
            s.connect().close()
        time.sleep(0.5)
        check(s.rss_kib() - rss < 50 * 1024, f"{rss} -> {s.rss_kib()} KiB")
        check(time.monotonic() - start < 8, "the machine is too slow for this test")
        check(not is_closed(half, 0.1) and not is_closed(silent, 0.1))
        check(is_closed(half, 12) and is_closed(silent, 1))
        check(9.5 < time.monotonic() - start < 14)
        check(s.lines("no whole message in time"), s.text())
        before_n = len(s.text().splitlines())
        for _ in range(200):
            with s.connect() as connection, contextlib.suppress(ConnectionError):
                connection.sendall(b"SSH-2.0-x\r\n")
        time.sleep(0.5)
        check(len(s.text().splitlines()) - before_n <= 12 * 2, "too many lines")
        check_job(process)
        time.sleep(0.3)
        check(s.n_descriptors() == n_descriptors)
        check(s.end() == 0)


def test_memory_bound():
    with server("--memory", "1M") as s:
        with s.connect() as first, s.connect() as second:
            first.sendall(hello(b"a", n_slots=16, slot_bytes=16384))
            check(receive(first)[0] == WELCOME)
            second.sendall(hello(b"b", n_slots=16, slot_bytes=16384))
            kind, text = receive(second)
            check(kind == REFUSE and b"--memory" in text, (kind, text))
            first.sendall(header(BYE))
            first.shutdown(socket.SHUT_WR)
            check(is_closed(first, 3))
        with s.connect() as third:
            third.sendall(hello(b"c", n_slots=16, slot_bytes=16384))
            check(receive(third)[0] == WELCOME)


def test_a_welcome_is_as_long_as_the_hello():
    with server() as s:
        lengths = []
        for fill in (0, 1448, (14 << 10) - 116):
            with s.connect() as connection:
                connection.sendall(hello(b"c", fill=fill))
                kind, payload = receive(connection)
                check(kind == WELCOME and not any(payload[116 + 9 + 16 * 20:]), payload)
                lengths.append(len(payload))
        check(116 + 9 <= lengths[0] <= 116 + 9 + 16 * 20, lengths)
        check(lengths[1:] == [116 + 1448, 14 << 10], lengths)
        with s.connect() as connection:
            connection.sendall(hello(b"c", fill=(14 << 10) - 115))
            check(is_closed(connection, 2))


def main():
    return run_all(globals(), sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
