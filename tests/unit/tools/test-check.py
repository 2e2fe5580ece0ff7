#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-check as a process: what it prints, what it refuses, and how it ends.

usage: test-check.py BPSMPI_CHECK [NAME...]

Prints TAP. With names, only those tests run.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import Skip, check, run_all  # noqa: E402

CHECK = os.path.realpath(sys.argv[1])
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("BPSMPI_", "BYTEPS_", "DMLC_"))}
MIB64 = 64 * 1024 * 1024
USAGE, WRONG, FINE = 2, 1, 0


def run(*args, status=FINE, **env):
    """Output and errors of a run that must end with this status."""
    process = subprocess.run([CHECK, *map(str, args)], env={**ENV, **env}, text=True,
                             capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
    check(process.returncode == status,
          f"{args}: status {process.returncode}\n{process.stdout}{process.stderr}")
    return process.stdout, process.stderr


def near(a, b, digits=4):
    return abs(a - b) <= 0.51 * 10**-digits


@contextlib.contextmanager
def shim(source):
    """A library to preload that is made of this."""
    with tempfile.TemporaryDirectory() as folder:
        library = folder + "/shim.so"
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, "-x",
                            "c", "-"], input=source, text=True, check=True)
        except FileNotFoundError:
            raise Skip("no compiler") from None
        yield library


def table(output):
    """The shares, {name or range: (kind, allreduce, broadcast)}, in percent."""
    rows = re.findall(r"^(\S+) +(dedicated|colocated) .*? +([\d.]+) % +([\d.]+) %$",
                      output, re.M)
    return {name: (kind, float(a), float(b)) for name, kind, a, b in rows}


def bound(output, op):
    """The least time in M/B, the seconds for 64 MiB or None, and the rest of the line."""
    found = re.search(rf"^{op} +([\d.]+) M/B +(-|[\d.e+-]+ s)(.*)$", output, re.M)
    check(found, output)
    seconds = None if found[2] == "-" else float(found[2].split()[0])
    return float(found[1]), seconds, found[3]


def n_named(name):
    """How many servers a row is for."""
    first, _, last = name.partition("-")
    return int(last[1:]) - int(first[1:]) + 1 if last else 1


def test_plans_of_equal_links():
    for n, k in ((2, 0), (2, 2), (3, 1), (4, 2), (8, 0), (8, 4), (8, 7), (8, 8), (8, 10),
                 (64, 16)):
        output, errors = run("--plan", n, k)
        check(errors == "", errors)
        whole = n * n + k * n - 2 * k
        least = max(1, 2 * n * (n - 1) / whole)
        time, seconds, rest = bound(output, "allreduce")
        check(near(time, least) and seconds is None, output)
        ring, gain = re.fullmatch(r" +([\d.]+) M/B +([\d.]+)x", rest).groups()
        check(near(float(ring), 2 * (n - 1) / n), output)
        check(near(float(gain), 2 * (n - 1) / n / least, 2), output)
        check(near(bound(output, "broadcast")[0], 1), output)
        rows = table(output)
        check(sum(map(n_named, rows)) == n + k, output)
        for op in (1, 2):
            total = sum(n_named(name) * row[op] for name, row in rows.items())
            check(abs(total - 100) < 0.005 * (n + k), f"{total} %\n{output}")
        for kind, share, _ in rows.values():
            if k <= n:
                part = 2 * (n - 1) / whole if kind == "dedicated" else (n - k) / whole
            else:
                part = 1 / k if kind == "dedicated" else 0
            check(near(share, 100 * part), output)


def test_plan_in_seconds():
    output, _ = run("--plan", 4, 0, "--bandwidth", "1Gbit")
    check(abs(bound(output, "allreduce")[1] - 1.5 * MIB64 / 125e6) < 1e-4, output)
    check("1 Gbit/s" in output)
    output, _ = run("--plan", 4, 0, "--bandwidth=1.25GB")
    check(abs(bound(output, "broadcast")[1] - MIB64 / 1.25e9) < 1e-5, output)


def test_plan_of_unequal_links():
    """Two slow boxes of eight, one slow server of four: see test_shares.c."""
    output, _ = run("--plan", 8, 4, "-b", "s4=50Mbit,h[1-2]=50Mbit,*=100Mbit")
    rows = table(output)
    check(rows["s1-s3"][:2] == ("dedicated", 25), output)
    check(rows["s4"][1] == 12.5 and rows["h1-h2"][1] == 0, output)
    check(near(rows["h3-h8"][1], 100 / 48), output)
    time, seconds, _ = bound(output, "allreduce")
    check(time == 1 and abs(seconds - MIB64 / 6.25e6) < 0.01, output)


def test_usage_errors_say_what_to_type():
    for args, said in (
            (("--json", "x"), "'x' is more than was expected"),
            (("--plan",), "requires an argument"),
            (("--plan", 8), "type bpsmpi-check --plan 8 K"),
            (("--plan", 1, 0), "'1' is not a number of boxes from 2 to 4096; type"),
            (("--plan", 4097, 0), "'4097' is not a number of boxes"),
            (("--plan", "8x", 0), "'8x' is not"),
            (("--plan", "", 0), "--plan: what stands behind it is empty"),
            (("--plan", 8, ""), "'' is not a number of servers"),
            (("--svg=",), "--svg: what stands behind it is empty"),
            (("-s", ""), "--svg: what stands behind it is empty"),
            (("--xml=", "--json"), "--xml: what stands behind it is empty"),
            (("--program", ""), "--program: what stands behind it is empty"),
            (("--mpi=",), "--mpi: what stands behind it is empty"),
            (("--plan", 8, 4, "-b", ""), "--bandwidth: what stands behind it is empty"),
            (("--p", 8, 4), "ambiguous"),
            (("--meas",), "--measure is for jobs; type mpirun"),
            (("--plan", 8, 4097), "'4097' is not a number of servers from 0"),
            (("--plan", 8, "1.5"), "'1.5' is not a number of servers"),
            (("--plan", 8, 4, 2), "'2' is more than was expected"),
            (("--env", "x"), "'x' is more than was expected"),
            (("--bandwidth", "1Gbit"), "belongs to --plan"),
            (("--plan", 8, 4, "-b", "10G"), "'10G' is not a rate"),
            (("--plan", 8, 4, "-b", "h1=1Gbit"), "add *=RATE"),
            (("--plan", 8, 4, "-b", "h9=1Gbit,*=1Gbit"), "there is no h9"),
            (("--plan", 8, 4, "-b", "s5=1Gbit,*=1Gbit"), "there is no s5"),
            (("--plan", 8, 0, "-b", "s1=1Gbit,*=1Gbit"), "there is no s1"),
            (("--plan", 8, 4, "-b", "h01=1Gbit,*=1Gbit"), "there is no h01"),
            (("--plan", 8, 4, "-b", "x1=1Gbit,*=1Gbit"), "there is no x1"),
            (("--plan", 8, 4, "-b", "h=1Gbit,*=1Gbit"), "there is no h;"),
            (("--measure",), "--measure is for jobs; type mpirun"),
            (("--mpi", "libmpi.so.40"), "--mpi is for jobs; type mpirun"),
            (("--nonsense",), "unrecognized option")):
        output, errors = run(*args, status=USAGE)
        check(output == "" and said in errors, f"{args}: {output}{errors}")
        check(errors.count("\n") == 2 and "--help" in errors, errors)


FOLDED = ((), ("--plan", "8", "4"), ("--plan", "8", "4", "-b", "h[1-2]=50Mbit,*=100Mbit"),
          ("--program", "/bin/true"))


def assert_width(text, wide, width):
    """No line is longer, but for those to be typed; @wide is the same, of one line each."""
    typed = {x for x in wide.rpartition("\n\n")[2].splitlines() if x.startswith(6 * " ")}
    long = [x for x in text.splitlines() if len(x) > width and x not in typed]
    check(not long, long)
    check(text.split() == wide.split(), text)


def test_lines_keep_to_the_width():
    """Where something is wrong, too. Words stay the same, and so does their order."""
    for args in FOLDED:
        status = FINE if args else WRONG
        env = {"BPSMPI_BANDWIDTH": "junk"}
        wide = run(*args, status=status, COLUMNS="2000", **env)[0]
        for width in (40, 60, 80):
            text = run(*args, status=status, COLUMNS=str(width), **env)[0]
            assert_width(text, wide, width)
            check(max(map(len, text.splitlines())) > 0.7 * width, text)


def test_a_terminal_has_its_width():
    for args in FOLDED:
        wide = subprocess.run([CHECK, *args], env={**ENV, "COLUMNS": "2000"}, text=True,
                              capture_output=True, timeout=20).stdout
        here, there = os.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        with subprocess.Popen([CHECK, *args], env={**ENV, "COLUMNS": "100"},
                              stdin=subprocess.DEVNULL, stdout=there):
            os.close(there)
            text = b""
            with contextlib.suppress(OSError):  # of a terminal that is closed
                while part := os.read(here, 65536):
                    text += part
            os.close(here)
        assert_width(text.decode().replace("\r\n", "\n"), wide, 40)


def test_env_says_value_and_source():
    output, errors = run("--env", BPSMPI_TIMEOUT_S="5", BYTEPS_SERVER_ENGINE_THREAD="7",
                         BPSMPI_TIMEOUTS="1")
    check(re.search(r"^BPSMPI_TIMEOUT_S +5 +seconds +environment$", output, re.M), output)
    check(re.search(r"^BPSMPI_REDUCERS +7 +threads +BYTEPS_SERVER_ENGINE_THREAD$", output,
                    re.M), output)
    check(re.search(r"^BPSMPI_STATS +0 +- +default$", output, re.M), output)
    check("BPSMPI_TIMEOUTS is not a variable of ours" in errors
          and "BPSMPI_TIMEOUT_S" in errors, errors)


def test_env_finds_wrong_values():
    for name, value, said in (
            ("BPSMPI_TIMEOUT_S", "soon", "'soon' is not a number of seconds"),
            ("BPSMPI_SERVERS", "cpu[1-", "BPSMPI_SERVERS: 'cpu[1-'"),
            ("BPSMPI_SERVERS", "@/nowhere/x", "/nowhere/x cannot be read"),
            ("BPSMPI_BANDWIDTH", "10G", "BPSMPI_BANDWIDTH: '10G' is not a rate"),
            ("BPSMPI_CPUS", "3-x", "BPSMPI_CPUS")):
        output, errors = run("--env", status=WRONG, **{name: value})
        check(said in errors, errors)
        check("BPSMPI_ENABLE" in output, output)


def test_reports_come_together():
    output, _ = run("--env", "--plan", 4, 2)
    check(table(output) and "BPSMPI_ENABLE" in output, output)
    check(output.index("allreduce") < output.index("BPSMPI_ENABLE"), output)


def test_rank_0_says_what_all_ranks_would():
    for args, status in ((("--env",), FINE), (("--plan", 4, 2), FINE), (("--help",), FINE),
                         (("--program", "/bin/sh"), FINE), (("--version",), FINE),
                         (("--plan", 4), USAGE), (("--nonsense",), USAGE)):
        alone = run(*args, status=status)
        check(alone != ("", ""), args)
        check(run(*args, status=status, OMPI_COMM_WORLD_RANK="0") == alone, args)
        check(run(*args, status=status, OMPI_COMM_WORLD_RANK="3") == ("", ""), args)
        check(run(*args, status=status, PMI_RANK="1") == ("", ""), args)


def test_what_is_for_the_report_on_a_job():
    for option in (("--measure",), ("--mpi", "libmpi.so.40")):
        for other, said in ((("--env",), "leave the other reports out"),
                            (("--plan", 4, 2), "leave the other reports out"),
                            (("--xml", "box.xml"), "leave --xml out")):
            output, errors = run(*option, *other, status=USAGE, OMPI_COMM_WORLD_RANK="0")
            check(output == "" and option[0] + " belongs to the report on a job" in errors
                  and said in errors, errors)


def test_a_line_is_one_write():
    """Each write to such a socket is a message of its own."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for plan, text in (("1", "'1' is not"), ("x" * 9000, "'xxx")):
        subprocess.run([CHECK, "--plan", plan, "0"], env=ENV, stderr=its, timeout=20)
        line = ours.recv(1 << 16).decode()
        check(line.startswith("bpsmpi-check: --plan: " + text) and line.endswith("\n"), line)
        check(line.count("\n") == 1, line)
        check(ours.recv(1 << 16) == b"try bpsmpi-check --help\n")


def test_help_and_version():
    for option in ("--help", "-h"):
        check(run(option)[0].startswith("usage: bpsmpi-check [--json]"))
    check(re.fullmatch(r"bpsmpi-check \d+\.\d+\.\d+\n", run("--version")[0]))


OUTPUTS = ((), ("--json",), ("--plan", "8", "4"), ("--plan", "4096", "4096"),
           ("--program", "sh"), ("--env",), ("--env", "--plan", "8", "4"), ("--help",),
           ("--version",))


def lost(args, reason, **how):
    """The output of a run is lost, and that is all that is said."""
    process = subprocess.run([CHECK, *args], stderr=subprocess.PIPE, text=True, timeout=20,
                             **{"env": ENV, **how})
    check(process.returncode == WRONG and process.stderr ==
          "bpsmpi-check: cannot write the output%s\n" % reason, (args, process))


def test_output_that_cannot_be_written():
    """A full disk, and a standard output that is closed."""
    for args in OUTPUTS:
        with open("/dev/full", "w") as full:
            lost(args, ": No space left on device", stdout=full)
        lost(args, ": Bad file descriptor", preexec_fn=lambda: os.close(1))


def test_output_that_is_lost_when_it_is_closed():
    """A quota on a server of files is often told no earlier."""
    with shim("""
            #include <errno.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            int close(int fd)
            {
                    if (fd != 1)
                            return syscall(SYS_close, fd);
                    errno = EDQUOT;
                    return -1;
            }""") as library:
        for args in OUTPUTS:
            lost(args, ": Disk quota exceeded", stdout=subprocess.DEVNULL,
                 env={**ENV, "LD_PRELOAD": library})


def test_a_box_without_hwloc():
    """Flat, and so said; what needs hwloc ends with a line."""
    with shim("""
            #include <dlfcn.h>
            #include <string.h>
            void *dlopen(const char *name, int flags)
            {
                    void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
                    int missing = name && strstr(name, "libhwloc");
                    return next(missing ? "libhwloc-that-is-missing.so" : name, flags);
            }""") as library:
        output, errors = run("--json", LD_PRELOAD=library)
        box = json.loads(output)
        allowed = len(os.sched_getaffinity(0))
        check(errors == "" and box["source"] == "flat", output)
        check(len(box["nodes"]) == len(box["packages"]) == 1, output)
        check(box["n_usable"] == len(box["cpus"]) == allowed, output)
        check(box["bridges"] == box["gpus"] == [] and box["n_cores"] == 0, output)
        check(box["plan"]["groups"] != [], output)
        with tempfile.TemporaryDirectory() as folder:
            file = folder + "/box.xml"
            with open(file, "w", encoding="utf-8") as xml:
                xml.write('<topology version="2.0"></topology>')
            output, errors = run("--xml", file, status=USAGE, LD_PRELOAD=library)
            check(output == "" and errors.count("\n") == 1 and
                  "libhwloc.so.15 cannot be loaded" in errors, errors)
            picture = folder + "/box.svg"
            output, errors = run("--plan", 4, 2, "--svg", picture, LD_PRELOAD=library)
            check(errors == "" and table(output) and os.path.getsize(picture) > 1000, errors)
        done = subprocess.run([CHECK], env={**ENV, "LD_PRELOAD": library}, text=True,
                              capture_output=True, timeout=20)
        check(done.returncode in (FINE, WRONG) and done.stderr == "", done)
        check("(hwloc 2 or /sys is missing or cannot be used" in done.stdout, done.stdout)


def main():
    return run_all(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
