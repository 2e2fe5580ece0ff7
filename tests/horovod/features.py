# SPDX-License-Identifier: BSD-3-Clause
"""What Horovod offers on tensors of PyTorch, each answer against this file's arithmetic.

    mpirun -np 4 python features.py

Inputs are small whole numbers, of which every sum and product is exact in all types, so
that answers must be equal and not only near. Each rank ends with how many bytes it gave
to allreduces and broadcasts, by kind, for comparison with the library's own count.
"""

import collections
import sys

import horovod.torch as hvd
import torch

N = 300_001         # elements: more than 512 KiB of the smallest type
SMALL = 1500        # elements of one of many: less than the default threshold
CHECKS = []
given = collections.Counter()  # bytes that this rank gave, by kind of call


def check(function):
    CHECKS.append(function)
    return function


def equal(got, want, what):
    if got.dtype != want.dtype or not torch.equal(got, want):
        raise AssertionError("%s: %s is not %s" % (what, got, want))


def give(tensor, kind="allreduce", times=1):
    """Count a tensor among those that are given."""
    given[kind] += tensor.numel() * tensor.element_size() * times
    return tensor


def values(rank, dtype, n=N, spread=64):
    """What a rank gives: whole numbers from -spread/2 on, other ones on each rank."""
    numbers = (torch.arange(n) * 7 + 13 * rank) % spread - spread // 2
    return numbers.to(dtype)


def every(function):
    """A list by rank."""
    return [function(x) for x in range(hvd.size())]


def expected(op, parts):
    """The ranks' parts reduced, in 64 bits."""
    wide = torch.stack([x.double() for x in parts])
    if op in (hvd.Sum, hvd.Average):
        total = wide.sum(0)
        return total / len(parts) if op == hvd.Average else total
    if op == hvd.Product:
        return wide.prod(0)
    return (wide.min(0) if op == hvd.Min else wide.max(0)).values


def reduced(op, dtype, name):
    parts = every(lambda r: values(r, dtype))
    if op == hvd.Product:
        parts = every(lambda r: 2 * values(r, dtype, spread=3) - 1)  # -3, -1 or 1
    got = hvd.allreduce(give(parts[hvd.rank()]), name=name, op=op)
    equal(got, expected(op, parts).to(dtype), name)


@check
def types_and_operations():
    ops = {"sum": hvd.Sum, "min": hvd.Min, "max": hvd.Max, "prod": hvd.Product}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64):
        for name, op in ops.items():
            reduced(op, dtype, "%s of %s" % (name, dtype))
        if dtype.is_floating_point:
            reduced(hvd.Average, dtype, "average of %s" % dtype)


@check
def scale_factors():
    parts = every(lambda r: values(r, torch.float32))
    got = hvd.allreduce(give(parts[hvd.rank()]), op=hvd.Sum, prescale_factor=4.0,
                        postscale_factor=0.5, name="scaled")
    equal(got, 2 * sum(parts), "scaled")


@check
def compression():
    parts = every(lambda r: values(r, torch.float32))
    given["allreduce"] += 2 * N
    got = hvd.allreduce(parts[hvd.rank()], op=hvd.Average, name="compressed",
                        compression=hvd.Compression.fp16)
    equal(got, sum(parts) / hvd.size(), "compressed")


@check
def places_that_differ():
    """In place on the first rank alone; not aligned on the last alone."""
    parts = every(lambda r: values(r, torch.float32))
    mine = give(parts[hvd.rank()].clone())
    if hvd.rank() == 0:
        got = hvd.allreduce_(mine, op=hvd.Sum, name="places")
    elif hvd.rank() == hvd.size() - 1:
        shifted = torch.empty(N + 1)[1:]
        shifted.copy_(mine)
        got = hvd.allreduce(shifted, op=hvd.Sum, name="places")
    else:
        got = hvd.allreduce(mine, op=hvd.Sum, name="places")
    equal(got, sum(parts), "places")


@check
def large():
    parts = every(lambda r: values(r, torch.float32, n=3 << 20))
    equal(hvd.allreduce(give(parts[hvd.rank()]), op=hvd.Sum, name="large"), sum(parts),
          "large")


@check
def grouped():
    sizes = [SMALL, N, SMALL + 1, 5 * SMALL]
    parts = every(lambda r: [values(r + i, torch.float32, n=n)
                             for i, n in enumerate(sizes)])
    got = hvd.grouped_allreduce([give(x) for x in parts[hvd.rank()]], op=hvd.Sum,
                                name="grouped")
    for tensors in zip(got, *parts):
        equal(tensors[0], sum(tensors[1:]), "grouped")


@check
def many_at_once():
    """Horovod sends what is ready together, in one buffer."""
    parts = every(lambda r: [values(r + i, torch.float32, n=SMALL + i)
                             for i in range(100)])
    handles = [hvd.allreduce_async(give(x), op=hvd.Sum, name="many %d" % i)
               for i, x in enumerate(parts[hvd.rank()])]
    for handle, *tensors in zip(handles, *parts):
        equal(hvd.synchronize(handle), sum(tensors), "many")


@check
def broadcasts():
    for root in (0, hvd.size() - 1):
        own = {"%s" % dtype: give(values(hvd.rank(), dtype), "bcast")
               for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8)}
        hvd.broadcast_parameters(own, root_rank=root)
        for name, tensor in own.items():
            equal(tensor, values(root, tensor.dtype), "parameters, " + name)
        got = hvd.broadcast(give(values(hvd.rank(), torch.float64), "bcast"), root,
                            name="broadcast %d" % root)
        equal(got, values(root, torch.float64), "broadcast")


@check
def objects():
    def thing(rank):
        return {"rank": rank, "bytes": bytes((rank + i) % 251 for i in range(N))}

    given["bcast"] += N
    if hvd.broadcast_object(thing(hvd.rank()), root_rank=1) != thing(1):
        raise AssertionError("broadcast_object")
    if hvd.allgather_object(hvd.rank()) != list(range(hvd.size())):
        raise AssertionError("allgather_object")


@check
def process_sets():
    for members in MEMBERS:
        if hvd.rank() not in members.ranks:
            continue
        parts = [values(r, torch.float32) for r in members.ranks]
        mine = parts[members.ranks.index(hvd.rank())]
        got = hvd.allreduce(give(mine), op=hvd.Average, process_set=members,
                            name="set %s" % members.ranks)
        equal(got, sum(parts) / 2, "process set")
        root = members.ranks[1]
        got = hvd.broadcast(give(mine, "bcast"), root, process_set=members,
                            name="set %s" % members.ranks)
        equal(got, parts[1], "broadcast in a process set")


@check
def adasum():
    """Pairs, then pairs of pairs: what both share is averaged, the rest is added."""
    def pair(a, b):
        dot = torch.dot(a, b)
        return (1 - dot / (2 * a.dot(a))) * a + (1 - dot / (2 * b.dot(b))) * b

    parts = every(lambda r: values(r, torch.float32))
    got = hvd.allreduce(parts[hvd.rank()], op=hvd.Adasum, name="adasum")
    wide = [x.double() for x in parts]
    while len(wide) > 1:
        wide = [pair(a, b) for a, b in zip(wide[::2], wide[1::2])]
    # Each of its additions and products is rounded to 24 bits.
    if (got.double() - wide[0]).abs().max() > 1e-5 * wide[0].abs().max():
        raise AssertionError("adasum: %s is not %s" % (got, wide[0]))


@check
def gathers():
    mine, size = hvd.rank(), hvd.size()
    rows = every(lambda r: values(r, torch.float32, n=20_000 * (r + 1)).view(-1, 20))
    equal(hvd.allgather(rows[mine], name="gather"), torch.cat(rows), "allgather")

    # To rank d goes a part of 10000 * (d + 1) elements, from everybody.
    splits = torch.tensor(every(lambda d: 10_000 * (d + 1)), dtype=torch.int32)
    whole = every(lambda r: values(r, torch.int64, n=int(splits.sum())))
    got, counts = hvd.alltoall(whole[mine], splits=splits, name="alltoall")
    equal(got, torch.cat([x.split(splits.tolist())[mine] for x in whole]), "alltoall")
    equal(counts, torch.full((size,), 10_000 * (mine + 1), dtype=counts.dtype), "counts")

    whole = every(lambda r: values(r, torch.float32, n=size * 50_000))
    got = hvd.reducescatter(whole[mine], op=hvd.Sum, name="scatter")
    equal(got, sum(whole)[mine * 50_000:][:50_000], "reducescatter")
    hvd.barrier()


@check
def join():
    """Rank r takes part r + 1 times; after that it counts as zeros."""
    for step in range(hvd.rank() + 1):
        parts = [values(r, torch.float32) for r in range(step, hvd.size())]
        got = hvd.allreduce(values(hvd.rank(), torch.float32), op=hvd.Sum,
                            name="join %d" % step)
        equal(got, sum(parts), "join")
    give(torch.empty(N), times=hvd.size())  # those that have joined carry on
    if hvd.join() != hvd.size() - 1:
        raise AssertionError("join: not the last rank")


def main():
    for function in CHECKS:
        function()
        if hvd.rank() == 0:
            print("fine: %s" % function.__name__, flush=True)
    print("rank %d gave %s" % (hvd.rank(), " ".join(
        "%s=%d" % x for x in sorted(given.items()))), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    MEMBERS = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 3])]
    hvd.init(process_sets=MEMBERS)
    if hvd.size() != 4:
        sys.exit("want four ranks")
    main()
