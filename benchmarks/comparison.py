# SPDX-License-Identifier: BSD-3-Clause
"""Implementations of a collective in one lab and in turn: jobs, their times, rows.

Each round runs every implementation at every size, each in a job of its own with its
own warm-up calls; medians are over the timed calls of all rounds. A call's time is the
longest of all ranks', and every element of every result is checked on every rank.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile

import bounds
from hosts import PORT, CompareError, Servers, run_limited

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
IMPLS = ("stock-default", "stock-best", "bytepsmpi")
MODES = ("always", "auto")
KEEP_WITHIN = 1.15

SEGMENTED = {"coll_tuned_bcast_algorithm_segmentsize": 65536}
ALGORITHMS = {
    "allreduce": {
        "ring": {"coll_tuned_allreduce_algorithm": 4},
        "segmented ring": {"coll_tuned_allreduce_algorithm": 5,
                           "coll_tuned_allreduce_algorithm_segmentsize": 1 << 20},
        "Rabenseifner": {"coll_tuned_allreduce_algorithm": 6},
    },
    "bcast": {
        "chain": {"coll_tuned_bcast_algorithm": 2, **SEGMENTED},
        "pipeline": {"coll_tuned_bcast_algorithm": 3, **SEGMENTED},
        "split binary tree": {"coll_tuned_bcast_algorithm": 4, **SEGMENTED},
        "scatter allgather": {"coll_tuned_bcast_algorithm": 8},
        "scatter allgather ring": {"coll_tuned_bcast_algorithm": 9},
    },
}

# What a comparison is made of; the options of benchmarks/compare have the same names.
DEFAULTS = {
    "hosts": 4, "servers": 0, "ranks_per_host": 1, "coll": "allreduce",
    "sizes": [16 << 20], "rate": "100mbit", "host_rate": {}, "per_connection": None,
    "queue": "20ms", "cc": "cubic", "iters": 5, "warmup": 2, "rounds": 2, "impl": list(IMPLS),
    "mode": "always", "bind": False, "build": os.path.join(ROOT, "build"), "env": [],
    "server_arg": [], "nics": 1,
}


class Variant:
    """One way to run the collective, and what was measured of it, by size."""

    def __init__(self, impl, label, params=(), env=()):
        self.impl = impl
        self.label = label
        self.params = dict(params)  # MCA parameters
        self.env = dict(env)        # of the ranks
        self.times, self.first, self.segments, self.taken = {}, {}, {}, {}

    def median(self, size):
        return statistics.median(self.times[size])

    def again(self, size):
        """The part of the segments that were sent again."""
        again, sent = (sum(x) for x in zip(*self.segments[size]))
        return again / max(sent, 1)


class Comparison:
    """All of it but the lab: args has what DEFAULTS lists, lab and servers are up."""

    def __init__(self, args, lab, goodputs, servers=None):
        self.args = args
        self.lab = lab
        self.goodputs = goodputs  # bytes a second of each host and server, by name
        self.servers = servers    # None: there are none, or nothing uses them
        self.program = program(args)
        self.variants = self.make_variants()

    def make_variants(self):
        found = []
        if "stock-default" in self.args.impl:
            found.append(Variant("stock-default", "default"))
        if "stock-best" in self.args.impl:
            for label, params in ALGORITHMS[self.args.coll].items():
                for links in (1, 2):
                    text = "%s, %d link%s" % (label, links, "s" * (links > 1))
                    found.append(Variant("stock-best", text, {
                        "coll_tuned_use_dynamic_rules": 1, "btl_tcp_links": links,
                        **params}))
        if "bytepsmpi" in self.args.impl:
            found.append(Variant("bytepsmpi", "", env=library_env(self.args)))
        return found

    def bound(self, size):
        """The least time, in seconds; see bounds.py."""
        boxes = [self.goodputs[x] for x in self.lab.hosts]
        if self.args.coll == "bcast":
            return bounds.bcast(size, boxes)
        return bounds.allreduce(size, boxes, [self.goodputs[x] for x in self.lab.servers])

    def run(self):
        rounds = [x for x in split(self.args.iters, self.args.rounds) if x]
        for number, iterations in enumerate(rounds):
            for size in self.args.sizes:
                for variant in self.still_in(size):
                    progress("round %d of %d, %s, %s %s" % (
                        number + 1, len(rounds), size_text(size), variant.impl,
                        variant.label))
                    self.measure(variant, size, iterations)
        progress("")

    def still_in(self, size):
        """The variants that are worth another round at this size."""
        known = [x.median(size) for x in self.variants
                 if x.impl == "stock-best" and size in x.times]
        limit = min(known) * KEEP_WITHIN if known else 0
        return [x for x in self.variants if x.impl != "stock-best" or size not in x.times
                or x.median(size) <= limit]

    def command(self, variant, size, iterations, json_path):
        return job_command(self.lab, self.args, variant.env, variant.params) + [
            self.program, "-m", "%d:%d" % (size, size), "-i", str(iterations),
            "-x", str(self.args.warmup), "-d", "float", "--json", json_path]

    def measure(self, variant, size, iterations):
        """One job; its times are added to the variant's."""
        calls = iterations + self.args.warmup
        limit = 60 + 40 * self.bound(size) * calls
        self.lab.forget_metrics()
        before = self.lab.segments()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = self.command(variant, size, iterations, file.name)
            status, said = run_limited(words, limit)
            if self.servers:
                self.servers.check()
            if status != 0:
                raise CompareError("%s %s at %s: status %s\n%s" % (
                    variant.impl, variant.label, size_text(size), status, said[-4000:]))
            result = json.load(file)
        row = result["sizes"][0]
        if result["errors"] or not result["checked"] or row["bytes"] != size:
            raise CompareError("%s %s: wrong results\n%s"
                               % (variant.impl, variant.label, said))
        variant.times.setdefault(size, []).extend(row["times_s"])
        variant.first.setdefault(size, []).append((row["warmup_s"] + row["times_s"])[0])
        variant.segments.setdefault(size, []).append(
            [y - x for x, y in zip(before, self.lab.segments())])
        if variant.impl == "bytepsmpi":
            self.check_taken(variant, size, calls, calls_taken(said, self.args.coll))

    def check_taken(self, variant, size, calls, taken):
        """A right answer in good time proves nothing: was it the library that gave it?
        In mode auto some or all of the calls may be left to stock Open MPI.
        """
        wanted = calls * self.args.hosts * self.args.ranks_per_host
        if self.args.mode == "always" and taken is not None and taken != wanted:
            raise CompareError("bytepsmpi at %s: the library took %d of %d calls, the "
                               "others were stock Open MPI's"
                               % (size_text(size), taken, wanted))
        if taken is not None:
            variant.taken.setdefault(size, []).append(taken / wanted)

    # Results

    def winners(self, size):
        """For each implementation its fastest variant."""
        found = {}
        for variant in self.variants:
            best = found.get(variant.impl)
            if not best or variant.median(size) < best.median(size):
                found[variant.impl] = variant
        return found

    def rows(self):
        return [self.row(size, variant) for size in self.args.sizes
                for variant in self.winners(size).values()]

    def row(self, size, variant):
        args = self.args
        row = {"impl": variant.impl, "coll": args.coll, "hosts": args.hosts,
               "ranks_per_host": args.ranks_per_host, "servers": args.servers,
               "bytes": size, "median_s": variant.median(size),
               "min_s": min(variant.times[size]),
               "bound_s": self.bound(size), "detail": variant.label,
               "times_s": variant.times[size],
               "first_s": statistics.median(variant.first[size]),
               "retransmitted_share": variant.again(size),
               "goodput_bit_s": max(self.goodputs.values()) * 8,
               "goodputs_bit_s": {x: y * 8 for x, y in self.goodputs.items()},
               "rate": args.rate, "host_rate": args.host_rate, "queue": args.queue,
               "per_connection": args.per_connection, "nics": self.lab.nics,
               "congestion_control": args.cc}
        if variant.impl == "stock-best":
            row["candidates"] = {x.label: x.median(size) for x in self.variants
                                 if x.impl == "stock-best"}
        if variant.impl == "bytepsmpi":
            taken = variant.taken.get(size)
            row.update(mode=args.mode, taken=statistics.mean(taken) if taken else None)
        return row


def job_command(lab, args, env, params=()):
    """The words of mpirun on all hosts of a lab, up to the program."""
    slots = ",".join("%s:%d" % (x, args.ranks_per_host) for x in lab.hosts)
    words = lab.lab("run", "--hosts", slots, "--")
    for name, value in dict(params).items():
        words += ["--mca", name, str(value)]
    for name, value in env.items():
        words += ["-x", "%s=%s" % (name, value)]
    return words + (one_core() if args.bind else [])


def one_core():
    """Words before a program that hold each rank to a core, as if its host had but one.
    Else it is luck whether two ranks share one, and that is more than a small call.
    """
    cores = sorted(os.sched_getaffinity(0))
    return ["sh", "-c", 'at=$((OMPI_COMM_WORLD_RANK %% %d + 1)) && '
            'exec taskset -c $(echo "$0" | cut -d, -f$at) "$@"' % len(cores),
            ",".join(str(x) for x in cores)]


def library_env(args):
    """What the ranks need to carry the library; no servers: BPSMPI_SERVERS is not set."""
    env = {"LD_PRELOAD": library(args), "BPSMPI_STATS": "1", "BPSMPI_MODE": args.mode}
    if args.servers:
        names = "s[1-%d]" % args.servers if args.servers > 1 else "s1"
        env["BPSMPI_SERVERS"] = "%s:%d" % (names, PORT)
    env.update(x.split("=", 1) for x in args.env)
    return env


def calls_taken(said, coll):
    """Calls that all ranks' BPSMPI_STATS lines say were taken; None: there is no line."""
    line = r"^bpsmpi .*: MPI_%s taken=(\d+)" % coll.capitalize()
    found = re.findall(line, said, re.MULTILINE)
    return sum(int(x) for x in found) if found else None


def progress(text):
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def program(args):
    return os.path.join(args.build, "benchmarks", "bps_" + args.coll)


def library(args):
    return os.path.join(args.build, "interpose", "libbytepsmpi.so")


def server_program(args):
    return os.path.join(args.build, "tools", "bpsmpi-server")


def servers(args, lab):
    """The summation servers of a lab, to be entered as a context."""
    return Servers(lab, server_program(args), args.server_arg)


def check_files(args):
    needed = [program(args)]
    if "bytepsmpi" in args.impl:
        needed.append(library(args))
        if args.servers:
            needed.append(server_program(args))
    for path in needed:
        if not os.path.exists(path):
            raise CompareError("no %s: meson setup build && meson compile -C build, "
                               "or say --build DIR" % path)


def split(total, parts):
    return [(total + parts - 1 - i) // parts for i in range(parts)]


def size_text(size):
    for unit, scale in (("G", 30), ("M", 20), ("K", 10)):
        if size and size % (1 << scale) == 0:
            return "%d%s" % (size >> scale, unit)
    return str(size)


def parse_size(text):
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError("%r: want sizes such as 64K,16M" % text)
    size = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]
    if size % 4:
        raise argparse.ArgumentTypeError("%r: want whole floats" % text)
    return size


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError("%r: want a number from 1 on" % text)
    return int(text)
