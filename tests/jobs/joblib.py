# SPDX-License-Identifier: BSD-3-Clause
"""What the drivers of jobs share: programs compiled, jobs run, counters read, TAP."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LAB = os.path.join(HERE, "..", "lab", "lab")
PYTHON = "/usr/bin/python3"
C_FLAGS = ("-std=gnu17 -D_GNU_SOURCE -O1 -Wall -Wextra -Wshadow -Wstrict-prototypes "
           "-Wmissing-prototypes -Wvla -Wwrite-strings -Wundef -Wformat=2 "
           "-Wpointer-arith -Wno-unused-parameter -pthread").split()
FORTRAN_FLAGS = "-O1 -w -fallow-argument-mismatch".split()
C, FORTRAN = "mpicc", "mpif90"
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_mpi_yield_when_idle": "1"}


class Build:
    """The build directory: the library, the server, and the programs of the tests."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        self.library = self.at("interpose", "libbytepsmpi.so")
        self.server = self.at("tools", "bpsmpi-server")

    def at(self, *parts):
        return os.path.join(self.path, *parts)

    def check(self):
        """None, or why there is nothing to test."""
        for path in (self.library, self.server):
            if not os.path.exists(path):
                return "%s is not there: build first" % path
        for name in ("mpicc", "mpirun"):
            if not shutil.which(name):
                return "no %s: tools/bootstrap installs it" % name
        return None

    def compile(self, folder, programs):
        """Compile {name: (compiler, source, flag...)} into a folder; its path.

        Two at a time, and only what is older than its sources.
        """
        folder = self.at("test-programs", folder)
        os.makedirs(folder, exist_ok=True)
        running = []
        for name, (compiler, *words) in programs.items():
            sources = [x for x in words if os.path.exists(x)]
            headers = [os.path.join(HERE, "job.h"), os.path.join(HERE, "job.c")]
            output = os.path.join(folder, name)
            if os.path.exists(output) and all(
                    os.path.getmtime(x) < os.path.getmtime(output)
                    for x in sources + headers):
                continue
            flags = {C: C_FLAGS, FORTRAN: FORTRAN_FLAGS}.get(compiler, [])
            running.append(subprocess.Popen([compiler, *flags, "-o", output, *words]))
            if len(running) > 1:
                running[-2].wait()
        if any([process.wait() for process in running]):
            raise SystemExit("the test programs do not compile")
        return folder


class Tap:
    """Counts results, and prints them as TAP."""

    def __init__(self):
        self.count = self.failed = 0

    def report(self, text, trouble=None, output="", skip=None):
        self.count += 1
        print("%s %d - %s%s" % ("not ok" if trouble else "ok", self.count, text,
                                " # SKIP " + skip if skip else ""))
        if trouble:
            self.failed += 1
            lines = output.splitlines()
            for line in [trouble, *lines[:20], *lines[20:][-40:]]:
                print("#   " + line)
        sys.stdout.flush()

    def end(self):
        print("1..%d" % self.count)
        return 1 if self.failed else 0


def run(words, env, cwd, timeout):
    """(exit status, or None when it had to be killed; what it wrote).

    In a process group of its own, but not in a session: where the kernel shares CPUs out
    by session (autogroup), ranks that yield would not yield to the servers.
    """
    process = subprocess.Popen(
        words, env=env, cwd=cwd, text=True, errors="replace", process_group=0,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    late = []

    def stop():
        late.append(True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(5)
            os.killpg(process.pid, signal.SIGKILL)
    timer = threading.Timer(timeout, stop)
    timer.start()
    try:
        output = process.communicate()[0]
    except BaseException:
        stop()
        raise
    finally:
        timer.cancel()
    return None if late else process.returncode, output


def lab_up(name, hosts, servers):
    """(exit status, what it said)."""
    done = subprocess.run([LAB, "up", str(hosts), "--extra-servers", str(servers),
                           "--name", name], text=True, capture_output=True)
    return done.returncode, done.stderr.strip()


def lab_down(name):
    subprocess.run([LAB, "down", name])


def parse_counters(words):
    """'taken=2/800 MB/s=1.5 passed=1 small=1/4' as {'taken': (2, 800), 'small': (1, 4)}."""
    found = {}
    for word in words:
        match = re.fullmatch(r"([a-z0-9-]+)=(\d+)/(\d+)", word)
        if match and int(match[2]):
            found[match[1]] = (int(match[2]), int(match[3]))
    return found


def parse_output(text):
    """({(rank, coll): expected}, {(rank, coll): counted}) from the lines of a job."""
    expected, counted = {}, {}
    for line in text.splitlines():
        match = re.match(r"expect r(\d+) (MPI_\w+)(.*)", line)
        if match:
            expected[int(match[1]), match[2]] = parse_counters(match[3].split())
        match = re.match(r"bpsmpi \S+ r(\d+) stats: (MPI_\w+) (.*)", line)
        if match:
            counted[int(match[1]), match[2]] = parse_counters(match[3].split())
    return expected, counted


def compare_counters(ranks, expected, counted):
    """None, or how they differ."""
    said = {rank for rank, coll in expected}
    if said != set(range(ranks)):
        return "only ranks %s said what they expect" % sorted(said)
    for key, want in sorted(expected.items()):
        if key not in counted:
            return "rank %d printed no counters of %s" % key
        if counted[key] != want:
            return "rank %d, %s: counted %s, expected %s" % (*key, counted[key], want)
    return None


def our_lines(text):
    """The library's lines, but for statistics and its greeting."""
    return [x for x in text.splitlines() if x.startswith("bpsmpi ") and
            " stats: " not in x and not re.search(r"bytepsmpi [\d.]+: \d+ ranks", x)]
