# SPDX-License-Identifier: BSD-3-Clause
"""A file of results by name that grows cell by cell, and the machine they are from."""

import json
import os
import platform
import re
import sys
import time

from hosts import CompareError


def load(path):
    """The cells of such a file; none where there is none."""
    try:
        with open(path) as file:
            return json.load(file)["cells"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError) as error:
        raise CompareError("%s: not a file of mine: %r" % (path, error)) from None


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def machine():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return {"cpu": names[0] if names else platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def busy_share():
    """The part of the machine that is at work while nothing of ours is."""
    def read():
        with open("/proc/stat") as file:
            ticks = [int(x) for x in file.readline().split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]
    total, idle = read()
    time.sleep(0.5)
    total, idle = (y - x for x, y in zip((total, idle), read()))
    busy = 1 - idle / max(total, 1)
    if busy > 0.05:
        print("the machine is busy already: %.0f%%" % (busy * 100), file=sys.stderr)
    return busy
