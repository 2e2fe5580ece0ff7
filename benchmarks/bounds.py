# SPDX-License-Identifier: BSD-3-Clause
"""The least time of a collective, from what the links carry.

Each box and each server has one link that carries so many bytes a second in each
direction. A dedicated server that sums a share x of M bytes for n boxes moves n x M bytes
each way. A box pushes and pulls what others sum for it, (1 - y) M, and if it sums a share
y itself also what n - 1 others push there: M (1 + (n - 2) y) each way.

With n equal boxes and k <= n equal servers that makes 2n(n-1) / (n^2 + kn - 2k) M/B:
2(n-1)/n M/B without servers, as a ring, and M/B with as many servers as boxes.
"""

STEPS = 100  # of the bisection: more than a double can tell apart


def summed(seconds, size, boxes, servers):
    """The part of an allreduce that boxes and servers can sum in that time; 1 is all."""
    n = len(boxes)
    shares = sum(seconds * x / (n * size) for x in servers)
    return shares + sum((seconds * x / size - 1) / (n - 2) for x in boxes)


def allreduce(size, boxes, servers):
    """Seconds, with the bytes a second of each of 2 boxes or more and of each server."""
    low = size / min(boxes)  # every box takes part with all of it, whoever sums
    if len(boxes) == 2 or summed(low, size, boxes, servers) >= 1:
        return low
    high = 2 * low
    while summed(high, size, boxes, servers) < 1:
        high *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        if summed(middle, size, boxes, servers) < 1:
            low = middle
        else:
            high = middle
    return high


def bcast(size, boxes):
    """Seconds: the root sends it all once, and every other box takes it all."""
    return size / min(boxes)
