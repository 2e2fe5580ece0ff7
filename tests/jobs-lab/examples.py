# SPDX-License-Identifier: BSD-3-Clause
"""The example of mpi4py, as a user runs it: two hosts and a server, or no library."""

import os
import re
import subprocess

from harness import CaseError, Skip
from layouts import MODES, serve

PYTHON = "/usr/bin/python3"  # the distribution's, which its mpi4py is for
SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..",
                      "examples", "mpi4py", "train.py")
STEPS = 40


def train(lab, env, preload):
    """(what it said of loss and parameters, the job)"""
    job = lab.job("h1:1,h2:1", PYTHON, os.path.normpath(SCRIPT), preload=preload,
                  env=dict(env, OPENBLAS_NUM_THREADS="1", BPSMPI_MODE="always"))
    if job.wait() != 0 or job.ours():
        raise CaseError("status %d:\n%s" % (job.status, job.said()))
    # mpirun may put two ranks' last words into one line
    said = re.findall(r"step +\d+ +loss [\d.]+|rank \d+ +parameters [0-9a-f]{8}",
                      job.said())
    return sorted(said), job


def mpi4py(lab):
    """The same bits as without the library: two ranks' sums do not depend on order."""
    if subprocess.run([PYTHON, "-c", "import mpi4py, numpy"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("%s has no mpi4py or no numpy" % PYTHON)
    env, kind = MODES["one server"]
    serve(lab, env)
    native, _ = train(lab, env, preload=False)
    said, job = train(lab, env, preload=True)
    if said != native or len(said) != STEPS + 2 or said[0][-8:] != said[1][-8:]:
        raise CaseError("%s\nwithout the library:\n%s" % (
            "\n".join(said), "\n".join(native)))
    taken = job.output.find(r" stats: MPI_(Allreduce taken=%d|Bcast taken=1)/" % STEPS)
    if not job.output.find(kind) or len(taken) != 4:
        raise CaseError("not all was taken:\n" + job.said())


CASES = [("example: mpi4py, two hosts and a server", mpi4py)]
