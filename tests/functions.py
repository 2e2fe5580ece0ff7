# SPDX-License-Identifier: BSD-3-Clause
"""Tests that are functions of a script, and how they went as TAP.

A test is named test_*, takes nothing, and returns, or raises what went wrong; Skip where
it has nothing to try here.
"""

import contextlib
import traceback


class Skip(Exception):
    """Says why."""


def check(condition, what=""):
    if not condition:
        raise AssertionError(what)


def run_one(number, name, test, around):
    """Return: whether it failed."""
    try:
        with around():
            test()
    except Skip as why:
        print("ok %d - %s # SKIP %s" % (number, name, why), flush=True)
    except Exception as error:  # a test that broke is a test that failed
        print("not ok %d - %s" % (number, name))
        for text in traceback.format_exception(error):
            print("# " + text.rstrip().replace("\n", "\n# "), flush=True)
        return True
    else:
        print("ok %d - %s" % (number, name), flush=True)
    return False


def run_all(script, wanted=(), around=contextlib.nullcontext):
    """Run the tests in a script's globals(), or those of them that are wanted.

    around: makes what each test runs within. Return: an exit status.
    """
    tests = [(name, test) for name, test in script.items()
             if name.startswith("test_") and (not wanted or name in wanted)]
    print("1..%d" % len(tests), flush=True)
    failed = [run_one(number, *test, around) for number, test in enumerate(tests, 1)]
    return 1 if any(failed) else 0
