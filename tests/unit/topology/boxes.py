# SPDX-License-Identifier: BSD-3-Clause
"""Boxes of our own making, as hwloc XML and as what should be found in it.

A box is made of Package and Node; devices are ("gpu",), ("nic", NAME) or
("switch", [DEVICE...]). Every device has a port of its own below its bridge, as in PCIe.
"""

import random
from xml.sax.saxutils import escape


class Node:
    def __init__(self, number, n_cores=4, n_threads=1, gib=16, devices=()):
        self.number, self.n_cores, self.n_threads = number, n_cores, n_threads
        self.bytes, self.devices = gib << 30, devices


class Package:
    def __init__(self, number, nodes, devices=(), model="Made Up 9000"):
        self.number, self.nodes, self.devices = number, nodes, devices
        self.model = model


def bits(numbers):
    """A set as hwloc writes it: words of 32 bits, the highest first."""
    value = sum(1 << n for n in numbers)
    words = []
    while value or not words:
        words.insert(0, f"0x{value & 0xffffffff:08x}")
        value >>= 32
    return ",".join(words)


def ranges(numbers):
    """A set as the kernel writes it."""
    parts, numbers = [], sorted(numbers)
    while numbers:
        n = 1
        while n < len(numbers) and numbers[n] == numbers[0] + n:
            n += 1
        parts.append(f"{numbers[0]}" if n == 1 else f"{numbers[0]}-{numbers[n - 1]}")
        numbers = numbers[n:]
    return ",".join(parts)


class Box:
    """.xml is the description; .found what bpsmpi-check must say, by .facts()."""

    def __init__(self, packages, alone=(), allowed=None, distances=None, devices=(),
                 host="made-up"):
        self.lines, self.gp, self.bus = [], 0, 0
        self.found = {"packages": {}, "nodes": {}, "cpus": {}, "bridges": {},
                      "nics": {}, "gpus": {}}
        self.core = 0
        self.n_cores = sum(n.n_cores for p in packages for n in p.nodes)
        self.of = {}  # CPUs of each node
        first = 0
        for package in packages:
            for node in package.nodes:
                self.of[node.number] = [[first + c + t * self.n_cores
                                         for t in range(node.n_threads)]
                                        for c in range(node.n_cores)]
                first += node.n_cores
        every = self.cpus_of(self.of)
        self.allowed = set(every if allowed is None else allowed)
        numbers = list(self.of) + [n.number for n in alone]
        self.distances = distances
        self.order = sorted(numbers)
        self.open("Machine", 0, every, numbers, f'allowed_cpuset="{bits(self.allowed)}" '
                  f'allowed_nodeset="{bits(numbers)}"')
        self.info("HostName", host)
        for node in alone:
            self.node(node, None, [])
        for package in packages:
            self.package(package)
        single = packages[0] if len(self.of) == 1 else None
        self.pci(devices, single and single.number, single and single.nodes[0].number)
        self.close()
        if distances:
            self.matrix()
        self.xml = "\n".join(
            ['<?xml version="1.0" encoding="UTF-8"?>',
             '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', '<topology version="2.0">',
             *self.lines, '</topology>', ''])
        self.found["usable"] = ranges(self.allowed)
        self.found["memory"] = sum(n["memory"] for n in self.found["nodes"].values())
        self.found["n_cores"] = self.n_cores
        self.found["host"] = host

    def cpus_of(self, nodes):
        return [cpu for number in nodes for core in self.of[number] for cpu in core]

    def add(self, text):
        self.lines.append(text)

    def open(self, kind, number, cpus, nodes, more=""):
        self.gp += 1
        c, n = bits(cpus), bits(nodes)
        self.add(f'<object type="{kind}" os_index="{number}" cpuset="{c}" '
                 f'complete_cpuset="{c}" nodeset="{n}" complete_nodeset="{n}" '
                 f'gp_index="{self.gp}" {more}>')

    def close(self):
        self.add("</object>")

    def info(self, name, value):
        self.add(f'<info name="{name}" '
                 f'value="{escape(value, {chr(34): "&quot;"})}"/>')

    def node(self, node, package, cpus):
        self.open("NUMANode", node.number, cpus, [node.number],
                  f'local_memory="{node.bytes}"')
        self.close()
        row = None
        if self.distances:
            row = {n: self.distances[self.order.index(node.number)][i]
                   for i, n in enumerate(self.order)}
        self.found["nodes"][node.number] = {
            "package": package, "memory": node.bytes, "cpus": ranges(cpus),
            "usable": ranges(self.allowed & set(cpus)), "distances": row}

    def package(self, package):
        numbers = [n.number for n in package.nodes]
        self.open("Package", package.number, self.cpus_of(numbers), numbers)
        self.info("CPUModel", package.model)
        self.found["packages"][package.number] = {
            "model": "".join(c if " " <= c <= "~" else "?" * len(c.encode())
                             for c in package.model)}
        for node in package.nodes:
            cpus = self.cpus_of([node.number])
            if len(numbers) > 1:
                self.open("Group", node.number, cpus, [node.number],
                          'kind="0" subkind="0"')
            self.node(node, package.number, cpus)
            for core in self.of[node.number]:
                self.one_core(core, package.number, node.number)
            self.pci(node.devices, package.number, node.number)
            if len(numbers) > 1:
                self.close()
        node = numbers[0] if len(numbers) == 1 else None
        self.pci(package.devices, package.number, node)
        self.close()

    def one_core(self, cpus, package, node):
        self.open("Core", self.core, cpus, [node])
        for cpu in cpus:
            self.open("PU", cpu, [cpu], [node])
            self.close()
            self.found["cpus"][cpu] = {"package": package, "node": node,
                                       "usable": cpu in self.allowed, "with": cpus}
        self.core += 1
        self.close()

    # -- PCI --

    def address(self):
        self.bus += 1
        return f"{self.bus >> 8:04x}:{self.bus & 255:02x}:00.0"

    def bridge(self):
        """A port; the bus below it is one that is not used."""
        bus = self.address()
        self.gp += 1
        self.add(f'<object type="Bridge" gp_index="{self.gp}" bridge_type="1-1" '
                 f'depth="1" bridge_pci="{bus[:4]}:[{bus[5:7]}-ff]" pci_busid="{bus}" '
                 'pci_type="0604 [1000:c010] [0000:0000] b0" '
                 'pci_link_speed="31.507692">')
        return bus

    def pci(self, devices, package, node):
        if not devices:
            return
        self.gp += 1
        self.add(f'<object type="Bridge" gp_index="{self.gp}" bridge_type="0-1" '
                 'depth="0" bridge_pci="0000:[00-ff]">')
        for device in devices:
            self.device(device, {"package": package, "node": node, "bridge": None})
        self.close()

    def device(self, device, place):
        bus = self.bridge()
        if device[0] == "switch":
            up = self.bridge()
            below = dict(place, bridge=up) if len(device[1]) > 1 else place
            if len(device[1]) > 1:
                self.found["bridges"][up] = place
            for each in device[1]:
                self.device(each, below)
            self.close()
        else:
            self.leaf(device, place)
        self.close()

    def leaf(self, device, place):
        bus = self.address()
        self.gp += 1
        kind = "0302 [10de:20b0]" if device[0] == "gpu" else "0200 [15b3:101b]"
        self.add(f'<object type="PCIDev" gp_index="{self.gp}" pci_busid="{bus}" '
                 f'pci_type="{kind} [0000:0000] a1" pci_link_speed="31.507692">')
        self.info("PCIVendor", "Maker")
        self.info("PCIDevice", f"{device[0]} X1")
        if device[0] == "gpu":
            self.found["gpus"][bus] = dict(place, model="Maker gpu X1", vendor="10de",
                                           device="20b0", pci_class="0302")
        else:
            self.os_device(device[1], 2)
            self.os_device("mlx5_" + device[1], 3)
            self.found["nics"][device[1]] = dict(
                place, bus=bus, model="Maker nic X1", verbs=("mlx5_" + device[1])[:15])
        self.close()

    def os_device(self, name, kind):
        self.gp += 1
        self.add(f'<object type="OSDev" gp_index="{self.gp}" name="{name}" '
                 f'osdev_type="{kind}"/>')

    def matrix(self):
        n = len(self.order)
        indexes = " ".join(map(str, self.order)) + " "
        values = " ".join(str(v) for row in self.distances for v in row) + " "
        self.add(f'<distances2 type="NUMANode" nbobjs="{n}" kind="5" '
                 f'name="NUMALatency" indexing="os">'
                 f'<indexes length="{len(indexes)}">{indexes}</indexes>'
                 f'<u64values length="{len(values)}">{values}</u64values></distances2>')


def facts(json):
    """What bpsmpi-check says, with names in place of indices, as Box.found has it."""
    def number(kind, i, key="number"):
        return None if i is None else json[kind][i][key]

    def place(thing, bridge="bridge"):
        return {"package": number("packages", thing["package"]),
                "node": number("nodes", thing["node"]),
                "bridge": number("bridges", thing[bridge], "bus")}

    def pick(thing, *names):
        return {name: thing[name] for name in names}

    order = [n["number"] for n in json["nodes"]]
    cores = {}
    for cpu in json["cpus"]:
        cores.setdefault(cpu["core"], []).append(cpu["number"])
    return {
        "host": json["host"], "usable": json["usable"], "n_cores": json["n_cores"],
        "memory": json["memory_bytes"],
        "packages": {p["number"]: pick(p, "model") for p in json["packages"]},
        "nodes": {n["number"]: {
            "package": number("packages", n["package"]), "memory": n["memory_bytes"],
            "cpus": n["cpus"], "usable": n["usable"],
            "distances": n["distances"] and dict(zip(order, n["distances"]))}
            for n in json["nodes"]},
        "cpus": {c["number"]: {
            "package": number("packages", c["package"]),
            "node": number("nodes", c["node"]), "usable": c["usable"],
            "with": sorted(cores[c["core"]])} for c in json["cpus"]},
        "bridges": {b["bus"]: place(b, "above") for b in json["bridges"]},
        "nics": {n["name"]: dict(place(n), **pick(n, "bus", "model", "verbs"))
                 for n in json["nics"]},
        "gpus": {g["bus"]: dict(place(g), **pick(g, "model", "vendor", "device",
                                                 "pci_class")) for g in json["gpus"]},
    }


def random_devices(dice, names, depth=0):
    """Some devices, maybe below switches of switches; names of cards come from a list."""
    made = []
    for _ in range(dice.randint(0, 3)):
        kind = dice.choice(["gpu", "nic", "switch"] if depth < 3 else ["gpu", "nic"])
        if kind == "gpu":
            made.append(("gpu",))
        elif kind == "nic":
            names.append(f"n{len(names)}")
            made.append(("nic", names[-1]))
        else:
            below = random_devices(dice, names, depth + 1)
            if below:
                made.append(("switch", below))
    return made


def random_box(seed):
    dice, names, packages, number = random.Random(seed), [], [], 0
    for package in range(dice.randint(1, 4)):
        nodes = []
        for _ in range(dice.randint(1, 3)):
            nodes.append(Node(number, dice.randint(1, 5), dice.randint(1, 2),
                              dice.randint(1, 900), random_devices(dice, names)))
            number += 1
        packages.append(Package(package, nodes, random_devices(dice, names)))
    alone = [Node(number + i, 0, gib=dice.randint(1, 99))
             for i in range(dice.randint(0, 2))]
    number += len(alone)
    distances = [[10 if i == j else dice.randint(11, 99) for j in range(number)]
                 for i in range(number)] if dice.random() < 0.7 and number > 1 else None
    box = Box(packages, alone, None, distances)
    every = sorted(box.allowed)
    some = dice.sample(every, dice.randint(1, len(every)))
    names.clear()
    return Box(packages, alone, some, distances, random_devices(dice, ["x"]))
