# SPDX-License-Identifier: BSD-3-Clause
"""A limit on the CPU time of this process and all that it starts from then on."""

import contextlib
import os
import time

MAX = "100000 100000"  # of cpu.max: one core


class NoQuota(Exception):
    """Why there is none here."""


def top(mounts):
    """Where the cgroup v2 tree is, from /proc/self/mounts."""
    for line in mounts.splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return words[1]
    raise NoQuota("no cgroup v2 is mounted")


def own_group(groups):
    """The path of this process in that tree, from /proc/self/cgroup."""
    for line in groups.splitlines():
        if line.startswith("0::"):
            return line[3:].lstrip("/")
    raise NoQuota("this process is in no cgroup v2")


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
        tree = top(read("/proc/self/mounts"))
        before = os.path.join(tree, own_group(read("/proc/self/cgroup")))
        if "cpu" not in read(os.path.join(tree, "cgroup.subtree_control")).split():
            raise NoQuota("%s hands out no CPU time (cgroup.subtree_control)" % tree)
        group = os.path.join(tree, "bpsmpi-%d" % os.getpid())
        os.mkdir(group)
    except OSError as error:
        raise NoQuota(str(error)) from None
    try:
        enter(group)
        yield
    finally:
        leave(before, group)


def enter(group):
    try:
        write(os.path.join(group, "cpu.max"), MAX)
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
