#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The doctor as a process: what it finds out about servers, variables, CPUs.

usage: test-doctor.py DOCTOR_HERE BPSMPI_SERVER [NAME...]

The servers are sockets of this test that behave in one way each, and a real one. Prints
TAP. With names, only those tests run.
"""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import check, run_all  # noqa: E402

DOCTOR, SERVER = sys.argv[1:3]
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("BPSMPI_", "BYTEPS_", "DMLC_"))}
HEADER = struct.Struct("<4sBBHIHHQQII")  # docs/protocol.md
HELLO, WELCOME, REFUSE, BYE = 1, 2, 3, 9
HELLO_BYTES = 14 << 10  # zeros from 116 on
CLOSED = "it closed the connection"


def findings(limit=15, prefix=(), **env):
    """{check: [text]} of what the doctor says, each text in one line."""
    process = subprocess.run([*prefix, DOCTOR], env={**ENV, **env}, text=True,
                             capture_output=True, timeout=limit)
    found = {}
    for block in re.split(r"^(?=\S)", process.stdout, flags=re.M):
        match = re.match(r"\S+, (\w+): (.*)", " ".join(block.split()))
        if match:
            found.setdefault(match[1], []).append(match[2])
    check(process.returncode == sum(map(len, found.values())),
          f"status {process.returncode}\n{process.stdout}{process.stderr}")
    # Of this program the loader says something, too, where LD_PRELOAD is wrong.
    check(re.sub(r"ERROR: ld\.so: .*\n", "", process.stderr) == "", process.stderr)
    return found


def message(kind, payload=b"", version=3):
    return HEADER.pack(b"TBPS", version, kind, HEADER.size, len(payload), 0, 0, 0, 0, 0,
                       0) + payload


def take(peer, n):
    got = b""
    while len(got) < n:
        part = peer.recv(n - len(got))
        if not part:
            break
        got += part
    return got


class Fake:
    """A server at a port of its own; what it was sent is kept."""

    def __init__(self, behave, addr="127.0.0.1", port=0):
        self.socket = socket.create_server((addr, port))
        self.port = self.socket.getsockname()[1]
        self.name = "%s:%d" % (addr, self.port)
        self.got = b""
        self.behave = behave
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            peer, _ = self.socket.accept()
            with peer:
                peer.settimeout(10)
                self.behave(self, peer)


def answer(*parts, pause=0.0):
    """Reads a HELLO, and then says this."""
    def behave(fake, peer):
        fake.got = take(peer, HEADER.size + HELLO_BYTES)
        for part in parts:
            peer.sendall(part)
            time.sleep(pause)
        fake.got += take(peer, 1 << 16)
    return behave


def hello(version):
    return struct.pack("<16sIIIII16s64s", b"", 0, 1, 8, 1024, 0, version, b"away")


def version_here():
    said = subprocess.run([SERVER, "--version"], text=True, capture_output=True).stdout
    return said.split()[1].encode()


def said_of(behave):
    """What is found about a server that behaves so, and what that one heard."""
    fake = Fake(behave)
    found = findings(BPSMPI_SERVERS=fake.name).get("servers", [])
    fake.thread.join(15)
    check(all(x.startswith(fake.name + ": ") for x in found), found)
    return found, fake.got


def one(behave, *parts):
    found, got = said_of(behave)
    check(len(found) == 1 and all(x in found[0] for x in parts), found)
    return got


def test_a_welcome_is_fine_and_ended_by_bye():
    found, got = said_of(answer(message(WELCOME, hello(version_here()))))
    check(found == [], found)
    header = HEADER.unpack_from(got)
    check(header[:5] == (b"TBPS", 3, HELLO, HEADER.size, HELLO_BYTES), header)
    job, peer, n_peers, n_slots, slot_bytes = struct.unpack_from("<16sIIII", got,
                                                                 HEADER.size)
    check((peer, n_peers, n_slots) == (0, 1, 1) and slot_bytes <= 4096, got)
    check(job != bytes(16), got)
    rest = got[HEADER.size + HELLO_BYTES:]
    check(len(rest) == HEADER.size and HEADER.unpack(rest)[:3] == (b"TBPS", 3, BYE), rest)


def test_bytes_may_come_one_by_one():
    text = message(WELCOME, hello(version_here()))
    found, _ = said_of(answer(*(text[i:i + 1] for i in range(len(text))), pause=0.002))
    check(found == [], found)


def test_another_version_of_the_software():
    one(answer(message(WELCOME, hello(b"0.0.7"))), "another version", ": 0.0.7 on away")


def test_another_protocol():
    one(answer(message(REFUSE, b"go away", version=7)), "another version", "protocol 7")


def test_a_refusal_is_shown_without_its_control_characters():
    one(answer(message(REFUSE, b"too \x1bmuch")), "takes no more jobs: too .much")


def test_other_programs():
    one(answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not a bpsmpi-server",
        "it says 'HTTP/1.1 400 Bad Request'"[:24])
    one(answer(b"\x00\x01\x02\xff\x1b"), "not a bpsmpi-server", "it says '.....'")
    one(lambda fake, peer: peer.sendall(b"SSH-2.0-x\r\n"), "not a bpsmpi-server")
    one(lambda fake, peer: take(peer, HEADER.size + HELLO_BYTES), CLOSED)


def test_messages_that_make_no_sense():
    bad = HEADER.pack(b"TBPS", 3, WELCOME, HEADER.size, 1 << 30, 0, 0, 0, 0, 0, 0)
    one(answer(bad), "not a bpsmpi-server")
    one(answer(message(WELCOME, b"short")), "not a bpsmpi-server")
    one(answer(message(5, b"x" * 2000)), "not a bpsmpi-server")


def test_silence_is_told_after_two_seconds():
    start = time.monotonic()
    one(answer(b"TBPS"), "takes connections, then nothing comes")
    check(1.5 < time.monotonic() - start < 8, time.monotonic() - start)


def test_silent_ones_are_waited_for_together():
    fakes = [Fake(answer())]
    fakes += [Fake(answer(), "127.0.0.%d" % i, fakes[0].port) for i in range(2, 21)]
    start = time.monotonic()
    found = findings(BPSMPI_SERVERS=",".join(x.name for x in fakes))["servers"]
    check(time.monotonic() - start < 8, time.monotonic() - start)
    check(len(found) == 1 and " and 12 more: " in found[0], found)


def test_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        name = "127.0.0.1:%d" % taken.getsockname()[1]
        found = findings(BPSMPI_SERVERS=name)["servers"]
    check(len(found) == 1 and found[0].startswith(name + ": connection refused"), found)


def test_no_such_name():
    found = findings(50, BPSMPI_SERVERS="no-such-host.invalid")["servers"]
    check(len(found) == 1 and "no-such-host.invalid:7000: no address is known" in found[0],
          found)


def test_a_list_that_cannot_be_read():
    found = findings(BPSMPI_SERVERS="a[3-1]")["servers"]
    check(len(found) == 1 and found[0].startswith("BPSMPI_SERVERS: "), found)


def test_variables():
    found = findings(BPSMPI_SERVER="s1", BPSMPI_PORT="99999")
    texts = sorted(found["variables"])
    check(len(texts) == 2 and "servers" not in found, found)
    check(texts[0].startswith("BPSMPI_PORT: '99999' is not a number"), texts)
    check(texts[1].startswith("BPSMPI_SERVER is not a variable of ours"), texts)


def test_values_that_engines_read():
    for name, value, why in (("BPSMPI_BANDWIDTH", "junk", "'junk' is not a rate"),
                             ("BPSMPI_BANDWIDTH", "h1=1Gbit,h1=2Gbit", "h1"),
                             ("BPSMPI_CPUS", "4000", "none of the CPUs '4000' is among"),
                             ("BPSMPI_CPUS", "3-x", "3-x")):
        found = findings(**{name: value})["variables"]
        check(len(found) == 1 and found[0].startswith(name + ": ") and why in found[0] and
              "jobs of several hosts run without" in found[0], found)
    cpu = str(min(os.sched_getaffinity(0)))
    check("variables" not in findings(BPSMPI_BANDWIDTH="h1=1Gbit,*=2Gbit", BPSMPI_CPUS=cpu))


def test_an_interface_that_is_none():
    found = findings(BPSMPI_INTERFACE="nix7")["interface"]
    check(len(found) == 1 and found[0].startswith(
        "BPSMPI_INTERFACE: no usable network interface is 'nix7'; there "), found)
    check("interface" not in findings(BPSMPI_INTERFACE="lo"))


def test_entries_of_ld_preload():
    """What the loader takes is fine, and what it leaves out is found."""
    libc = next(x.split()[-1] for x in open("/proc/self/maps", encoding="utf-8")
                if "/libc.so" in x or "/libc-" in x)
    check("preload" not in findings(LD_PRELOAD="libc.so.6 :" + libc))
    other = bytearray(open(libc, "rb").read(4096))
    other[18] ^= 0x80  # the processor
    with tempfile.TemporaryDirectory() as folder:
        def put(name, content):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
            return os.path.join(folder, name)

        wrong = ((folder + "/none.so", "there is no such file"),
                 (put("text.so", b"hello\n"), "it is no library"),
                 (put("other.so", bytes(other)), "it is built for another processor"),
                 ("no-such-name.so", "the loader finds none of that name"))
        for name, why in wrong:
            found = findings(LD_PRELOAD=name)["preload"]
            check(len(found) == 1 and found[0].startswith("LD_PRELOAD names %s: " % name)
                  and why in found[0] and "export LD_PRELOAD=" in found[0], found)
        found = findings(LD_PRELOAD=":".join(x[0] for x in wrong))["preload"]
        check(len(found) == len(wrong), found)
        check("preload" not in findings(LD_PRELOAD="$ORIGIN/none.so"))


def test_a_preloaded_library_of_ours():
    """Its version is in a note; 9.9.9 is none of this program's."""
    source = r'''
        static const struct { unsigned owner, text, type; char name[12], version[8]; }
        note __attribute__((section(".note.bytepsmpi"), used, aligned(4))) =
                { 10, 6, 1, "bytepsmpi", "%s" };'''
    if not shutil.which("cc"):
        return
    with tempfile.TemporaryDirectory() as folder:
        library = folder + "/libbytepsmpi.so"
        for version, wanted in (("9.9.9", 1), (version_here().decode(), 0)):
            subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "-"], check=True,
                           input=source % version, text=True)
            found = findings(LD_PRELOAD=library).get("preload", [])
            check(len(found) == wanted and
                  all(library + ", which is bytepsmpi 9.9.9" in x for x in found), found)


def test_cpus_that_are_not_allowed():
    cpu = min(os.sched_getaffinity(0))
    n = os.sysconf("SC_NPROCESSORS_ONLN")
    found = findings(prefix=("taskset", "-c", str(cpu))).get("cpus", [])
    if n == 1:
        check(found == [], found)
    else:
        check(len(found) == 1 and found[0].startswith("1 of %d CPUs usable" % n), found)


def test_a_server_of_ours_is_fine_and_keeps_nothing():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([SERVER, "--port", str(port), "--bind", "127.0.0.1",
                           "--reducers", "1"], env=ENV, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, text=True) as server:
        for line in server.stderr:
            if "listening" in line or "cannot" in line:
                break
        for _ in range(3):
            found = findings(BPSMPI_SERVERS="127.0.0.1:%d" % port)
            check("servers" not in found, found)
        server.terminate()
        rest = server.stderr.read()
    # It may be told to end before it has read the last goodbye.
    lines = [x for x in rest.splitlines() if "told to end: waiting" not in x]
    check(len(lines) == 1 and " ended: 3 jobs, 3 members, 0 pushes" in lines[0], rest)


def main():
    return run_all(globals(), sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
