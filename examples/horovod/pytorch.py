#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small convolutional network, trained by Horovod and PyTorch on made-up digits."""

import argparse
import hashlib

import horovod.torch as hvd
import numpy
import torch
from torch import nn

BATCH = 32  # images a rank and step


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * 5 * 5, 256), nn.ReLU(), nn.Linear(256, 10))


def batches(steps):
    """Ten patterns under noise, other noise on each rank."""
    patterns = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    noise = torch.Generator().manual_seed(100 + hvd.rank())
    for _ in range(steps):
        labels = torch.randint(10, (BATCH,), generator=noise)
        yield patterns[labels] + torch.randn(BATCH, 1, 28, 28, generator=noise), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fp16", action="store_true", help="gradients travel as fp16")
    parser.add_argument("--dump", help="a .npz file for the trained parameters")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(hvd.rank())  # rank 0's first parameters will rule
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16 else hvd.Compression.none)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for step, (images, labels) in enumerate(batches(args.steps)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss = hvd.allreduce(loss.detach(), name="loss").item()
        if hvd.rank() == 0:
            print("step %d loss %.9g" % (step, loss))

    arrays = [x.detach().numpy() for x in model.parameters()]
    digest = hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest()
    print("rank %d: %d parameters, sha256 %s"
          % (hvd.rank(), sum(x.size for x in arrays), digest[:16]))
    if args.dump and hvd.rank() == 0:
        numpy.savez(args.dump, *arrays)


if __name__ == "__main__":
    main()
