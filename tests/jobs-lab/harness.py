# SPDX-License-Identifier: BSD-3-Clause
"""What the cases are made of: a lab, servers and jobs in it, and a line of TAP a case."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
LAB = os.path.join(HERE, "..", "lab", "lab")
PROGRAMS = ("comms", "sums", "wait", "fail", "deadlock", "halves", "signals", "repro",
            "noinit")
JOB_LIMIT_S = 90
VERBOSE = "-v" in sys.argv[1:]  # show what the library said, for a look at its language
FLAGS = ("-O2 -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wstrict-prototypes "
         "-Wmissing-prototypes -Wvla -Wwrite-strings -Wformat=2").split()


class CaseError(Exception):
    """What was not as it has to be."""


class Skip(Exception):
    """Why a case cannot be tried here."""


class Output:
    """What a process says, line by line, as it comes."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self.news = threading.Condition()
        self.over = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.over = True
            self.news.notify_all()

    def text(self):
        with self.news:
            return "\n".join(self.lines)

    def find(self, pattern):
        """All lines in which the pattern is found, as match objects."""
        with self.news:
            found = [re.search(pattern, x) for x in self.lines]
        return [x for x in found if x]

    def wait(self, pattern, limit=40.0):
        """The first line with the pattern, waited for."""
        until = time.monotonic() + limit
        while True:
            with self.news:
                found = next((x for x in self.lines if re.search(pattern, x)), None)
                if found is not None:
                    return re.search(pattern, found)
                left = until - time.monotonic()
                if self.over or left <= 0:
                    break
                self.news.wait(left)
        raise CaseError("no line %r in %.0f s:\n%s" % (pattern, limit, self.text()))


class Server:
    """A bpsmpi-server on one of the lab's hosts."""

    def __init__(self, lab, host, *options, prefix=(), port=7000, wait=True):
        # The hosts share the machine's CPUs: a reducer that is bound to one would wait
        # long for others to leave it.
        words = [*prefix, lab.server, "--port", str(port), "--reducers", "1", *options]
        self.process = lab.popen("exec", host, *words)
        self.output = Output(self.process)
        self.host = host
        if wait:
            self.output.wait("listening on|cannot", 10)
        lab.servers.append(self)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def alive(self):
        return self.process.poll() is None

    def cpu(self):
        """Seconds of CPU of all threads."""
        total = 0
        for task in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/stat" % (self.pid, task)) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def rss(self):
        with open("/proc/%d/statm" % self.pid) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def stop(self, limit=15.0):
        """SIGTERM, then its exit status."""
        if self.alive():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return finish(self.process, limit)


def finish(process, limit):
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return -signal.SIGKILL


class Job:
    """An mpirun in the lab: hosts as h1:2,h2:1, a program and its arguments."""

    def __init__(self, lab, hosts, *words, env=None, mca=(), preload=True, prefix=(),
                 group=None):
        options = ["--mca", "osc", "pt2pt", *mca]
        settings = {"BPSMPI_STATS": "1", "BPSMPI_MODE": "always"}
        settings.update(env or {})
        if preload:
            options += ["-x", "LD_PRELOAD=" + lab.library]
        for key, value in settings.items():
            options += ["-x", "%s=%s" % (key, value)]
        self.hosts = hosts
        self.started = time.monotonic()
        self.process = lab.popen("run", "--hosts", hosts, "--", *options, *prefix,
                                 lab.program(words[0]), *words[1:], group=group)
        self.output = Output(self.process)
        self.size = sum(int(x.split(":")[1]) for x in hosts.split(","))
        lab.jobs.append(self)

    def wait(self, limit=JOB_LIMIT_S):
        """Its exit status; a job that hangs is ended and is an error."""
        left = limit - (time.monotonic() - self.started)
        try:
            self.status = self.process.wait(max(left, 0.01))
        except subprocess.TimeoutExpired:
            self.process.terminate()
            finish(self.process, 10)
            self.output.reader.join(5)
            raise CaseError("the job hung, %.0f s:\n%s" % (limit, self.said())) from None
        self.seconds = time.monotonic() - self.started
        self.output.reader.join(10)
        if VERBOSE:
            print("\n".join("#   " + x for x in [
                "%s, %.1f s" % (self.hosts, self.seconds), *self.ours()]))
        return self.status

    def said(self):
        return self.output.text()

    def ours(self):
        """The library's lines but for statistics and the one that says hello."""
        other = re.compile(r" stats: |bytepsmpi [\d.]+: \d+ ranks in ")
        return [x for x in self.said().split("\n")
                if x.startswith("bpsmpi ") and not other.search(x)]

    def pids(self):
        """Process numbers, by rank."""
        for rank in range(self.size):
            self.output.wait(r"^rank %d pid " % rank)
        return {int(x[1]): int(x[2]) for x in self.output.find(r"^rank (\d+) pid (\d+)")}

    def check(self, kind=None, quiet=True, limit=JOB_LIMIT_S):
        """All right, all that should be was taken, in this kind of job; or CaseError."""
        if self.wait(limit) != 0 or self.output.find("WRONG"):
            raise CaseError("status %d:\n%s" % (self.status, self.said()))
        if quiet and self.ours():
            raise CaseError("unexpected lines:\n%s" % "\n".join(self.ours()))
        if kind and not self.output.find(kind):
            raise CaseError("not a job with %r:\n%s" % (kind, self.said()))
        if kind:
            self.check_counters()
        return self

    def check_time(self, usual, more):
        """It took at most `more` seconds more than a job that nothing is wrong with, as
        far as a machine that is busy with other things can tell."""
        if self.seconds > 3 * usual.seconds + more:
            raise CaseError("it took %.1f s, else %.1f s" % (self.seconds, usual.seconds))

    def check_counters(self, taken=True):
        """On each rank the library took what the program says it should have."""
        done = self.output.find(r"^rank (\d+) done allreduce=(\d+) bcast=(\d+)")
        if len(done) != self.size:
            raise CaseError("not all ranks came to the end:\n%s" % self.said())
        for match in done:
            for name, wanted in (("Allreduce", match[2]), ("Bcast", match[3])):
                stat = r" r%s stats: MPI_%s taken=(\d+)/" % (match[1], name)
                found = self.output.find(stat)
                if len(found) != 1 or found[0][1] != (wanted if taken else "0"):
                    raise CaseError("rank %s: %s of MPI_%s should be taken:\n%s" % (
                        match[1], wanted if taken else "none", name, self.said()))

    def check_native(self, *patterns, lines=1, limit=JOB_LIMIT_S):
        """The job ran without us: right, status 0, so many lines, which say these."""
        if self.wait(limit) != 0 or self.output.find("WRONG"):
            raise CaseError("status %d:\n%s" % (self.status, self.said()))
        self.check_counters(taken=False)
        self.check_lines(*patterns, lines=lines)
        return self

    def check_lines(self, *patterns, lines):
        if len(self.ours()) > lines:
            raise CaseError("more than %d lines:\n%s" % (lines, "\n".join(self.ours())))
        for pattern in patterns:
            if not any(re.search(pattern, x) for x in self.ours()):
                raise CaseError("no line %r:\n%s" % (pattern, self.said()))


class Lab:
    """A lab that is up while the `with` lasts."""

    def __init__(self, build, folder, hosts, servers, *options):
        self.name = "jobs%d" % os.getpid()
        self.library = os.path.join(build, "interpose", "libbytepsmpi.so")
        self.server = os.path.join(build, "tools", "bpsmpi-server")
        self.folder = folder
        self.shape = [str(hosts), "--extra-servers", str(servers), *options]
        self.servers, self.jobs = [], []

    def __enter__(self):
        subprocess.run([LAB, "up", "--name", self.name, *self.shape], check=True)
        return self

    def __exit__(self, *_):
        self.clear()
        subprocess.run([LAB, "down", self.name], check=True)

    def program(self, name):
        return os.path.join(self.folder, name) if name in PROGRAMS else name

    def popen(self, command, *words, group=None):
        """A lab command; `group`: a control group for it and all that it starts."""
        enter = ["sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"', group]
        if command == "exec":
            words = (words[0], "--", *words[1:])
        return subprocess.Popen(
            [*(enter if group else ()), LAB, command, "--name", self.name, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace")

    def on(self, host, *words, check=True):
        """A command on a host, its output."""
        process = self.popen("exec", host, *words)
        said = process.communicate()[0]
        if check and process.returncode != 0:
            raise CaseError("%s on %s: %s" % (" ".join(words), host, said))
        return said

    def change(self, host, *words):
        """A host's link: --rate 100mbit, --rate none."""
        subprocess.run([LAB, "set", "--name", self.name, host, *words], check=True)

    def job(self, hosts, *words, **options):
        return Job(self, hosts, *words, **options)

    def serve(self, host, *options, **more):
        return Server(self, host, *options, **more)

    def clear(self):
        """End what a case left behind."""
        for job in self.jobs:
            if job.process.poll() is None:
                job.process.terminate()
                finish(job.process, 10)
        for server in self.servers:
            if server.alive():
                server.signal(signal.SIGCONT)
                server.process.kill()
                server.process.wait()
        self.jobs, self.servers = [], []


def compile_programs(folder):
    """The MPI programs, into the folder; two at a time."""
    common = os.path.join(folder, "job.o")
    subprocess.run(["mpicc", *FLAGS, "-c", "-o", common, os.path.join(HERE, "job.c")],
                   check=True)
    running = [subprocess.Popen(["mpicc", *FLAGS, "-o", os.path.join(folder, name),
                                 os.path.join(HERE, name + ".c"), common])
               for name in PROGRAMS]
    if any([x.wait() for x in running]):
        raise SystemExit("the test programs do not compile")


def shim(lab, name, source):
    """A library to preload that is made of this; its path."""
    path = os.path.join(lab.folder, name + ".so")
    subprocess.run(["mpicc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", path, "-x", "c", "-"],
                   input=source, text=True, check=True)
    return path


class Tap:
    """Counts cases and says how they went."""

    def __init__(self, wanted):
        self.wanted = re.compile(wanted)
        self.count = self.failed = 0

    def run(self, lab, name, case):
        if not self.wanted.search(name):
            return
        self.count += 1
        started = time.monotonic()
        try:
            case(lab)
            print("ok %d - %s (%.1f s)" % (self.count, name, time.monotonic() - started))
        except Skip as why:
            print("ok %d - %s # SKIP %s" % (self.count, name, why))
        except Exception as error:  # a case that broke is one that failed
            self.failed += 1
            what = str(error) if isinstance(error, CaseError) else traceback.format_exc()
            print("not ok %d - %s" % (self.count, name))
            print("\n".join("# " + x for x in what.split("\n")[:80]))
        finally:
            lab.clear()
        sys.stdout.flush()

    def skip(self, name, why):
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, name, why))

    def end(self):
        print("1..%d" % self.count)
        return 1 if self.failed else 0
