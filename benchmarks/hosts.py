# SPDX-License-Identifier: BSD-3-Clause
"""The lab as the benchmarks use it: emulated hosts, servers on them, jobs."""

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
LAB = os.path.join(HERE, "..", "tests", "lab", "lab")
PORT = 7000


class CompareError(Exception):
    """What the user is told; the command ends with the status it carries."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def rate_bits(text):
    """'100mbit' as bits a second."""
    if text in ("unlimited", "none"):
        return math.inf
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(k|m|g)bit", text)
    if not found or float(found[1]) == 0:
        raise argparse.ArgumentTypeError("%r: want e.g. 100mbit, or unlimited" % text)
    return float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2]]


def rate(text):
    """For argparse: a rate, left as text."""
    rate_bits(text)
    return text


def host_rates(text):
    """For argparse: 'h7=50mbit,s4=50mbit' as a dictionary."""
    pairs = [x.split("=", 1) for x in text.split(",")]
    if any(len(x) != 2 for x in pairs):
        raise argparse.ArgumentTypeError("%r: want HOST=RATE,HOST=RATE" % text)
    return {name: rate(value) for name, value in pairs}


class LabOfHosts:
    """The emulated hosts; a context manager, so that they go away in any case.

    From args: hosts and servers (how many), rate, host_rate, per_connection, queue, cc,
    nics.
    """

    def __init__(self, args):
        self.args = args
        self.name = "bench%d" % os.getpid()
        self.nics = getattr(args, "nics", 1)
        self.hosts = ["h%d" % (i + 1) for i in range(args.hosts)]
        self.servers = ["s%d" % (i + 1) for i in range(args.servers)]

    def lab(self, command, *words):
        return [LAB, command, "--name", self.name, *words]

    def __enter__(self):
        args = self.args
        rates = ["--host-rate=" + ",".join("%s=%s" % x for x in args.host_rate.items())
                 ] if args.host_rate else []
        bound = getattr(args, "per_connection", None)
        rates += ["--per-connection", bound] if bound else []
        rates += ["--nics", str(self.nics)]
        up = subprocess.run(self.lab(
            "up", str(args.hosts), "--extra-servers", str(args.servers),
            "--rate", args.rate, "--queue", args.queue, "--cc", args.cc, *rates))
        if up.returncode != 0:
            raise CompareError("no emulated hosts", up.returncode)
        return self

    def __exit__(self, *_):
        subprocess.run([LAB, "down", self.name], check=False)

    def start(self, host, *words, **keywords):
        """Start a command on a host. Its process is the command's own."""
        return subprocess.Popen(self.lab("exec", host, "--", *words), **keywords)

    def rate(self, host):
        return rate_bits(self.args.host_rate.get(host, self.args.rate))

    def goodputs(self):
        """Bytes a second of every host and server, by name: what one TCP stream carries,
        measured once a rate, against a link that is no slower, for each of its cards. The
        fastest host may be alone at its rate: then in proportion to the next slower one.
        """
        names = self.hosts + self.servers
        known = {}
        for bits in sorted({self.rate(x) for x in names}):
            one = next(x for x in names if self.rate(x) == bits)
            other = [x for x in names if self.rate(x) >= bits and x != one]
            if other:
                known[bits] = self.stream(one, other[0])
            else:
                slower = max(known)
                known[bits] = known[slower] * bits / slower
        return {x: self.nics * known[self.rate(x)] for x in names}

    def stream(self, sender, receiver):
        """Bytes a second of one TCP stream."""
        with self.start(receiver, "iperf3", "-s", "-1",
                        stdout=subprocess.DEVNULL) as server:
            wait_for_port(server, 5201)
            client = self.start(sender, "iperf3", "-c", receiver, "-t", "4", "-O", "1",
                                "-J", stdout=subprocess.PIPE, text=True)
            answer = json.loads(client.communicate(timeout=60)[0])
        if "end" not in answer:
            raise CompareError("iperf3: %s" % answer.get("error", "no result"))
        return answer["end"]["sum_received"]["bits_per_second"] / 8

    def forget_metrics(self):
        """What the kernel remembers of a peer must not pass from one job to the next."""
        for host in self.hosts + self.servers:
            self.start(host, "ip", "tcp_metrics", "flush",
                       stderr=subprocess.DEVNULL).wait()

    def segments(self):
        """TCP segments (sent again, sent for the first time) by all hosts and servers."""
        rows = [line.split() for line in self.ask("stat").splitlines()[1:]]
        return sum(int(x[1]) for x in rows), sum(int(x[2]) for x in rows)

    def set_rate(self, host, text):
        """Change a host's rate while it runs."""
        self.ask("set", host, "--rate", text)

    def ask(self, command, *words):
        """What a command of the lab prints."""
        done = subprocess.run(self.lab(command, *words), text=True, capture_output=True)
        if done.returncode != 0:
            raise CompareError("lab %s: %s" % (command, done.stderr.strip()))
        return done.stdout


def wait_for_port(process, port, seconds=10):
    """Wait until a process's network namespace has a listener on the port."""
    wanted = re.compile(r":%04X [0-9A-F]+:0000 0A " % port)
    for _ in range(int(seconds / 0.05)):
        if process.poll() is not None:
            raise CompareError("ended with status %d" % process.returncode)
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                with open("/proc/%d/net/%s" % (process.pid, table)) as file:
                    if wanted.search(file.read()):
                        return
        time.sleep(0.05)
    raise CompareError("nothing listens on port %d after %d s" % (port, seconds))


class Servers:
    """The summation servers, for as long as the benchmark runs.

    words: options of the program; before: a command that runs it, such as meter.
    """

    def __init__(self, lab, program, words, before=()):
        self.lab, self.words = lab, [*before, program, "--port", str(PORT), *words]
        self.processes = []
        self.log = tempfile.TemporaryFile(mode="w+")

    def __enter__(self):
        try:
            for host in self.lab.servers:
                self.processes.append(self.lab.start(
                    host, *self.words, stdout=self.log, stderr=self.log,
                    stdin=subprocess.DEVNULL))
            for process in self.processes:
                wait_for_port(process, PORT)
        except CompareError as error:
            self.__exit__()
            raise CompareError("summation servers: %s\n%s"
                               % (error, self.said())) from None
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()

    def said(self):
        self.log.seek(0)
        return "".join(self.log.readlines()[-20:])

    def check(self):
        for host, process in zip(self.lab.servers, self.processes):
            if process.poll() is not None:
                raise CompareError("the server on %s has ended with status %d\n%s"
                                   % (host, process.returncode, self.said()))


def run_limited(words, seconds):
    """(status, what it printed); the status is 'no end in ... s' when it was stopped."""
    with subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            return "no end in %d s" % seconds, process.communicate()[0]
        except BaseException:
            process.terminate()
            raise
        return process.returncode, said
