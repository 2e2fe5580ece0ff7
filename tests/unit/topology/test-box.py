#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-check's box: descriptions of our own making, hostile ones, and this box.

usage: test-box.py BPSMPI_CHECK [NAME...]

Prints TAP. With names, only those tests run.
"""

import fcntl
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
import traceback

from boxes import Box, Node, Package, facts, random_box, ranges

CHECK = sys.argv[1]
FINE, WRONG, CANNOT = 0, 1, 2
FOLDER = tempfile.TemporaryDirectory(prefix="bpsmpi-boxes-")
FILE = os.path.join(FOLDER.name, "box.xml")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("BPSMPI_", "HWLOC_"))}


class Skip(Exception):
    pass


def check(condition, what=""):
    if not condition:
        raise AssertionError(what)


def run(*args, status=FINE, env=(), **how):
    process = subprocess.run([CHECK, *args], env={**ENV, **dict(env)}, text=True,
                             capture_output=True, stdin=subprocess.DEVNULL, timeout=20,
                             **how)
    check(process.returncode in (status if isinstance(status, tuple) else (status,)),
          f"{args}: status {process.returncode}\n{process.stdout}{process.stderr}")
    return process.stdout, process.stderr


def write(content, mode="w"):
    with open(FILE, mode) as file:
        file.write(content)


def refused(content, said):
    write(content, "wb" if isinstance(content, bytes) else "w")
    output, errors = run("--xml", FILE, status=CANNOT)
    check(output == "" and errors.count("\n") == 1, output + errors)
    check(errors.startswith(f"bpsmpi-check: {FILE}: ") and re.search(said, errors),
          f"'{said}' is not said: {errors}")


def same(box):
    write(box.xml)
    output, errors = run("--xml", FILE, "--json")
    check(errors == "", errors)
    document = json.loads(output)
    check(document["schema"] == "bpsmpi-check box" and document["version"] == 1)
    check(document["source"] == "xml" and document["cpu_quota"] is None)
    found = facts(document)
    for key, value in box.found.items():
        check(found[key] == value, f"{key}:\n{found[key]}\nis not\n{value}")
    return document


def two_sockets():
    def switch(first):
        return ("switch", [("gpu",)] * 4 + [("nic", f"eth{first}"),
                                            ("nic", f"eth{first + 1}")])

    return Box([Package(p, [Node(p, 8, 2, 256, [switch(4 * p), switch(4 * p + 2)])])
                for p in (0, 1)], distances=[[10, 21], [21, 10]])


def tree(box, columns=80, *args):
    write(box.xml)
    return run("--xml", FILE, *args, env={"COLUMNS": str(columns)})[0].splitlines()


def test_two_sockets_with_two_switches():
    document = same(two_sockets())
    check(len(document["bridges"]) == 4 and len(document["gpus"]) == 16)
    check(len(document["nics"]) == 8)


def test_four_nodes_and_one_nic():
    far = [[10 + 10 * abs(i - j) for j in range(4)] for i in range(4)]
    document = same(Box([Package(p, [Node(p, devices=[("nic", "eth0")] if p == 2 else ())])
                         for p in range(4)], distances=far))
    check(document["nics"][0]["node"] == 2)


def test_one_way_distances():
    same(Box([Package(p, [Node(p)]) for p in range(3)],
             distances=[[10, 20, 30], [40, 10, 50], [60, 70, 10]]))


def test_clusters_inside_a_package():
    document = same(Box([Package(0, [Node(0, devices=[("gpu",)]),
                                     Node(1, devices=[("nic", "eth1")])],
                                 devices=[("gpu",)])]))
    check(sorted(str(g["node"]) for g in document["gpus"]) == ["0", "None"])


def test_memory_alone():
    box = Box([Package(0, [Node(0)]), Package(1, [Node(1)])], alone=[Node(2, 0, gib=512)])
    same(box)
    check(any("node 2: 512.0 GiB, memory alone" in line for line in tree(box)))


def test_no_pci():
    document = same(Box([Package(0, [Node(0)])]))
    check(not document["bridges"] and not document["nics"] and not document["gpus"])


def test_one_allowed_hyperthread():
    box = Box([Package(0, [Node(0, 4, 2)])], allowed=[6])
    document = same(box)
    check(document["n_usable"] == 1 and document["n_cpus"] == 8)
    check(any("(1 of 8 usable: 6)" in line for line in tree(box)), tree(box))


def test_a_switch_with_one_device_groups_nothing():
    document = same(Box([Package(0, [Node(0, devices=[("switch", [("gpu",)])])])]))
    check(not document["bridges"])


def test_devices_of_the_whole_box():
    document = same(Box([Package(p, [Node(p)]) for p in (0, 1)],
                        devices=[("nic", "eth0"), ("gpu",)]))
    check(document["nics"][0]["node"] is None and document["gpus"][0]["node"] is None)


def test_random_boxes():
    for seed in range(60):
        try:
            same(random_box(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_text_of_others_is_harmless():
    box = Box([Package(0, [Node(0)], model='A"B\\C\u00e9\u202e')], host='h"\\\u00e4')
    box.found["host"] = 'h"\\??'
    same(box)
    check("\u202e" not in "".join(tree(box)))


def test_tree_has_all_and_fits():
    box = two_sockets()
    for columns in (40, 60, 80, 200):
        lines = tree(box, columns)
        check(max(map(len, lines)) <= columns, "\n".join(lines))
        text = re.sub(r"\s+", " ", " ".join(lines))
        for bus in [*box.found["gpus"], *box.found["bridges"]]:
            check(len(re.findall(rf"\b{bus}\b", text)) == 1, bus + text)
        for name in box.found["nics"]:
            check(text.count(f"NIC {name}: speed unknown") == 1, name + text)
        check("made-up: 512.0 GiB, 32 CPUs in 16 cores, 32 usable" in text, text)
        check("node 1: 256.0 GiB, CPUs 8-15,24-31, distances 21 10" in text, text)


def test_tree_nests_as_the_box_does():
    lines = tree(two_sockets(), 200)
    depth = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    kinds = [line.split()[0] for line in lines]
    for kind, level in (("package", 1), ("node", 2), ("PCIe", 3), ("GPU", 4), ("NIC", 4)):
        check({d for d, k in zip(depth, kinds) if k == kind} == {level}, "\n".join(lines))
    second = [i for i, k in enumerate(kinds) if k == "package"][1]
    check("NIC eth4:" in "".join(lines[second:]) and
          "NIC eth4:" not in "".join(lines[:second]), "\n".join(lines))


def test_tree_fits_the_terminal():
    write(two_sockets().xml)
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 47, 0, 0))
    process = subprocess.run([CHECK, "--xml", FILE], env={**ENV, "COLUMNS": "200"},
                             stdout=slave, timeout=20)
    os.close(slave)
    with open(master, "rb") as file:
        text = file.read1(4000).decode()
    widest = max(map(len, text.splitlines()))
    check(process.returncode == FINE and 40 < widest <= 47, text)


def test_broken_files():
    whole = two_sockets().xml
    for part in range(1, 12):
        refused(whole[:len(whole) * part // 12], "too early|without end|not a topology")
    refused("", "not a topology")
    refused("box\n", "not a topology")
    refused(b"\x7fELF\x02\x01\0\0\0<topology>", "not text")
    refused("<html><body/></html>", "line 1: this is not a topology")
    refused(whole + "<topology/>", "line \\d+: more follows")
    refused("</topology>", "an end without a beginning")
    refused('<topology version="2.0">\n</topology>', "hwloc cannot read this")
    refused(whole.replace("</object>", "</objects>", 1), "hwloc cannot read this")


def test_absurd_numbers():
    whole = two_sockets().xml
    refused(whole.replace('cpuset="0x', 'cpuset="0x' + "0" * 5000), "without end")
    for old, new in (('"PU" os_index="3"', '"PU" os_index="8192"'),
                     ('"PU" os_index="3"', '"PU" os_index="4294967294"'),
                     ('os_index="0"', 'os_index="-1"'),
                     ('nbobjs="2"', 'nbobjs="4000000000"'),
                     ('local_memory="', 'local_memory="99999999999999999999'),
                     ('<indexes length="4"', '<indexes length="99999999"'),
                     ('version="2.0"', 'version="9.0"')):
        write(whole.replace(old, new, 1))
        check(old in whole, old)
        run("--xml", FILE, status=(FINE, CANNOT))


def test_endless_files():
    refused("<topology>" + "<object>" * 100, "line 1: elements are nested more than 64")
    refused("<topology>" + "<a/>" * 300000 + "</topology>", "more than 262144 elements")
    refused('<!DOCTYPE topology [<!ENTITY a "aaaa">]><topology/>', "entities of its own")
    with open(FILE, "w") as file:
        file.truncate((64 << 20) + 1)
    _, errors = run("--xml", FILE, status=CANNOT)
    check("larger than 64 MiB" in errors, errors)


def test_no_file():
    for path, said in ((FILE + ".not", "No such file"), (FOLDER.name, "not a plain file"),
                       ("/dev/null", "not a plain file")):
        output, errors = run("--xml", path, status=CANNOT)
        check(output == "" and said in errors and errors.count("\n") == 1, errors)


def mutate(dice, text):
    """A few bytes are others or gone; mostly digits, so that many files stay XML."""
    for _ in range(dice.randint(1, 6)):
        digits = [i for i, c in enumerate(text) if c in b"0123456789abcdef"]
        kind = dice.random()
        if kind < 0.8:
            text[dice.choice(digits)] = dice.choice(b"0123456789abcdefx-")
        elif kind < 0.9:
            text[dice.randrange(len(text))] = dice.choice(b'"<>/= ')
        else:
            at = dice.randrange(len(text))
            text[at:at + dice.randint(0, 60)] = b""


def test_mutations_are_borne():
    """Whatever a file says: a box, or one line. hwloc itself crashes on some."""
    dice, taken = random.Random(6), 0
    for round_ in range(150):
        text = bytearray(random_box(round_ % 7).xml.encode())
        mutate(dice, text)
        write(bytes(text), "wb")
        output, errors = run("--json", "--xml", FILE, status=(FINE, CANNOT))
        check(errors.count("\n") == (output == ""), output + errors)
        if output:
            facts(json.loads(output))
            taken += 1
    check(10 < taken < 140, f"{taken} were taken: this tests little")


def test_this_box():
    output, errors = run("--json")
    check(errors == "", errors)
    document = json.loads(output)
    check(document["source"] == "hwloc" and document["host"] == os.uname().nodename)
    check(document["usable"] == ranges(os.sched_getaffinity(0)), output)
    names = {n["name"] for n in document["nics"]}
    there = {n for n in os.listdir("/sys/class/net")
             if os.path.exists(f"/sys/class/net/{n}/type")} - {"lo"}
    check(names == there, f"{names} {there}")
    for nic in document["nics"]:
        with open(f"/sys/class/net/{nic['name']}/mtu") as file:
            check(nic["mtu"] == int(file.read()), output)


def test_this_box_as_a_tree():
    output, _ = run(status=(FINE, WRONG), env={"COLUMNS": "200"})
    first = output.splitlines()[0]
    cpus = len(os.sched_getaffinity(0))
    check(first.startswith(os.uname().nodename + ": ") and f" {cpus} usable" in first,
          output)
    check(re.search(r"^ +package \d+: ", output, re.M), output)


def test_the_affinity_counts():
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        raise Skip("one CPU")
    last = max(cpus)
    output, _ = run("--json", preexec_fn=lambda: os.sched_setaffinity(0, {last}))
    document = json.loads(output)
    check(document["usable"] == str(last) and document["n_usable"] == 1, output)
    check(document["n_cpus"] >= len(cpus), output)
    check([c["number"] for c in document["cpus"] if c["usable"]] == [last], output)


def test_another_box_in_the_environment():
    """HWLOC_XMLFILE makes hwloc describe a file; that is not this box."""
    write(two_sockets().xml)
    document = json.loads(run("--json", env={"HWLOC_XMLFILE": FILE})[0])
    check(document["source"] == "flat" and len(document["packages"]) == 1, document)
    check(document["usable"] == ranges(os.sched_getaffinity(0)))
    check([n["usable"] for n in document["nodes"]] == [document["usable"]])


def test_json_is_alone():
    for args in (("--json", "--env"), ("--json", "--plan", "4", "2")):
        output, errors = run(*args, status=CANNOT)
        check(output == "" and "--json shows the box alone" in errors, errors)


def main():
    tests = [(name, function) for name, function in globals().items()
             if name.startswith("test_") and callable(function)]
    wanted = sys.argv[2:]
    tests = [t for t in tests if not wanted or t[0] in wanted]
    if json.loads(run("--json")[0])["source"] == "flat":
        print("1..0 # SKIP no hwloc 2 here")
        return 0
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except Exception as error:  # a test that broke is a test that failed
            failed += 1
            print(f"not ok {number} - {name}")
            for text in traceback.format_exception(error):
                print("# " + text.rstrip().replace("\n", "\n# "), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
