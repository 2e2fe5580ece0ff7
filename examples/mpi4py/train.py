# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training with mpi4py and numpy alone: a network with one hidden layer
learns a function by SGD. Each rank has data of its own; one MPI_Allreduce a step sums the
gradients, 1 MiB of them.
"""

import zlib

import numpy as np
from mpi4py import MPI

INPUTS, HIDDEN, BATCH, STEPS, RATE = 256, 1024, 64, 40, 0.05

comm = MPI.COMM_WORLD
rng = np.random.default_rng(comm.rank)


def views(vector):
    """The two layers' weights, in one vector."""
    split = INPUTS * HIDDEN
    return vector[:split].reshape(INPUTS, HIDDEN), vector[split:split + HIDDEN]


params = rng.standard_normal(INPUTS * HIDDEN + HIDDEN, dtype=np.float32) / 32
comm.Bcast(params)  # all start from rank 0's
grads = np.empty(len(params) + 1, np.float32)  # and the loss
(weights1, weights2), (grads1, grads2) = views(params), views(grads)

for step in range(STEPS):
    x = rng.standard_normal((BATCH, INPUTS), dtype=np.float32)
    y = np.sin(x[:, 0]) + x[:, 1]
    hidden = np.tanh(x @ weights1)
    error = hidden @ weights2 - y
    grads2[:] = hidden.T @ error / BATCH
    grads1[:] = x.T @ (np.outer(error, weights2) * (1 - hidden ** 2)) / BATCH
    grads[-1] = np.mean(error ** 2)
    comm.Allreduce(MPI.IN_PLACE, grads)
    grads /= comm.size
    params -= RATE * grads[:-1]
    if comm.rank == 0:
        print("step %2d  loss %.6f" % (step, grads[-1]), flush=True)

print("rank %d  parameters %08x" % (comm.rank, zlib.crc32(params)), flush=True)
