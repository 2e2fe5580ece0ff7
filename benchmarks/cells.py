# SPDX-License-Identifier: BSD-3-Clause
"""The table that benchmarks/matrix measures: what is run, and what is to be reached.

A cell's name says all that tells it from others, for --only:
GROUP/HOSTS+SERVERS/RATE/QUEUE/CC/COLL/SIZE, or GROUP/1/COLL/SIZE inside one box.
"""

import dataclasses

from comparison import size_text

KIB, MIB = 1 << 10, 1 << 20
LITTLE = 1.03, 1e-6  # "not slower": by no more than 3% or a microsecond

PLANS = [(n, k) for n in (2, 3, 4, 8) for k in sorted({0, 1, 2, n // 2, n, n + 2})]
QUICK_PLANS = [(2, 1), (4, 0), (4, 2), (4, 4)]
PLAN_GOALS = {MIB: 1.08, 16 * MIB: 1.03, 64 * MIB: 1.02}
RATES = {"10mbit": 4 * MIB, "100mbit": 16 * MIB, "1gbit": 64 * MIB}
BOX_GOALS = {"allreduce": {MIB: 2.5, 16 * MIB: 3.5, 64 * MIB: 3.5},
             "bcast": {MIB: 1.5, 16 * MIB: 1.5, 64 * MIB: 1.5}}


@dataclasses.dataclass(frozen=True)
class Goal:
    """What is to be reached. kind: which figure of a result; see met()."""

    kind: str
    limit: float = 0  # near has its own; of again in percent

    def text(self):
        if self.kind == "near":
            return "not slower"
        return {"bound": "<= %g x bound", "faster": ">= %g x stock",
                "again": "< %g%% sent again", "settled": "<= %g x before"
                }[self.kind] % self.limit

    def met(self, found):
        """found: a result as matrix writes it."""
        if self.kind == "bound":
            return found["x_bound"] <= self.limit
        if self.kind == "faster":
            return found["faster"] >= self.limit
        if self.kind == "again":
            return found["sent_again_percent"] < self.limit
        if self.kind == "settled":
            return found["settled"] <= self.limit
        factor, more = LITTLE
        stock = found["stock_s"]
        return found["median_s"] <= max(stock * factor, stock + more)


@dataclasses.dataclass(frozen=True)
class Cell:
    group: str
    goal: Goal
    bytes: int
    hosts: int = 1
    servers: int = 0
    rate: str = "100mbit"
    queue: str = "20ms"
    cc: str = "cubic"
    host_rate: tuple = ()  # of pairs
    coll: str = "allreduce"
    mode: str = "always"
    iters: int = 5
    warmup: int = 2
    rounds: int = 1
    bind: bool = False  # each rank to one core
    quick: bool = False  # also measured by --quick

    @property
    def name(self):
        place = ["%d+%d" % (self.hosts, self.servers), self.rate, self.queue, self.cc]
        return "/".join([self.group, *(place if self.hosts > 1 else ["1"]), self.coll,
                         size_text(self.bytes)])

    @property
    def lab(self):
        """Cells of one lab have this in common."""
        return (self.hosts, self.servers, self.rate, self.host_rate, self.queue, self.cc)

    @property
    def impls(self):
        stock = ["stock-default"] if self.goal.kind in ("faster", "near") else []
        return stock + ["bytepsmpi"]


def plan():
    """Near the bound at every n and k."""
    for n, k in PLANS:
        for size, limit in PLAN_GOALS.items():
            yield Cell("plan", Goal("bound", limit), size, n, k,
                       quick=(n, k) in QUICK_PLANS and size < 64 * MIB)
    for n, k in ((4, 2), (8, 0), (8, 8)):
        for size, limit in PLAN_GOALS.items():
            yield Cell("plan", Goal("bound", limit), size, n, k, cc="bbr",
                       quick=n == 4 and size == 16 * MIB)


def unequal():
    """Two hosts of eight, and one server of four, at half the rate."""
    slow = tuple((x, "50mbit") for x in ("h7", "h8", "s4"))
    for size in PLAN_GOALS:
        yield Cell("unequal", Goal("bound", 1.08), size, 8, 4, host_rate=slow,
                   quick=size == 16 * MIB)


def cores():
    """No limit on the links: the machine's cores are the limit."""
    for n in (2, 4):
        for k in (0, n):
            yield Cell("cores", Goal("near"), MIB, n, k, "unlimited", mode="auto",
                       iters=30, warmup=30, rounds=3)
            for size in (16 * MIB, 64 * MIB):
                yield Cell("cores", Goal("faster", 1.2), size, n, k, "unlimited",
                           iters=15, rounds=3, quick=n == 2 and size == 16 * MIB)


def box():
    """One box of two ranks, no network; jobs of both in turn."""
    for coll, goals in BOX_GOALS.items():
        for size, limit in goals.items():
            yield Cell("box", Goal("faster", limit), size, coll=coll, iters=10, warmup=3,
                       rounds=5, quick=size < 64 * MIB)


def small():
    """Small sizes, where the library may do as it likes: it must not cost anything."""
    for coll in BOX_GOALS:
        for shift in range(3, 19):
            yield Cell("small", Goal("near"), 1 << shift, coll=coll, mode="auto",
                       iters=1000, warmup=200, rounds=5, quick=coll == "allreduce")
    for size in (8, KIB, 16 * KIB, 64 * KIB, 256 * KIB):
        yield Cell("small", Goal("near"), size, 2, 0, "unlimited", mode="auto", bind=True,
                   iters=5000, warmup=100, rounds=5)
    for size in (16 * KIB, 64 * KIB, 256 * KIB):
        yield Cell("small", Goal("near"), size, 4, 4, mode="auto", iters=100, warmup=30,
                   rounds=5)


def again():
    """Slow and fast links before shallow and deep queues: what is sent twice."""
    goal = Goal("again", 0.5)
    for rate, size in RATES.items():
        for queue in ("20ms", "200ms"):
            for n, k in ((4, 4), (8, 0), (8, 8)):
                yield Cell("again", goal, size, n, k, rate, queue,
                           quick=(n, rate) == (4, "100mbit"))
    for n, k, queue, control in ((8, 8, "5ms", "cubic"), (8, 8, "20ms", "bbr"),
                                 (16, 16, "20ms", "cubic"), (16, 1, "20ms", "cubic")):
        yield Cell("again", goal, 16 * MIB, n, k, "100mbit", queue, control)


def steal():
    """A server slowed to a quarter in mid-job; see benchmarks/steal."""
    for n, size in ((4, 4 * MIB), (4, 16 * MIB), (8, 4 * MIB)):
        yield Cell("steal", Goal("settled", 1.3), size, n, n,
                   quick=(n, size) == (4, 4 * MIB))


def table():
    return [*box(), *small(), *plan(), *unequal(), *cores(), *again(), *steal()]
