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

from boxes import Box, Node, Package, facts, random_box, ranges

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import Skip, check, run_all  # noqa: E402

CHECK = sys.argv[1]
FINE, WRONG, CANNOT = 0, 1, 2
FOLDER = tempfile.TemporaryDirectory(prefix="bpsmpi-boxes-")
FILE = os.path.join(FOLDER.name, "box.xml")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("BPSMPI_", "HWLOC_"))}


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


def split(lines):
    """The tree, and what a job does there."""
    at = next(i for i, line in enumerate(lines) if line.startswith("what a job does"))
    return lines[:at], lines[at + 1:]


def plan(box, document=None):
    """The plan, with names in place of indices."""
    document = document or same(box)
    made = document["plan"]

    def number(i):
        return None if i is None else document["nodes"][i]["number"]

    def name(i):
        return None if i is None else document["nics"][i]["name"]

    def matrix(rows):
        return {(number(i), number(j)): bytes_ for i, row in enumerate(rows)
                for j, bytes_ in enumerate(row) if bytes_}

    server = [(number(t["node"]), t["cpus"]) for t in made["server"]]
    return {
        "groups": [number(g["node"]) for g in made["groups"]],
        "home": number(made["groups"][made["home"]]["node"]),
        "wire": number(made["wire_node"]),
        "rails": {name(r["nic"]): r["share"] for r in made["rails"]},
        "left out": {name(c["nic"]): c["why"] for c in made["left_out"]},
        "engine": (number(made["engine"]["node"]), made["engine"]["cpus"]),
        "server": {t: server.count(t) for t in server},
        "gpus": [([document["gpus"][i]["bus"] for i in g["gpus"]], number(g["node"]),
                  name(g["nic"])) for g in made["gpu_groups"]],
        "alone": matrix(made["crossings"]["alone"]),
        "boxes": matrix(made["crossings"]["boxes"]),
    }


def is_plan(box, **expected):
    found = plan(box)
    for key, value in expected.items():
        key = key.replace("_", " ")
        check(found[key] == value, f"{key}:\n{found[key]}\nis not\n{value}")
    return found


def test_two_sockets_with_two_switches():
    document = same(two_sockets())
    check(len(document["bridges"]) == 4 and len(document["gpus"]) == 16)
    check(len(document["nics"]) == 8)
    # Of each byte one comes to node 0 and one goes back; half of the cards are on node 1.
    found = is_plan(
        two_sockets(), groups=[0, 1], home=0, wire=0, left_out={},
        rails={f"eth{i}": 0.125 for i in range(8)}, engine=(0, "0-7,16-23"),
        server={(0, "0-7,16-23"): 16, (1, "8-15,24-31"): 16},
        alone={(0, 1): 1, (1, 0): 1}, boxes={(0, 1): 1.5, (1, 0): 1.5})
    check([(len(g), node, nic) for g, node, nic in found["gpus"]] ==
          [(4, 0, "eth0"), (4, 0, "eth2"), (4, 1, "eth4"), (4, 1, "eth6")], found["gpus"])
    below = {g["bus"]: g["bridge"] for g in document["gpus"]}
    check([len({below[bus] for bus in g}) for g, _, _ in found["gpus"]] == [1] * 4)


def test_four_nodes_and_one_nic():
    far = [[10 + 10 * abs(i - j) for j in range(4)] for i in range(4)]
    box = Box([Package(p, [Node(p, devices=[("nic", "eth0")] if p == 2 else ())])
               for p in range(4)], distances=far)
    check(same(box)["nics"][0]["node"] == 2)
    is_plan(box, groups=[0, 1, 2, 3], home=2, wire=2, rails={"eth0": 1},
            engine=(2, "8-11"), server={(2, "8-11"): 4}, gpus=[],
            alone={(i, j): 0.5 for i in range(4) for j in range(4) if i != j},
            boxes={**{(i, 2): 1 for i in (0, 1, 3)}, **{(2, i): 1 for i in (0, 1, 3)}})


def test_one_way_distances():
    same(Box([Package(p, [Node(p)]) for p in range(3)],
             distances=[[10, 20, 30], [40, 10, 50], [60, 70, 10]]))


def test_clusters_inside_a_package():
    box = Box([Package(0, [Node(0, devices=[("gpu",)]),
                           Node(1, devices=[("nic", "eth1")])], devices=[("gpu",)])])
    document = same(box)
    check(sorted(str(g["node"]) for g in document["gpus"]) == ["0", "None"])
    found = is_plan(box, groups=[0, 1], home=1, wire=1, engine=(1, "4-7"),
                    rails={"eth1": 1}, boxes={(0, 1): 1, (1, 0): 1})
    check({(node, nic) for _, node, nic in found["gpus"]} ==
          {(0, "eth1"), (None, "eth1")}, found["gpus"])


def test_memory_alone():
    box = Box([Package(0, [Node(0)]), Package(1, [Node(1)])], alone=[Node(2, 0, gib=512)])
    same(box)
    check(any("node 2: 512.0 GiB, memory alone" in line for line in tree(box)))
    is_plan(box, groups=[0, 1], home=0, rails={}, server={(0, "0-3"): 4, (1, "4-7"): 4},
            alone={(0, 1): 1, (1, 0): 1}, boxes={(0, 1): 1, (1, 0): 1})


def test_no_pci():
    box = Box([Package(0, [Node(0)])])
    document = same(box)
    check(not document["bridges"] and not document["nics"] and not document["gpus"])
    is_plan(box, groups=[0], home=0, wire=0, rails={}, left_out={}, gpus=[],
            engine=(0, "0-3"), server={(0, "0-3"): 4}, alone={}, boxes={})


def test_one_allowed_hyperthread():
    box = Box([Package(0, [Node(0, 4, 2)])], allowed=[6])
    document = same(box)
    check(document["n_usable"] == 1 and document["n_cpus"] == 8)
    check(any("(1 of 8 usable: 6)" in line for line in tree(box)), tree(box))
    is_plan(box, groups=[0], engine=(0, "6"), server={(0, "6"): 1})


def test_all_in_one_control_group():
    """The card is on another node than all that may be used."""
    box = Box([Package(p, [Node(p, 4, 1, devices=[("nic", "eth0")] if p == 0 else ())])
               for p in (0, 1)], allowed=[5, 6, 7])
    is_plan(box, groups=[1], home=1, wire=1, rails={"eth0": 1}, engine=(1, "5-7"),
            server={(1, "5-7"): 3}, alone={}, boxes={(1, 0): 1, (0, 1): 1})


def test_asymmetric():
    """Nodes of 6, 2 and 1 cores; the card's node may not be used, node 2 is closer to it
    than node 0."""
    box = Box([Package(0, [Node(0, 6)]),
               Package(1, [Node(1, 2, devices=[("nic", "eth1"), ("nic", "eth2")]),
                           Node(2, 1, devices=[("gpu",), ("nic", "eth0")])])],
              allowed=[0, 1, 2, 3, 4, 5, 8], distances=[[10, 31, 40], [31, 10, 12],
                                                        [40, 12, 10]])
    found = is_plan(box, groups=[0, 2], home=2, wire=2, engine=(2, "8"),
                    server={(0, "0-5"): 6, (2, "8"): 1}, alone={(0, 2): 1, (2, 0): 1})
    # The two cards of node 1 have two thirds of all.
    boxes = {(0, 2): 1, (2, 0): 1, (2, 1): 2 / 3, (1, 2): 2 / 3}
    check(found["boxes"].keys() == boxes.keys() and
          all(abs(found["boxes"][k] - v) < 1e-6 for k, v in boxes.items()), found["boxes"])
    check([nic for _, _, nic in found["gpus"]] == ["eth0"], found["gpus"])


def test_more_cards_than_are_used():
    box = Box([Package(0, [Node(0, devices=[("nic", f"n{i}") for i in range(10)])])])
    found = is_plan(box, rails={f"n{i}": 0.125 for i in range(8)})
    check(found["left out"] == dict.fromkeys(("n8", "n9"), "eight others are used"), found)


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
            document = same(random_box(seed))
            rails, others = document["plan"]["rails"], document["plan"]["left_out"]
            check(sorted(n["nic"] for n in rails + others) ==
                  list(range(len(document["nics"]))), rails)
            check(not rails or abs(sum(r["share"] for r in rails) - 1) < 1e-6, rails)
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
        text = re.sub(r"\s+", " ", " ".join(split(lines)[0]))
        for bus in [*box.found["gpus"], *box.found["bridges"]]:
            check(len(re.findall(rf"\b{bus}\b", text)) == 1, bus + text)
        for name in box.found["nics"]:
            check(text.count(f"NIC {name}: speed unknown") == 1, name + text)
        check("made-up: 512.0 GiB, 32 CPUs in 16 cores, 32 usable" in text, text)
        check("node 1: 256.0 GiB, CPUs 8-15,24-31, distances 21 10" in text, text)


def test_tree_nests_as_the_box_does():
    lines, _ = split(tree(two_sockets(), 200))
    depth = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    kinds = [line.split()[0] for line in lines]
    for kind, level in (("package", 1), ("node", 2), ("PCIe", 3), ("GPU", 4), ("NIC", 4)):
        check({d for d, k in zip(depth, kinds) if k == kind} == {level}, "\n".join(lines))
    second = [i for i, k in enumerate(kinds) if k == "package"][1]
    check("NIC eth4:" in "".join(lines[second:]) and
          "NIC eth4:" not in "".join(lines[:second]), "\n".join(lines))


def test_tree_says_what_a_job_does():
    box = two_sockets()
    for columns in (60, 200):
        text = re.sub(r"\s+", " ", " ".join(split(tree(box, columns))[1]))
        for said in ("groups: node 0, node 1; the ranks of each sum first, those of node 0 "
                     "for other boxes", "network: eth0 12.5%, eth1 12.5%,",
                     "engine: 1 thread on CPUs 0-7,16-23 of node 0",
                     "16 threads on CPUs 8-15,24-31 of node 1",
                     "for each byte of an allreduce: 2 in a job on this box, 3 in one on "
                     "several, at most 1.5 one way"):
            check(said in text, said + text)
        for bus in box.found["gpus"]:
            check(text.count(bus) == 1, bus + text)
        check(text.count("not used") == 0 and "PIX" not in text, text)
        check(all(f": NIC eth{i}" in text for i in (0, 2, 4, 6)), text)
        check(text.count("GPUs ") == 4, text)
    box = Box([Package(0, [Node(0, devices=[("gpu",), ("nic", "eth0")])])])
    text = "\n".join(split(tree(box))[1])
    check(f"  GPU {next(iter(box.found['gpus']))}: NIC eth0" in text, text)


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


def test_cards_of_this_box():
    """Each is used, or left out for a reason; BPSMPI_INTERFACE narrows."""
    def cards(**env):
        output, errors = run("--json", env=env)
        check(errors == "", errors)
        document = json.loads(output)
        found = plan(None, document)
        names = [n["name"] for n in document["nics"]]
        check(sorted([*found["rails"], *found["left out"]]) == names, found)
        return found

    found = cards()
    why = "not in BPSMPI_INTERFACE"
    check(why not in found["left out"].values(), found)
    for name in found["rails"]:
        narrow = cards(BPSMPI_INTERFACE=name)
        check(list(narrow["rails"]) == [name], narrow)
        check(all(narrow["left out"][other] == why for other in found["rails"]
                  if other != name), narrow)
    alone = cards(BPSMPI_SERVERS="127.0.0.1:7000")  # no card leads there
    check(not alone["rails"] and all(alone["left out"][name] == "no way to the servers"
                                     for name in found["rails"]), alone)
    check(cards(BPSMPI_SERVERS="no-such-host.invalid") == found)
    none = cards(BPSMPI_INTERFACE="no-such-card")
    check(not none["rails"] and not none["boxes"], none)
    check(all(none["left out"][name] == why for name in found["rails"]), none)


def as_this_box(box, *args, **env):
    """What is said of a box that hwloc takes for this one."""
    write(box.xml)
    return run(*args, status=(FINE, WRONG),
               env={"HWLOC_XMLFILE": FILE, "HWLOC_THISSYSTEM": "1", "COLUMNS": "80",
                    "FAKE_NVML_TELLS": "1", **env})


def fake_nvml():
    if "FAKE_NVML" not in os.environ:
        raise Skip("FAKE_NVML is not set")
    return {"LD_LIBRARY_PATH": os.path.dirname(os.environ["FAKE_NVML"])}


def test_nvlinks():
    """The GPUs of fake-nvml.c; below one bridge, and others that it does not know."""
    gpus = Box([Package(0, [Node(0, devices=[("switch", [("gpu",)] * 6)])])])
    buses = list(gpus.found["gpus"])
    check(buses[:4] == [f"0000:{bus:02x}:00.0" for bus in (4, 6, 8, 10)], buses)
    output, errors = as_this_box(gpus, "--json", **fake_nvml())
    check(errors == "the fake NVML is loaded\n", errors)
    document = json.loads(output)
    links = [[0] * 6 for _ in range(6)]
    links[0][1] = links[1][0] = 2 + min(3, 2)
    links[0][2] = links[2][0] = 1
    check(document["nvlinks"] == links, document["nvlinks"])
    check([g["model"] for g in document["gpus"]][:3] ==
          ["NVIDIA Fake A", "NVIDIA Fake B", "NVIDIA Fake?C"], document["gpus"])
    lines = as_this_box(gpus, **fake_nvml())[0].splitlines()
    rows = [line.split() for line in lines if re.match(r" +G\d", line)]
    check(rows[0][:4] == ["G0", "0000:04:00.0", "X", "NV4"] and len(rows) == 6, lines)
    check([row[2:] for row in rows][:2] == [["X", "NV4", "NV1", "PIX", "PIX", "PIX"],
                                            ["NV4", "X", "PIX", "PIX", "PIX", "PIX"]])


def test_many_gpus_fit_the_width():
    box = Box([Package(p, [Node(2 * p + i, devices=[
        ("switch", [("switch", [("gpu",)] * 2), ("switch", [("gpu",)] * 2)])])
        for i in (0, 1)]) for p in (0, 1)])
    lines = as_this_box(box, **fake_nvml())[0].splitlines()
    at = next(i for i, line in enumerate(lines) if re.match(" +GPUs +G0 ", line))
    table = [line for line in lines[at:] if re.match(r" +(GPUs +G0|G\d)", line)]
    rows = [line.split() for line in table if re.match(r" +G\d+ *0000", line)]
    check(max(len(line) for line in table) <= 80, "\n".join(table))
    cells = {}
    for row in rows:
        cells.setdefault(row[0], []).extend(row[2:])
    check(len(cells) == 16 and all(len(c) == 16 for c in cells.values()), cells)
    # Pairs below a switch, two of those below a third, one such on each of four nodes.
    check(cells["G15"][8:] == ["SYS"] * 4 + ["PXB"] * 2 + ["PIX", "X"], cells["G15"])


def test_nvml_stays_out_where_it_is_not_needed():
    for box in (Box([Package(0, [Node(0)])]), None):
        if box:
            output, errors = as_this_box(box, "--json", **fake_nvml())
        else:
            write(two_sockets().xml)
            output, errors = run("--xml", FILE, "--json",
                                 env={"FAKE_NVML_TELLS": "1", **fake_nvml()})
        check(errors == "" and json.loads(output)["nvlinks"] is None, errors)


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
    if json.loads(run("--json")[0])["source"] == "flat":
        print("1..0 # SKIP no hwloc 2 here")
        return 0
    return run_all(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
