# SPDX-License-Identifier: BSD-3-Clause
"""A job in which one link changes its rate, and what its calls take before and after."""

import json
import statistics
import subprocess
import tempfile
import threading

import bounds
from comparison import calls_taken, job_command, library_env, program, progress
from hosts import CompareError, rate_bits

WARMUP = 3


class Watched:
    """A job whose calls are counted as they end."""

    def __init__(self, words, seconds):
        self.process = subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.timer = threading.Timer(seconds, self.process.terminate)
        self.said = []

    def __enter__(self):
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()

    def wait_for_call(self, number):
        """Read on until the call of that number has ended, or the job has."""
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("# call %d:" % number):
                return
        raise CompareError("the job ended before call %d\n%s"
                           % (number, "".join(self.said)[-4000:]))

    def wait(self):
        """(status, all that it printed)"""
        self.said += self.process.stdout
        return self.process.wait(), "".join(self.said)


def run(args, lab, goodputs):
    """Change the rate of args.slow to args.to after args.before calls, and look from
    args.settle calls later on at args.after calls. Returns a dictionary: times_s of all
    calls, changed_at (the first call that may have met the new rate), before_s and
    median_s (medians before and at the end), settled (their ratio), possible (the ratio
    that the links allow).
    """
    size = args.sizes[0]
    changed_at = WARMUP + args.before
    n_calls = changed_at + args.settle + args.after
    slower = rate_bits(args.to) / lab.rate(args.slow)
    then = {x: y * slower if x == args.slow else y for x, y in goodputs.items()}
    least = [bounds.allreduce(size, [x[h] for h in lab.hosts],
                              [x[s] for s in lab.servers]) for x in (goodputs, then)]
    lab.forget_metrics()
    times = job(args, lab, changed_at, n_calls, 60 + 40 * max(least) * n_calls)
    before = statistics.median(times[WARMUP:changed_at])
    after = statistics.median(times[changed_at + args.settle:])
    return {"times_s": times, "changed_at": changed_at, "before_s": before,
            "median_s": after, "settled": after / before,
            "possible": least[1] / least[0]}


def job(args, lab, changed_at, n_calls, seconds):
    """The time of each call, the longest of all ranks'."""
    size = args.sizes[0]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = job_command(lab, args, library_env(args)) + [
            program(args), "-m", "%d:%d" % (size, size), "-i", str(n_calls), "-x", "0",
            "--each", "--json", file.name]
        with Watched(words, seconds) as watched:
            progress("%d calls before the change" % changed_at)
            watched.wait_for_call(changed_at - 1)
            lab.set_rate(args.slow, args.to)
            progress("%d calls after it" % (n_calls - changed_at))
            status, said = watched.wait()
        progress("")
        if status != 0:
            raise CompareError("status %s\n%s" % (status, said[-4000:]))
        result = json.load(file)
    taken = calls_taken(said, args.coll)
    if result["errors"] or not result["checked"]:
        raise CompareError("wrong results\n%s" % said[-4000:])
    if taken is not None and taken != n_calls * args.hosts * args.ranks_per_host:
        raise CompareError("the library took %d calls of all ranks, of %d each"
                           % (taken, n_calls))
    return result["sizes"][0]["times_s"]
