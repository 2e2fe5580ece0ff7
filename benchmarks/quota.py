# SPDX-License-Identifier: BSD-3-Clause
"""A limit on the CPU time of this process and all that it starts from then on."""

import contextlib
import os
import time

# What holds a group to one core: its file, by version of control groups.
LIMITS = {1: ("cpu.cfs_quota_us", "100000"), 2: ("cpu.max", "100000 100000")}


class NoQuota(Exception):
    """Why there is none here."""


def trees(mounts):
    """The control group trees that hand out CPU time, from /proc/self/mounts: pairs of
    version and path; those of version 1, which has a tree for it, first."""
    rows = [line.split() for line in mounts.splitlines()]
    return [(1, x[1]) for x in rows if x[2] == "cgroup" and "cpu" in x[3].split(",")] + \
        [(2, x[1]) for x in rows if x[2] == "cgroup2"]


def own_group(groups, version):
    """The path of this process in that tree, from /proc/self/cgroup."""
    for line in groups.splitlines():
        number, kinds, path = line.split(":", 2)
        if (version == 2 and number == "0") or \
                (version == 1 and "cpu" in kinds.split(",")):
            return path.lstrip("/")
    raise NoQuota("this process is in no control group")


def choose():
    """Version, tree, and where this process is in it."""
    for version, tree in trees(read("/proc/self/mounts")):
        if version == 2 and "cpu" not in read(
                os.path.join(tree, "cgroup.subtree_control")).split():
            raise NoQuota("%s hands out no CPU time (cgroup.subtree_control)" % tree)
        return version, tree, own_group(read("/proc/self/cgroup"), version)
    raise NoQuota("no control groups for CPU time are mounted")


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def quota():
    """One core, in a group of its own at the top of the tree; NoQuota when the tree does
    not hand out CPU time to groups there or lets us make none. No other group changes.
    """
    try:
        version, tree, own = choose()
        before = os.path.join(tree, own)
        group = os.path.join(tree, "bpsmpi-%d" % os.getpid())
        os.mkdir(group)
    except OSError as error:
        raise NoQuota(str(error)) from None
    try:
        enter(group, *LIMITS[version])
        yield
    finally:
        leave(before, group)


def enter(group, file, limit):
    try:
        write(os.path.join(group, file), limit)
        write(os.path.join(group, "cgroup.procs"), str(os.getpid()))
    except OSError as error:
        raise NoQuota(str(error)) from None


def leave(before, group):
    """Back to where this process was; the group goes when the last of its own ended."""
    with contextlib.suppress(OSError):
        write(os.path.join(before, "cgroup.procs"), str(os.getpid()))
    for _ in range(50):
        with contextlib.suppress(OSError):
            os.rmdir(group)
            return
        time.sleep(0.1)
