#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small convolutional network, trained by Horovod and tf.keras on made-up digits."""

import argparse
import hashlib

import horovod.tensorflow.keras as hvd
import numpy
import tensorflow as tf
from tensorflow.keras import layers

BATCH = 32  # images a rank and step


def make_model():
    return tf.keras.Sequential([
        layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
        layers.MaxPooling2D(), layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(), layers.Flatten(),
        layers.Dense(256, activation="relu"), layers.Dense(10)])


def make_images(count):
    """Ten patterns under noise, other noise on each rank."""
    patterns = numpy.random.default_rng(1).standard_normal((10, 28, 28, 1), numpy.float32)
    noise = numpy.random.default_rng(100 + hvd.rank())
    labels = noise.integers(10, size=count)
    images = noise.standard_normal((count, 28, 28, 1), numpy.float32)
    return images + patterns[labels], labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fp16", action="store_true", help="gradients travel as fp16")
    parser.add_argument("--dump", help="a .npz file for the trained parameters")
    args = parser.parse_args()

    hvd.init()
    tf.keras.utils.set_random_seed(hvd.rank())  # rank 0's first parameters will rule
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD(0.05),
        compression=hvd.Compression.fp16 if args.fp16 else hvd.Compression.none)
    model.compile(
        optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    # An epoch of one step each, so that Keras reports every step's loss.
    images, labels = make_images(BATCH * args.steps)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)
    done = model.fit(
        data, steps_per_epoch=1, epochs=args.steps, verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                   hvd.callbacks.MetricAverageCallback()])
    if hvd.rank() == 0:
        for step, loss in enumerate(done.history["loss"]):
            print("step %d loss %.9g" % (step, loss))

    arrays = [x.numpy() for x in model.trainable_variables]
    digest = hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest()
    print("rank %d: %d parameters, sha256 %s"
          % (hvd.rank(), sum(x.size for x in arrays), digest[:16]))
    if args.dump and hvd.rank() == 0:
        numpy.savez(args.dump, *arrays)


if __name__ == "__main__":
    main()
