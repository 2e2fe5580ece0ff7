#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-check --svg: the pictures' structure, the bytes on their links, their file.

usage: test-svg.py BPSMPI_CHECK [NAME...]
       test-svg.py BPSMPI_CHECK --draw FOLDER

Prints TAP. With names, only those tests run. --draw makes the pictures of docs/.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "topology"))
from boxes import Box, Node, Package, random_box  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import check, run_all  # noqa: E402

CHECK = sys.argv[1]
FINE, CANNOT = 0, 2
DOCS = os.path.join(HERE, "..", "..", "..", "docs")
FOLDER = tempfile.TemporaryDirectory(prefix="bpsmpi-svg-")
XML = os.path.join(FOLDER.name, "box.xml")
SVG = os.path.join(FOLDER.name, "box.svg")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("BPSMPI_", "HWLOC_"))}
SPACE = "{http://www.w3.org/2000/svg}"


def run(*args, status=FINE, **how):
    process = subprocess.run([CHECK, *map(str, args)], env=ENV, text=True, timeout=20,
                             capture_output=True, stdin=subprocess.DEVNULL, **how)
    check(process.returncode == status,
          f"{args}: status {process.returncode}\n{process.stdout}{process.stderr}")
    return process.stdout, process.stderr


# -- boxes --

def training(gpus=2):
    """2 sockets, 2 switches on each, GPUs and a network card below each switch."""
    def switch(first):
        return ("switch", [("gpu",)] * gpus + [("nic", f"eth{first}")])

    return Box([Package(p, [Node(p, 16, 2, 512, [switch(2 * p), switch(2 * p + 1)])])
                for p in (0, 1)], distances=[[10, 21], [21, 10]], host="gpu1")


def full():
    def switch(first):
        return ("switch", [("gpu",)] * 4 + [("nic", f"eth{first}"),
                                            ("nic", f"eth{first + 1}")])

    return Box([Package(p, [Node(p, 8, 2, 256, [switch(4 * p), switch(4 * p + 2)])])
                for p in (0, 1)])


def four_nodes():
    return Box([Package(0, [Node(0, 8), Node(1, 8)]),
                Package(1, [Node(2, 8, devices=[("nic", "eth0")]), Node(3, 8)])],
               host="cpu1")


def eight_nodes():
    def devices(number):
        return [("gpu",), ("gpu",), ("nic", f"eth{number}")]

    return Box([Package(p, [Node(4 * p + i, 4, devices=devices(4 * p + i))
                            for i in range(4)]) for p in (0, 1)])


def small():
    return Box([Package(0, [Node(0, 8, devices=[("nic", "eth0")])]),
                Package(1, [Node(1, 8)])], host="cpu1")


PICTURES = {
    "training": (training, ()),
    "nodes": (four_nodes, ()),
    "job": (small, ("--plan", 4, 2, "-b", "10Gbit")),
}


# -- reading a picture --

class Rect:
    def __init__(self, x, y, w, h):
        self.x, self.y, self.w, self.h = x, y, w, h

    def holds(self, other, slack=0):
        return (self.x - slack <= other.x and self.y - slack <= other.y and
                other.x + other.w <= self.x + self.w + slack and
                other.y + other.h <= self.y + self.h + slack)

    def meets(self, other):
        return (self.x < other.x + other.w and other.x < self.x + self.w and
                self.y < other.y + other.h and other.y < self.y + self.h)

    def __repr__(self):
        return f"[{self.x} {self.y} {self.w} {self.h}]"


def width(text, strong):
    """About as wide as common fonts have it, in pixels of text with 13."""
    ems = sum(0.33 if c in "ijlf.,:;'|!()[]/-tI " else 0.95 if c in "mwMW@%" else
              0.7 if c.isupper() else 0.6 for c in text)
    return 13 * ems * (1.08 if strong else 1)


class Text:
    def __init__(self, element):
        self.text = element.text or ""
        strong = element.get("class") == "strong"
        w, turned = width(self.text, strong), element.get("transform")
        if turned:
            x, y = map(float, re.match(r"translate\((\S+) (\S+)\) rotate\(-90\)$",
                                       turned).groups())
            self.rect = Rect(x - 10, y - w / 2, 13, w)
            return
        x, y = float(element.get("x")), float(element.get("y"))
        x -= {None: 0, "start": 0, "middle": w / 2, "end": w}[element.get("text-anchor")]
        self.rect = Rect(x, y - 10, w, 13)


class Cell:
    """A group with its frame; its hint, texts, and what is inside."""

    def __init__(self, element, parent):
        self.kinds = element.get("class").split()
        self.hint = element.findtext(SPACE + "title")
        frame = element.find(SPACE + "rect")
        self.rect = Rect(*(float(frame.get(k)) for k in ("x", "y", "width", "height")))
        self.texts = [Text(t) for t in element.findall(SPACE + "text")]
        self.parent = parent
        self.cells = [Cell(g, self) for g in element.findall(SPACE + "g")]

    def every(self):
        yield self
        for cell in self.cells:
            yield from cell.every()

    def says(self, text):
        return any(t.text == text for t in self.texts)


class Link:
    def __init__(self, element):
        self.name, out, back = re.match(r"(.*): out (\S+) M, in (\S+) M$", element.findtext(
            SPACE + "title")).groups()
        self.out, self.back = number(out), number(back)
        self.texts = [Text(t) for t in element.findall(SPACE + "text")]
        self.paths = []
        for path in element.findall(SPACE + "path"):
            x, y, to = map(float, re.match(r"M(\S+) (\S+)H([\d.-]+)m", path.get(
                "d")).groups())
            self.paths.append((x, y, to))


def number(text):
    return 0.0002 if text.startswith("<") else float(text)


class Picture:
    def __init__(self, path=SVG):
        with open(path, encoding="ascii") as file:
            self.source = file.read()
        root = ET.fromstring(self.source)
        check(root.tag == SPACE + "svg", root.tag)
        self.view = Rect(*map(float, root.get("viewBox").split()))
        self.title = root.findtext(SPACE + "title")
        self.desc = root.findtext(SPACE + "desc")
        paper = root.find(SPACE + "rect")
        check(Rect(*(float(paper.get(k)) for k in ("x", "y", "width", "height"))).holds(
            self.view), "the picture has no ground of its own")
        groups = root.findall(SPACE + "g")
        self.texts = [Text(t) for t in root.findall(SPACE + "text")]
        self.cells = [Cell(g, None) for g in groups if g.get("class") != "link"]
        self.links = [Link(g) for g in groups if g.get("class") == "link"]
        self.notes = " ".join(t.text for t in self.texts)

    def every(self, *kinds):
        found = [c for top in self.cells for c in top.every()]
        return [c for c in found if not kinds or c.kinds[0] in kinds]

    def one(self, hint):
        """The cell whose hint this is, or begins with it and a space or colon."""
        found = [c for c in self.every() if c.hint == hint or
                 c.hint.startswith((hint + ":", hint + " ", hint + ";"))]
        check(len(found) == 1, f"{hint}: {len(found)} times")
        return found[0]

    def link(self, name):
        found = [k for k in self.links if k.name == name]
        check(len(found) == 1, f"link of {name}: {len(found)} times")
        return found[0]


def apart(things, what):
    for i, a in enumerate(things):
        for b in things[:i]:
            check(not a.rect.meets(b.rect), f"{what}: {named(a)} is on {named(b)}")


def named(thing):
    return f"'{getattr(thing, 'hint', None) or thing.text}' {thing.rect}"


def tidy(picture):
    """Nothing is on anything, or outside of what it is in."""
    check(picture.title and picture.desc and picture.every())
    apart(picture.cells, "the whole")
    apart(picture.texts, "the whole")
    for text in picture.texts:
        check(picture.view.holds(text.rect), f"{named(text)} is outside")
    for cell in picture.every():
        check((cell.parent.rect if cell.parent else picture.view).holds(cell.rect),
              f"{named(cell)} is outside")
        apart(cell.cells, cell.hint)
        apart(cell.texts, cell.hint)
        for text in cell.texts:
            check(cell.rect.holds(text.rect), f"{named(text)} leaves {named(cell)}")
            check(not any(text.rect.meets(c.rect) for c in cell.cells),
                  f"{named(text)} is on what is in {named(cell)}")
    labels = [t for link in picture.links for t in link.texts]
    apart(labels, "links")
    for label in labels:
        check(picture.view.holds(label.rect), f"{named(label)} is outside")
        for cell in picture.every():
            check(cell.rect.holds(label.rect) or not cell.rect.meets(label.rect),
                  f"{named(label)} is on {named(cell)}")
            check(not any(t.rect.meets(label.rect) for t in cell.texts),
                  f"{named(label)} is on text of {named(cell)}")
    arrows(picture)


def arrows(picture):
    """A link's lines go from a bar to the cell whose name it has, and cross no chip."""
    bars = [c.rect for c in picture.every("bar")]
    chips = picture.every("gpu", "nic", "server", "table")
    for link in picture.links:
        check(len(link.paths) == (link.out > 0) + (link.back > 0), link.name)
        for x, y, to in link.paths:
            at = {x, to}
            owners = [c for c in picture.every() if c.says(link.name) and
                      {c.rect.x, c.rect.x + c.rect.w} & at and
                      c.rect.y < y < c.rect.y + c.rect.h]
            check(owners, f"the line of {link.name} begins nowhere")
            check(any({b.x, b.x + b.w} & at and b.y <= y <= b.y + b.h for b in bars),
                  f"the line of {link.name} leads to no bar")
            line = Rect(min(at) + 0.5, y - 4, abs(x - to) - 1, 8)
            for chip in chips:
                check(not chip.rect.meets(line), f"{link.name} crosses {named(chip)}")


# -- what is in it --

def parent_of(picture, place):
    """Where a thing with this place must be drawn."""
    if place.get("bridge"):
        return picture.one(f"PCIe bridge {place['bridge']}")
    if place.get("node") is not None:
        return picture.one(f"node {place['node']}")
    frames = [c for c in picture.every("package")
              if c.hint.split(":")[0] == f"package {place['package']}"]
    return frames[0] if frames else picture.every("box")[0]


def complete(picture, box):
    """All of the box is there once, each inside of what it belongs to."""
    found = box.found
    for kind, name, things in (("gpu", "GPU", found["gpus"]), ("nic", "NIC", found["nics"]),
                               ("bridge", "PCIe bridge", found["bridges"]),
                               ("node", "node", found["nodes"])):
        check(len(picture.every(kind)) == len(things), f"{kind}: not {len(things)}")
        for key, thing in things.items():
            cell, parent = picture.one(f"{name} {key}"), parent_of(picture, thing)
            check(cell.kinds[0] == kind and cell.parent is parent,
                  f"{cell.hint} is in {cell.parent and cell.parent.hint}")
            check(kind != "nic" or parent.rect.x + parent.rect.w -
                  cell.rect.x - cell.rect.w < 12, f"{cell.hint} is not at the border")
    for number_, node in found["nodes"].items():
        cell = picture.one(f"node {number_}")
        check(cell.says(f"node {number_}"))
        if len(found["packages"]) > 1 and cell.parent.kinds == ["box"]:
            check(cell.says(f"package {node['package']}") == (node["package"] is not None),
                  f"{cell.hint}: of which package?")


def draw(box, *args):
    with open(XML, "w") as file:
        file.write(box.xml)
    run("--xml", XML, "--svg", SVG, *args)
    picture = Picture()
    tidy(picture)
    return picture


# -- bytes --

def near(a, b):
    """Four digits are shown."""
    return abs(a - b) <= 0.00051 * max(abs(a), abs(b)) + 1e-4


def crossings(box):
    """What goes from node to node of a box where one rank runs on each, in M.

    With cards, the box is one of several: the node with most cards, the first of those,
    has the sums; all others send theirs there and take the answers from there, and so do
    cards on others. Without, each sums its part of all.
    """
    nodes = [n for n, node in sorted(box.found["nodes"].items()) if node["usable"]]
    cards = [nic["node"] for nic in box.found["nics"].values()]
    moved = {}

    def move(a, b, m):
        if a != b and None not in (a, b):
            moved[a, b] = moved.get((a, b), 0) + m

    if not cards:
        for a in nodes:
            for b in nodes:
                move(a, b, 2 / len(nodes))
        return moved
    home = max(nodes, key=lambda n: (cards.count(n), -n))
    for node in nodes:
        move(node, home, 1)
        move(home, node, 1)
    for card in cards:
        move(home, card, 1 / len(cards))
        move(card, home, 1 / len(cards))
    return moved


def counted(picture, box, wire=1.0):
    """The bytes on every link are those of our own arithmetic."""
    cards, moved = box.found["nics"], crossings(box)
    for name in cards:
        link = picture.link(name)
        check(near(link.out, wire / len(cards)) and near(link.back, wire / len(cards)),
              f"{name}: {link.out} {link.back}")
    for node in box.found["nodes"]:
        out = sum(m for (a, _), m in moved.items() if a == node)
        back = sum(m for (_, b), m in moved.items() if b == node)
        links = [k for k in picture.links if k.name == f"node {node}"]
        check(len(links) == (out + back > 0), f"node {node}: {len(links)} links")
        for link in links:
            check(near(link.out, out) and near(link.back, back),
                  f"node {node}: {link.out} {link.back}, not {out} {back}")
    for bus in box.found["bridges"]:
        check_bridge(picture, box, bus, wire)
    check_table(picture, moved)


def check_bridge(picture, box, bus, wire):
    def below(place):
        while place["bridge"] and place["bridge"] != bus:
            place = box.found["bridges"][place["bridge"]]
        return place["bridge"] == bus

    cards = box.found["nics"]
    m = wire * sum(map(below, cards.values())) / max(1, len(cards))
    said = [t.text for t in picture.one(f"PCIe bridge {bus}").texts[1:]]
    check(len(said) == (m > 0), f"{bus}: {said}")
    for text in said:
        out, back = re.match(r"out (\S+) M, in (\S+) M$", text).groups()
        check(near(number(out), m) and near(number(back), m), f"{bus}: {text}, not {m}")


def check_table(picture, moved):
    """Row by row, as it is read."""
    nodes = sorted({n for pair in moved for n in pair})
    tables = picture.every("table")
    check(len(tables) == (len(nodes) > 2), f"{len(tables)} tables")
    for table in tables:
        rows = {}
        for text in table.texts[1:]:
            if text.text:
                rows.setdefault(text.rect.y, []).append(text)
        rows = [[t.text for t in sorted(row, key=lambda t: t.rect.x)]
                for _, row in sorted(rows.items())]
        check(rows[0] == [f"node {n}" for n in nodes], rows[0])
        for node, row in zip(nodes, rows[1:], strict=True):
            check(row[0] == f"node {node}", row)
            for to, said in zip(nodes, row[1:], strict=True):
                m = moved.get((node, to), 0)
                check(near(0 if said == "-" else number(said.split()[0]), m),
                      f"{node} to {to}: {said}, not {m}")


# -- tests --

def test_training_box():
    box = training()
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(len(picture.every("gpu")) == 8 and len(picture.every("package")) == 0)


def test_sixteen_gpus_and_eight_cards():
    box = full()
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(near(picture.link("eth3").out, 1 / 8))


def test_four_nodes_and_one_card():
    box = four_nodes()
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(picture.link("node 2").out == 3 and picture.link("node 1").out == 1)
    check(picture.one("node 2").says("sums for the box"))
    check(not picture.one("node 1").says("sums for the box"))


def test_eight_nodes():
    box = eight_nodes()
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(len(picture.every("package")) == 2)


def test_no_card():
    """Without network cards the nodes sum among themselves."""
    box = Box([Package(p, [Node(p)]) for p in range(4)])
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(near(picture.link("node 3").out, 1.5) and len(picture.every("bar")) == 1)


def test_memory_alone():
    box = Box([Package(0, [Node(0)]), Package(1, [Node(1, devices=[("nic", "eth0")])])],
              alone=[Node(2, 0, gib=512)])
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check(picture.one("node 2").says("512 GiB alone"))


def test_devices_of_package_and_box():
    box = Box([Package(0, [Node(0, devices=[("gpu",)]), Node(1)], devices=[("gpu",)]),
               Package(1, [Node(2)])], devices=[("nic", "eth0"), ("switch", [("gpu",)] * 3)])
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)


def test_one_node():
    box = Box([Package(0, [Node(0, devices=[("gpu",), ("nic", "eth0")])])])
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)
    check([k.name for k in picture.links] == ["eth0"])


def test_switches_of_switches():
    deep = ("switch", [("gpu",), ("nic", "eth0")])
    for i in range(1, 6):
        deep = ("switch", [deep, ("gpu",), ("nic", f"eth{i}")])
    box = Box([Package(0, [Node(0, devices=[deep])])])
    picture = draw(box)
    complete(picture, box)
    counted(picture, box)


def test_random_boxes():
    drawn = 0
    for seed in range(40):
        box = random_box(seed)
        if box.xml.count('osdev_type="2"') != len(box.found["nics"]):
            continue  # two cards of one name
        try:
            complete(draw(box), box)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        drawn += 1
    check(drawn > 10, f"{drawn} were drawn: this tests little")


def plan_shares(n, k):
    """Of n boxes' and k servers' equal links: a dedicated server's, a box's."""
    whole = n * n + k * n - 2 * k
    return 2 * (n - 1) / whole, (n - k) / whole


def test_a_job():
    box = training()
    picture = draw(box, "--plan", 4, 2)
    complete(picture, box)
    dedicated, colocated = plan_shares(4, 2)
    wire = 1 - colocated + 3 * colocated  # its sum, and its server's answers
    counted(picture, box, wire)
    server = picture.one("server s1-s2")
    check(server.says("2 servers like this") and server.says(f"sums {dedicated:.3g} M"))
    link = picture.link("s1-s2")
    check(near(link.out, 4 * dedicated) and near(link.back, 4 * dedicated), link.out)
    check(picture.one("box h1-h4").says("4 boxes like this"))
    own = [c for c in picture.every("server") if c.parent]
    check(len(own) == 1 and own[0].says(f"sums {colocated:.3g} M"))


def test_a_job_with_servers_enough():
    picture = draw(small(), "--plan", 3, 3)
    check(picture.link("eth0").out == 1 and picture.link("s1-s3").out == 1)
    check(not [c for c in picture.every("server") if c.parent])


def test_a_job_without_servers():
    """What it sends is what a ring would: 2 (n - 1) / n."""
    picture = draw(small(), "--plan", 8, 0)
    check(near(picture.link("eth0").out, 2 * 7 / 8))


def kinds(n):
    return ",".join(f"h{i}={i}Gbit" for i in range(1, n + 1))


def test_sixteen_kinds():
    picture = draw(full(), "--plan", 16, 16, "-b", kinds(16) + ",*=9Gbit")
    check(len(picture.every("box")) == 16 and len(picture.every("gpu")) == 256)
    check(not picture.every("others"))
    check(picture.one("box h7").says("7 Gbit/s"))


def test_more_kinds_are_folded():
    servers = ",".join(f"s{i}={i}Gbit" for i in range(1, 21))
    picture = draw(small(), "--plan", 30, 20, "-b", kinds(24) + "," + servers + ",*=99Gbit")
    others = picture.every("others")
    check(len(picture.every("box")) == 15 and len(others) == 2)
    check(others[0].says("15 more boxes") and others[0].says("of 10 other kinds"),
          [t.text for t in others[0].texts])
    check(others[1].says("5 more servers") and others[1].says("of 5 other kinds"))


def test_text_of_others_is_text():
    box = Box([Package(0, [Node(0, devices=[("nic", "NIC"), ("gpu",)])],
                       model="</title><script>alert(1)</script>&amp;"),
               Package(1, [Node(1), Node(2)], model="&<>\"'" * 12)],
              host="<svg onload=\"x\">&lt;" + "W" * 70)
    box.xml = box.xml.replace('name="NIC"', 'name="&lt;g&gt;&amp;&quot;]]&gt;"')
    picture = draw(box)
    for element in ET.fromstring(picture.source).iter():
        check(element.tag[len(SPACE):] in ("svg", "title", "desc", "style", "g", "rect",
                                           "text", "path"), element.tag)
    check(picture.one("package 1").hint.startswith("package 1: &<>\"'"), picture.source)
    check(picture.every("box")[0].hint.startswith("box <svg onload=\"x\">&lt;WWW"))
    check(len(picture.every("nic")) == 1 and picture.every("nic")[0].hint.startswith(
        "NIC <g>&\"]]>"))


def test_paper_and_dark_pages():
    """No colour carries meaning alone: what is not used says so, and is dashed."""
    source = draw(training()).source
    check("@media (prefers-color-scheme: dark)" in source and "currentColor" not in source)


def refused(path, said, **how):
    with open(XML, "w") as file:
        file.write(small().xml)
    _, errors = run("--xml", XML, "--svg", path, status=CANNOT, **how)
    check(errors.count("\n") == 1 and errors.startswith(f"bpsmpi-check: --svg: {path} ")
          and said in errors, errors)


def test_unwritable_paths():
    refused(FOLDER.name + "/none/box.svg", "No such file or directory")
    refused(FOLDER.name, "Is a directory")
    refused("/dev/null", "not a plain file")
    refused(XML + "/box.svg", "Not a directory")
    refused(FOLDER.name + "/" + "x" * 5000, "name too long")
    check(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))


def test_whole_or_not_there():
    """A disk that is full half-way leaves what was there, and nothing else."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    with tempfile.TemporaryDirectory(prefix="bpsmpi-svg-") as folder:
        path = folder + "/old.svg"
        refused(path, "File too large", preexec_fn=limit)
        check(os.listdir(folder) == [], os.listdir(folder))
        with open(path, "w") as file:
            file.write("old")
        refused(path, "File too large", preexec_fn=limit)
        check(os.listdir(folder) == ["old.svg"] and open(path).read() == "old")
        run("--xml", XML, "--svg", path, preexec_fn=lambda: os.umask(0o027))
        check(os.listdir(folder) == ["old.svg"], os.listdir(folder))
        check(os.stat(path).st_mode & 0o777 == 0o640, oct(os.stat(path).st_mode))
        tidy(Picture(path))


def test_what_draws_nothing():
    _, errors = run("--env", "--svg", SVG, status=CANNOT)
    check("--svg" in errors, errors)


def test_this_box():
    """With the tree; the doctor may have found something."""
    process = subprocess.run([CHECK, "--svg", SVG], env=ENV, text=True, timeout=20,
                             capture_output=True, stdin=subprocess.DEVNULL)
    check(process.returncode in (0, 1), process.stderr)
    picture = Picture()
    tidy(picture)
    check(picture.one(f"box {os.uname().nodename}") and picture.every("node"))


def make_document(name, folder):
    path = os.path.join(folder, f"topology-{name}.svg")
    box, args = PICTURES[name]
    with open(XML, "w") as file:
        file.write(box().xml)
    run("--xml", XML, *args, "--svg", path)
    return path


def test_documents():
    """The pictures in docs/ are what is drawn today."""
    for name in PICTURES:
        tidy(Picture(os.path.join(DOCS, f"topology-{name}.svg")))
        with open(make_document(name, FOLDER.name)) as made, \
                open(os.path.join(DOCS, f"topology-{name}.svg")) as kept:
            check(made.read() == kept.read(), f"docs/topology-{name}.svg is an old one: "
                  "python3 -B tests/unit/tools/test-svg.py BPSMPI_CHECK --draw docs")


def main():
    if sys.argv[2:3] == ["--draw"]:
        for name in PICTURES:
            print(make_document(name, sys.argv[3]))
        return 0
    if json.loads(run("--json")[0])["source"] == "flat":
        print("1..0 # SKIP no hwloc 2 here")
        return 0
    return run_all(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
