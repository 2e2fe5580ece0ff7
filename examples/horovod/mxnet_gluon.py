#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small convolutional network, trained by Horovod and MXNet Gluon on made-up digits."""

import argparse
import hashlib

import horovod.mxnet as hvd
import mxnet as mx
import numpy
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH = 32  # images a rank and step


def make_model():
    model = nn.HybridSequential()
    model.add(
        nn.Conv2D(32, 3, in_channels=1, activation="relu"), nn.MaxPool2D(),
        nn.Conv2D(64, 3, in_channels=32, activation="relu"), nn.MaxPool2D(), nn.Flatten(),
        nn.Dense(256, in_units=64 * 5 * 5, activation="relu"),
        nn.Dense(10, in_units=256))
    model.initialize(mx.init.Xavier())
    return model


def batches(steps):
    """Ten patterns under noise, other noise on each rank."""
    patterns = numpy.random.default_rng(1).standard_normal((10, 1, 28, 28), numpy.float32)
    noise = numpy.random.default_rng(100 + hvd.rank())
    for _ in range(steps):
        labels = noise.integers(10, size=BATCH)
        images = noise.standard_normal((BATCH, 1, 28, 28), numpy.float32)
        images += patterns[labels]
        yield mx.nd.array(images), mx.nd.array(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fp16", action="store_true", help="gradients travel as fp16")
    parser.add_argument("--dump", help="a .npz file for the trained parameters")
    args = parser.parse_args()

    hvd.init()
    mx.random.seed(hvd.rank())  # rank 0's first parameters will rule
    model = make_model()
    parameters = model.collect_params()
    hvd.broadcast_parameters(parameters, root_rank=0)
    trainer = hvd.DistributedTrainer(
        parameters, "sgd", {"learning_rate": 0.05},
        compression=hvd.Compression.fp16 if args.fp16 else hvd.Compression.none)
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()

    for step, (images, labels) in enumerate(batches(args.steps)):
        with autograd.record():
            loss = cross_entropy(model(images), labels)
        loss.backward()
        trainer.step(BATCH)
        loss = hvd.allreduce(loss.mean(), name="loss").asscalar()
        if hvd.rank() == 0:
            print("step %d loss %.9g" % (step, loss))

    arrays = [x.data().asnumpy() for x in parameters.values()]
    digest = hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest()
    print("rank %d: %d parameters, sha256 %s"
          % (hvd.rank(), sum(x.size for x in arrays), digest[:16]))
    if args.dump and hvd.rank() == 0:
        numpy.savez(args.dump, *arrays)


if __name__ == "__main__":
    main()
