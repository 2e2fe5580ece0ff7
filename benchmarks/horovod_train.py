# SPDX-License-Identifier: BSD-3-Clause
"""One rank of benchmarks/horovod: an ordinary Horovod and PyTorch job.

The network computes nothing but its gradients: each layer waits until its forward or
backward pass would have ended on the GPU, by the clock, so that what the CPU has to do
for the network meanwhile does not make the computing longer. The loss is half the squared
distance of all parameters from this rank's targets. Its gradients, averaged over the
ranks, and a learning rate of 1/2 halve the distance to the mean target in every step, so
each rank knows what its parameters have to be in the end.

  python horovod_train.py MODEL DIVIDE SLOW WARMUP STEPS FILE.json
"""

import json
import resource
import sys
import time

import torch
import horovod.torch as hvd

from horovod_models import Scaled


class Clock:
    """Times of a step, from its start."""

    def __init__(self):
        self.began = time.monotonic()

    def start(self):
        self.began = time.monotonic()

    def passed(self):
        return time.monotonic() - self.began

    def wait_until(self, seconds):
        left = seconds - self.passed()
        if left > 0:
            time.sleep(left)


class Work(torch.autograd.Function):
    """A layer's two passes: the loss so far and what this layer adds to it."""

    @staticmethod
    def forward(ctx, loss, layer, *parameters):
        ctx.layer = layer
        ctx.save_for_backward(*parameters)
        layer.clock.wait_until(layer.forward_end)
        return loss + sum(0.5 * torch.dist(x, y) ** 2
                          for x, y in zip(parameters, layer.targets))

    @staticmethod
    def backward(ctx, grad):
        layer = ctx.layer
        found = [grad * (x - y) for x, y in zip(ctx.saved_tensors, layer.targets)]
        layer.clock.wait_until(layer.ready)
        return (grad, None, *found)


class Emulated(torch.nn.Module):
    """A layer of so many elements a tensor, all zero; or the rank, before rank 0's are
    broadcast.
    """

    def __init__(self, tensors, clock, forward_end, ready):
        super().__init__()
        self.clock, self.forward_end, self.ready = clock, forward_end, ready
        self.tensors = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.full((n,), float(hvd.rank()))) for n in tensors])
        self.targets = [pattern(n) + hvd.rank() for n in tensors]

    def forward(self, loss):
        return Work.apply(loss, self, *self.tensors)

    def errors(self, steps):
        """Elements that are not what they have to be after so many steps."""
        rest = 1 - 0.5 ** steps
        mean = (hvd.size() - 1) / 2
        return sum(int(((x - rest * (pattern(len(x)) + mean)).abs() > 1e-5).sum())
                   for x in self.tensors)


def pattern(n):
    return torch.arange(n) % 7 + 0.0


def build(model, clock):
    times = zip(model.layers, model.forward_ends(), model.gradients_ready())
    return torch.nn.Sequential(*(Emulated(layer.tensors, clock, end, ready)
                                 for layer, end, ready in times))


def wait(optimizer):
    """Until all gradients are there. Horovod waits for each in a loop that yields, for
    which a real box has a core to spare; here all hosts share the cores.
    """
    for handle, _ in list(optimizer._handles.values()):
        while not hvd.poll(handle):
            time.sleep(0.5e-3)


def train(network, clock, steps):
    """(seconds of each step, until the end of its backward pass, its loss)"""
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(network.parameters(), lr=0.5),
        named_parameters=network.named_parameters())
    times, backward, losses = [], [], []
    for _ in range(steps):
        clock.start()
        optimizer.zero_grad()
        loss = network(torch.zeros(1, requires_grad=True))
        loss.backward()
        backward.append(clock.passed())
        wait(optimizer)
        optimizer.step()
        times.append(clock.passed())
        losses.append(loss.item())
    return times, backward, losses


def gather(rows):
    """A tensor of all ranks' rows, which are filled up to the longest."""
    longest = max(len(x) for x in rows)
    own = torch.tensor([[x + [0] * (longest - len(x)) for x in rows]],
                       dtype=torch.float64)
    return hvd.allgather(own, name="found")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    name, divide, slow, warmup, steps, path = sys.argv[1:]
    warmup, steps = int(warmup), int(steps)
    hvd.init()
    torch.set_num_threads(1)
    clock = Clock()
    network = build(Scaled(name, int(divide), float(slow)), clock)
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    hvd.allreduce(torch.zeros(1), name="start")  # all are ready
    before = cpu_seconds()
    times, backward, losses = train(network, clock, warmup + steps)
    used = (cpu_seconds() - before) / len(times)
    errors = sum(x.errors(len(times)) for x in network)
    found = gather([times, backward, [errors, used]])
    if hvd.rank() == 0:
        longest = found[:, :2, warmup:].max(0).values.tolist()
        with open(path, "w") as file:
            json.dump({"ranks": hvd.size(), "steps_s": longest[0],
                       "backward_s": longest[1], "errors": int(found[:, 2, 0].sum()),
                       "cpu_s": float(found[:, 2, 1].mean()),
                       "warmup_s": times[:warmup], "losses": losses}, file)
    hvd.shutdown()


main()
