# SPDX-License-Identifier: BSD-3-Clause
"""The networks of benchmarks/horovod: their parameters, and when each gradient is there.

A layer is what has its gradients at one time: a convolution with its bias or its batch
normalisation, or a fully connected one. Its part of the forward and of the backward pass
is its part of the multiplications, and the backward pass takes twice the forward.
"""

import collections

# tensors: the number of elements of each; work: multiplications an image.
Layer = collections.namedtuple("Layer", "name tensors work")

# Images a second of one V100 in fp32 at a batch of 64, see benchmarks/README.md.
GPU_RATES = {"vgg16": 230.0, "resnet50": 370.0}
BATCH = 64            # a GPU
GPUS = 8              # a box
BACKWARD = 2 / 3      # of a step's compute


def convolution(name, inputs, outputs, kernel, pixels, norm=False):
    """pixels: one edge of the square output."""
    weight = inputs * outputs * kernel * kernel
    more = [outputs, outputs] if norm else [outputs]
    return Layer(name, [weight, *more], weight * pixels * pixels)


def full(name, inputs, outputs):
    return Layer(name, [inputs * outputs, outputs], inputs * outputs)


def vgg16():
    layers, inputs, pixels = [], 3, 224
    for stage, (outputs, count) in enumerate(
            ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for i in range(count):
            layers.append(convolution("conv%d_%d" % (stage + 1, i + 1), inputs, outputs,
                                      3, pixels))
            inputs = outputs
        pixels //= 2
    return layers + [full("fc6", 512 * 7 * 7, 4096), full("fc7", 4096, 4096),
                     full("fc8", 4096, 1000)]


def resnet50():
    layers, inputs, pixels = [convolution("conv1", 3, 64, 7, 112, norm=True)], 64, 56
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(count):
            name = "layer%d.%d." % (stage + 1, block)
            small = pixels // 2 if stage and not block else pixels
            layers += [convolution(name + "conv1", inputs, width, 1, pixels, norm=True),
                       convolution(name + "conv2", width, width, 3, small, norm=True),
                       convolution(name + "conv3", width, 4 * width, 1, small, norm=True)]
            if not block:
                layers.append(convolution(name + "downsample", inputs, 4 * width, 1,
                                          small, norm=True))
            inputs, pixels = 4 * width, small
    return layers + [full("fc", 2048, 1000)]


MODELS = {"vgg16": vgg16, "resnet50": resnet50}


class Scaled:
    """A model with a part of its parameters, and a step that takes longer.

    divide: of the elements of every tensor; slow: a step's compute is so many times that
    of the GPU. On a link of 1/(divide * slow) of a box's, a step's gradients then take as
    large a part of the step as those of the full model do.
    """

    def __init__(self, model, divide, slow):
        self.layers = [Layer(x.name, [max(1, round(n / divide)) for n in x.tensors],
                             x.work) for x in MODELS[model]()]
        self.compute_s = BATCH / GPU_RATES[model] * slow
        self.forward_s = self.compute_s * (1 - BACKWARD)
        self.bytes = sum(4 * sum(x.tensors) for x in self.layers)

    def forward_ends(self):
        """For each layer, when its forward pass ends, from the start of a step."""
        return self.ends(self.layers, 0, self.forward_s)

    def gradients_ready(self):
        """For each layer, when its gradients are there, from the start of a step."""
        return self.ends(self.layers[::-1], self.forward_s,
                         self.compute_s - self.forward_s)[::-1]

    @staticmethod
    def ends(layers, start, seconds):
        total, done, found = sum(x.work for x in layers), 0, []
        for layer in layers:
            done += layer.work
            found.append(start + seconds * done / total)
        return found

    def least_step(self, seconds_a_byte):
        """A step's least time when an allreduce takes so many seconds a byte, one goes
        after the other, and each as soon as its gradients are there. The optimizer needs
        all of them.
        """
        free = 0
        for layer, ready in zip(self.layers[::-1], self.gradients_ready()[::-1]):
            free = max(free, ready) + 4 * sum(layer.tensors) * seconds_a_byte
        return max(free, self.compute_s)
