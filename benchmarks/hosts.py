# SPDX-License-Identifier: BSD-3-Clause
"""The lab as benchmarks/compare uses it: emulated hosts, servers on them, jobs."""

import contextlib
import json
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


class LabOfHosts:
    """The emulated hosts; a context manager, so that they go away in any case."""

    def __init__(self, args):
        self.args = args
        self.name = "compare%d" % os.getpid()
        self.hosts = ["h%d" % (i + 1) for i in range(args.hosts)]
        self.servers = ["s%d" % (i + 1) for i in range(args.servers)]

    def lab(self, command, *words):
        return [LAB, command, "--name", self.name, *words]

    def __enter__(self):
        args = self.args
        up = subprocess.run(self.lab(
            "up", str(args.hosts), "--extra-servers", str(args.servers),
            "--rate", args.rate, "--queue", args.queue, "--cc", args.cc))
        if up.returncode != 0:
            raise CompareError("no emulated hosts", up.returncode)
        return self

    def __exit__(self, *_):
        subprocess.run([LAB, "down", self.name], check=False)

    def start(self, host, *words, **keywords):
        """Start a command on a host. Its process is the command's own."""
        return subprocess.Popen(self.lab("exec", host, "--", *words), **keywords)

    def goodput(self):
        """Bytes a second of one TCP stream between the first two hosts."""
        with self.start("h2", "iperf3", "-s", "-1", stdout=subprocess.DEVNULL) as server:
            wait_for_port(server, 5201)
            client = self.start("h1", "iperf3", "-c", "h2", "-t", "4", "-O", "1", "-J",
                                stdout=subprocess.PIPE, text=True)
            answer = json.loads(client.communicate(timeout=60)[0])
        if "end" not in answer:
            raise CompareError("iperf3: %s" % answer.get("error", "no result"))
        return answer["end"]["sum_received"]["bits_per_second"] / 8

    def forget_metrics(self):
        """What the kernel remembers of a peer must not pass from one job to the next."""
        for host in self.hosts + self.servers:
            self.start(host, "ip", "tcp_metrics", "flush",
                       stderr=subprocess.DEVNULL).wait()

    def retransmits(self):
        lines = subprocess.run(self.lab("stat"), text=True, capture_output=True,
                               check=True).stdout.splitlines()
        return sum(int(line.split()[1]) for line in lines[1:])


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
    """The summation servers, for as long as the comparison runs."""

    def __init__(self, lab, program, words):
        self.lab, self.program, self.words = lab, program, words
        self.processes = []
        self.log = tempfile.TemporaryFile(mode="w+")

    def __enter__(self):
        try:
            for host in self.lab.servers:
                self.processes.append(self.lab.start(
                    host, self.program, "--port", str(PORT), *self.words,
                    stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL))
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
