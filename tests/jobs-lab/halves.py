# SPDX-License-Identifier: BSD-3-Clause
"""16-bit floats by an operation of the program's own: rounded once, whatever the layout."""

from harness import CaseError
from layouts import run

LAYOUTS = ("h1:1,h2:1", "h1:2,h2:2", "h1:3,h2:1", "h1:1,h2:3", "h1:2,h2:1,h3:2")
TWICE = {"BPSMPI_HALF_PUSH_BITS": "16"}


def boxes(hosts):
    """"2,1,2" of h1:2,h2:1,h3:2."""
    return ",".join(x.split(":")[1] for x in hosts.split(","))


def halves(mode, hosts, *options, env=None):
    def case(lab):
        run(lab, mode, hosts, "halves", *options, boxes(hosts), env=env)
    return case


def disagree(hosts):
    """The last rank has other code: one line, and the library's right sums."""
    def case(lab):
        job = lab.job(hosts, "halves", "-d", boxes(hosts))
        job.check_native("does other things on one rank", lines=1)
        if not job.output.find(" r0 stats: .* type-or-op=6/"):
            raise CaseError("other calls than these passed:\n" + job.said())
    return case


CASES = [
    ("halves, in-box, 4 ranks", halves("in-box", "h1:4")),
    *(("halves, %s, %s ranks" % (mode, boxes(hosts)), halves(mode, hosts))
      for hosts in LAYOUTS for mode in ("colocated", "two servers")),
    ("halves, one server, 2,1,2 ranks", halves("one server", LAYOUTS[-1])),
    ("halves, small partitions", halves("two servers", LAYOUTS[-1], env={
        "BPSMPI_PARTITION_BYTES": "3K", "BPSMPI_WINDOW_BYTES": "6K"})),
    ("halves, rounded twice, 2,1,2 ranks",
     halves("two servers", LAYOUTS[-1], "-t", env=TWICE)),
    ("halves, rounded twice, 3,1 ranks", halves("colocated", LAYOUTS[2], "-t", env=TWICE)),
    ("halves, 16 bits where no box sums, 1,1 ranks",
     halves("colocated", LAYOUTS[0], env=TWICE)),
    ("halves, ranks that disagree, 4 ranks", disagree("h1:4")),
    ("halves, ranks that disagree, 2,1 ranks", disagree("h1:2,h2:1")),
]
