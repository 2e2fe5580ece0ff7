# SPDX-License-Identifier: BSD-3-Clause
"""The examples: what they learn with the library is what they learn without."""

import os

import numpy

from harness import CaseError

EXAMPLES = {"torch": "pytorch.py", "tensorflow": "tensorflow2_keras.py",
            "mxnet": "mxnet_gluon.py"}
STEPS = 6
AUTO_STEPS = 14  # 1.7 MB each: set up after the third, then tried both ways
THRESHOLD = 1024

# Open MPI's recursive doubling on four ranks is (a + b) + (c + d), and so is ours on two
# boxes of two.
DOUBLING = ("--mca", "coll_tuned_use_dynamic_rules", "1",
            "--mca", "coll_tuned_allreduce_algorithm", "3")

# Sums of n terms x in two orders differ by 2(n-1)u sum|x| at most, u = 2^-24 for 32 bits.
# A step moves a parameter by the learning rate times the mean, and adds a rounding; a
# difference before the step is at most doubled by it, as long as the training is stable.
LEARNING_RATE = 0.05
LARGEST_GRADIENT = 1.0  # 0.2 of this network in its first steps


def bound(ranks, steps, parameters):
    u = 2.0 ** -24
    step = LEARNING_RATE * 2 * (ranks - 1) * u * LARGEST_GRADIENT
    step += 2 * u * max(abs(x).max() for x in parameters)
    return (2 ** steps - 1) * step


class Training:
    """A run of an example, over."""

    def __init__(self, lab, framework, hosts, *words, **options):
        python = lab.horovod.python(framework)
        script = os.path.join(lab.horovod.examples, EXAMPLES[framework])
        dump = os.path.join(lab.folder, "dump.npz")
        options["env"] = dict(QUIET, **(options.get("env") or {}))
        self.job = lab.job(hosts, python, script, "--dump", dump, *words, **options)
        if self.job.wait() != 0 or self.job.ours():
            raise CaseError("status %d:\n%s" % (self.job.status, self.job.said()))
        self.losses = [x[1] for x in self.job.output.find(r"^step \d+ loss (\S+)")]
        ends = self.job.output.find(r"^rank (\d+): (\d+) parameters, sha256 (\w+)$")
        if len({x[1] for x in ends}) != self.job.size or len({x[3] for x in ends}) != 1:
            raise CaseError("ranks differ:\n" + self.job.said())
        self.steps = len(self.losses)
        self.size, self.hash = int(ends[0][2]), ends[0][3]
        with numpy.load(dump) as file:
            self.parameters = [file[x] for x in file.files]
        os.remove(dump)

    def check_learning(self):
        """That it is a training at all: fewer mistakes at its end."""
        if not float(self.losses[-1]) < float(self.losses[0]):
            raise CaseError("nothing is learnt:\n" + self.job.said())

    def check_equal(self, other):
        if (self.hash, self.losses) != (other.hash, other.losses):
            raise CaseError("not as without the library:\n%s\n%s" % (
                other.job.said(), self.job.said()))

    def check_near(self, other):
        """The parameters within the bound above, the losses to five digits."""
        limit = bound(self.job.size, self.steps, other.parameters)
        far = max(abs(x - y).max() for x, y in zip(self.parameters, other.parameters))
        loss = max(abs(float(x) / float(y) - 1)
                   for x, y in zip(self.losses, other.losses))
        if len(self.losses) != len(other.losses) or far > limit or loss > 1e-5:
            raise CaseError("%g from the run without the library (%g), losses %g" % (
                far, limit, loss))

    def check_counted(self, collective, least, most):
        """Bytes that the library took on each rank."""
        found = self.job.output.find(r"stats: MPI_%s taken=\d+/(\d+)" % collective)
        counts = [int(x[1]) for x in found]
        if len(counts) != self.job.size or min(counts) < least or max(counts) > most:
            raise CaseError("%s: %s bytes taken, not %d to %d:\n%s" % (
                collective, counts, least, most, self.job.said()))

    def bytes(self, element_bytes, least):
        """Of a copy of the parameters, in tensors of this size and more."""
        sizes = [x.size * element_bytes for x in self.parameters]
        return sum(x for x in sizes if x >= least)

    def check_taken(self, element_bytes):
        """All gradients of all steps, and the first parameters, but for small tensors.

        Those may have gone alone, or with others in one call. Control traffic is small,
        but for what rank 0 says of many tensors; TensorFlow broadcasts twice.
        """
        self.check_counted("Allreduce", self.steps * self.bytes(element_bytes, THRESHOLD),
                           self.steps * self.bytes(element_bytes, 0) + 1024)
        self.check_counted("Bcast", self.bytes(4, THRESHOLD),
                           2 * self.bytes(4, 0) + (64 << 10))


# One thread a rank, so that what a rank computes is the same in every run; gradients of a
# step wait for each other. Whole lines, and none of the logs of TensorFlow.
QUIET = {"OMP_NUM_THREADS": "1", "MXNET_CPU_WORKER_NTHREADS": "1",
         "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
         "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0",
         "HOROVOD_CYCLE_TIME": "20", "PYTHONUNBUFFERED": ""}
natives = {}


def native(lab, framework, hosts, *words, mca=()):
    """The same run without the library, made once."""
    key = framework, hosts, words, mca
    if key not in natives:
        natives[key] = Training(lab, framework, hosts, *words, preload=False, mca=mca)
        natives[key].check_learning()
    return natives[key]


def serve(lab, count):
    """Dedicated servers, as the environment names them."""
    for number in range(count):
        lab.serve("s%d" % (number + 1))
    return {"BPSMPI_SERVERS": "s[1-%d]" % count} if count else {}


def train(framework, hosts, servers, half=False, mca=(), near=False):
    """Run with the library, everything taken, and compare."""
    def case(lab):
        words = ("--steps", str(STEPS), *(["--fp16"] if half else []))
        other = native(lab, framework, hosts, *words, mca=mca)
        env = dict(serve(lab, servers), BPSMPI_THRESHOLD_BYTES=str(THRESHOLD))
        mine = Training(lab, framework, hosts, *words, env=env, mca=mca)
        kind = "%d dedicated" % servers if servers else "colocated"
        if not mine.job.output.find(kind):
            raise CaseError("not a job with %s servers:\n%s" % (kind, mine.job.said()))
        mine.check_taken(2 if half else 4)
        mine.check_near(other) if near else mine.check_equal(other)
    return case


def auto(framework, hosts, servers):
    """As a user runs it: nothing is set but the servers."""
    def case(lab):
        words = ("--steps", str(AUTO_STEPS))
        other = native(lab, framework, hosts, *words)
        env = dict(serve(lab, servers), BPSMPI_MODE="auto")
        mine = Training(lab, framework, hosts, *words, env=env)
        mine.check_equal(other)
        mine.check_counted("Allreduce", 1, mine.steps * mine.bytes(4, 0))
    return case


TWO, FOUR = "h1:1,h2:1", "h1:1,h2:1,h3:1,h4:1"

CASES = [
    ("torch, 2 hosts", train("torch", TWO, 0)),
    ("torch, 2 hosts, 2 servers", train("torch", TWO, 2)),
    ("torch, 2 hosts, 1 server, auto", auto("torch", TWO, 1)),
    ("torch, 2 hosts, 2 servers, fp16", train("torch", TWO, 2, half=True)),
    ("torch, 2 hosts of 2 ranks, 1 server",
     train("torch", "h1:2,h2:2", 1, mca=DOUBLING)),
    ("torch, 4 hosts", train("torch", FOUR, 0, near=True)),
    ("torch, 4 hosts, 4 servers", train("torch", FOUR, 4, near=True)),
    ("tensorflow, 2 hosts, 1 server", train("tensorflow", TWO, 1)),
    ("mxnet, 2 hosts, 1 server", train("mxnet", TWO, 1)),
]
