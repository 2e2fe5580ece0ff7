# SPDX-License-Identifier: BSD-3-Clause
"""What test-vm runs in the machine: two nodes, two hosts, a card of each host on each.

    vm_cases.py BUILD_DIR FOLDER PATTERN
    vm_cases.py --without-mbind COMMAND...   the kernel says EPERM to mbind(2)

Node 0 has CPUs 0-1 and the cards roce0, node 1 has CPUs 2-3 and roce1.
"""

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "jobs-lab"))

from harness import CaseError, Lab, Tap  # noqa: E402
from networks import sent  # noqa: E402

MIB = 1 << 20
NODE_CPUS = ({0, 1}, {2, 3})
PAGE = os.sysconf("SC_PAGESIZE")
LIBC = ctypes.CDLL(None, use_errno=True)
MBIND, MOVE_PAGES = 237, 279  # of x86-64
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
# Ranks in turns over the nodes, each free to run on all CPUs of its own.
SPREAD = ("--map-by", "numa", "--bind-to", "numa")
LOOSE = ("--bind-to", "none")
# What MPI itself uses; others that it could are slow to find out that they are of no use.
MPI = ("--mca", "oob_tcp_if_include", "roce0", "--mca", "btl_tcp_if_include", "roce0",
       "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader")


class Guest(Lab):
    """The hosts of the machine, in place of a lab that we make."""

    def __init__(self, build, folder):
        super().__init__(build, folder, 2, 0)
        self.bpsmpi_check = os.path.join(build, "tools", "bpsmpi-check")

    def popen(self, command, *words, group=None):
        if command == "run":
            _, hosts, _, *words = words
            words = [hosts.split(":")[0], "mpirun", "--allow-run-as-root", "--mca",
                     "plm_rsh_agent", "on-ssh", *MPI, "--host", hosts, *words]
        return start("on", *words)


def start(*words):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")


def same(what, found, wanted):
    if found != wanted:
        raise CaseError("%s: %s, but it should be %s" % (what, found, wanted))


def cpus(text):
    """'0-2,4' as a set."""
    parts = [x.split("-") for x in text.split(",") if x]
    return {n for x in parts for n in range(int(x[0]), int(x[-1]) + 1)}


# -- what bpsmpi-check finds --

def looked(lab, host, *options):
    return json.loads(lab.on(host, lab.bpsmpi_check, "--json", *options))


def nodes(lab):
    """Two, with their CPUs, memory and distances as rdma-vm told qemu."""
    box = looked(lab, "h1")
    same("source", box["source"], "hwloc")
    same("host", box["host"], "h1")
    same("nodes", [(x["number"], cpus(x["cpus"]), cpus(x["usable"]), x["distances"])
                   for x in box["nodes"]],
         [(0, {0, 1}, {0, 1}, [10, 21]), (1, {2, 3}, {2, 3}, [21, 10])])
    same("packages", [x["number"] for x in box["packages"]], [0, 1])
    for node in box["nodes"]:
        if not 800 * MIB < node["memory_bytes"] <= 1024 * MIB:
            raise CaseError("node of %d bytes" % node["memory_bytes"])


def devices(lab):
    """A card and a display at the same switch of each node; the card's RDMA device."""
    for host in (1, 2):
        box = looked(lab, "h%d" % host)
        same("bridges", [x["node"] for x in box["bridges"]], [0, 1])
        same("cards", [x["name"] for x in box["nics"]], ["roce0", "roce1"])
        same("displays", [x["node"] for x in box["gpus"]], [0, 1])
        for rail, nic in enumerate(box["nics"]):
            where = lab.on("h%d" % host, "readlink", "-f",
                           "/sys/class/net/%s/device" % nic["name"]).strip().split("/")
            # root port, the switch's port up, its port down, the card
            same(nic["name"], nic["bus"], where[-1])
            same("its node", nic["node"], rail)
            same("its switch", box["bridges"][nic["bridge"]]["bus"], where[-3])
            same("its RDMA device", nic["verbs"], "rxe%d_%d" % (host, rail))
            same("the display's switch", box["gpus"][rail]["bridge"], nic["bridge"])


def masked(lab):
    """What the process may not use is not usable."""
    box = json.loads(lab.on("h1", "taskset", "-c", "1,3", lab.bpsmpi_check, "--json"))
    same("usable", [cpus(x["usable"]) for x in box["nodes"]], [{1}, {3}])


def plan(lab):
    """A rank on each node: two groups, two rails; a byte crosses once each way."""
    box = looked(lab, "h1")
    found = box["plan"]
    same("groups", [(x["node"], x["n_ranks"]) for x in found["groups"]], [(0, 1), (1, 1)])
    same("rails", sorted((x["nic"], x["share"]) for x in found["rails"]),
         [(0, 0.5), (1, 0.5)])
    same("cards left out", found["left_out"], [])
    same("displays", [(x["gpus"], x["node"], x["nic"]) for x in found["gpu_groups"]],
         [([0], 0, 0), ([1], 1, 1)])
    same("crossings", found["crossings"]["alone"], [[0, 1], [1, 0]])
    engine = cpus(found["engine"]["cpus"])
    if not engine or engine - NODE_CPUS[found["engine"]["node"]]:
        raise CaseError("the engine's CPUs are %s" % engine)


# -- jobs --

class Area:
    """A part of a memfd that a process has mapped: its policy, its pages' nodes."""

    def __init__(self, pid, first, end, policy):
        self.bytes = end - first
        self.policy = policy  # a node; None: none
        self.nodes = where(pid, range(first, end, PAGE))


def where(pid, addresses):
    """move_pages(2) that moves nothing: the node of each page that is there."""
    n = len(addresses)
    status = (ctypes.c_int * n)()
    if LIBC.syscall(ctypes.c_long(MOVE_PAGES), ctypes.c_long(pid), ctypes.c_ulong(n),
                    (ctypes.c_void_p * n)(*addresses), None, status, ctypes.c_long(0)):
        raise OSError(ctypes.get_errno(), "move_pages")
    return [x for x in status if x >= 0]


def areas(pid, name):
    """A memfd of a process, in the order of addresses."""
    with open("/proc/%d/numa_maps" % pid) as file:
        policies = dict(x.split()[:2] for x in file)
    found = []
    with open("/proc/%d/maps" % pid) as file:
        for line in file:
            if "/memfd:" + name not in line:
                continue
            first, end = line.split()[0].split("-")
            policy = re.fullmatch(r"prefer\S*:(\d)", policies.get(first.lstrip("0"), ""))
            found.append(Area(pid, int(first, 16), int(end, 16),
                              int(policy[1]) if policy else None))
    return found


def touched(found):
    return sum(len(x.nodes) for x in found)


def staged(lab, name, hosts, *words, **more):
    """A job that ends well, and the stage of its rank 0 when no more pages came."""
    job = lab.job(hosts, "sums", "-t", "3", *words, str(MIB), **more)
    pid, found, before = job.pids()[0], [], -1
    while job.process.poll() is None and (not found or touched(found) != before):
        before = touched(found)
        time.sleep(0.5)
        found = areas(pid, name)
    return job, found


def obeyed(found):
    """Pages lie where they are wanted."""
    for area in found:
        if area.policy is not None and set(area.nodes) - {area.policy}:
            raise CaseError("pages for node %d are on nodes %s" % (
                area.policy, sorted(set(area.nodes))))
    if not any(x.nodes for x in found if x.policy is not None):
        raise CaseError("no page has a place")


def crossed(job, n_calls, sizes, n_boxes, ranks):
    """Of two nodes the least is: a partial to the other and the total back, and a
    broadcast's data once; in each box. `ranks`: their nodes.
    """
    wanted = 0
    for call in range(n_calls):  # as sums.c makes them
        size = sizes[call % len(sizes)]
        element = 8 if call % 3 == 2 else 4
        wanted += 2 * (size // element * element)
        wanted += size // 4 * 4 if call % 4 == 0 else 0
    found = job.output.find(r" r(\d+) stats: memory node=(\d+) crossed=(\d+)$")
    if any(int(x[2]) != ranks[int(x[1])] for x in found):
        raise CaseError("ranks are on other nodes:\n" + job.said())
    # Boxes also agree on their plans, by operations of a few bytes.
    more = sum(int(x[3]) for x in found) - n_boxes * wanted
    if more < 0 or more > (4096 if n_boxes > 1 else 0):
        raise CaseError("%d more bytes than %d went from node to node:\n%s" % (
            more, n_boxes * wanted, job.said()))


def on_nodes(*ranks):
    """What to put before a program, so that each rank of a box is on the node named."""
    masks = ["%d) mask=%s;;" % (i, ("0,1", "2,3")[x]) for i, x in enumerate(ranks)]
    return ["sh", "-c", "case $OMPI_COMM_WORLD_LOCAL_RANK in %s esac;"
            " exec taskset -c $mask \"$@\"" % " ".join(masks), "sh"]


def alone(*ranks):
    """A communicator within the box; the nodes that its ranks are on."""
    def case(lab):
        job = lab.job("h1:%d" % len(ranks), "sums", "-n", "5", str(MIB),
                      str(2 * MIB - 8), prefix=on_nodes(*ranks), mca=LOOSE)
        job.check("in one box")
        crossed(job, 5, (MIB, 2 * MIB - 8), 1, ranks)
    return case


def unbound(lab):
    """Ranks that may run everywhere are on no node: nothing is placed or counted."""
    job, found = staged(lab, "bpsmpi-inbox", "h1:2", mca=LOOSE)
    job.check("in one box")
    same("policies", {x.policy for x in found}, {None})
    same("lines", job.output.find("crossed="), [])


def placed_alone(lab):
    """Each rank's ring is on its node."""
    job, found = staged(lab, "bpsmpi-inbox", "h1:4", mca=SPREAD)
    job.check("in one box")
    obeyed(found)
    same("rings", [x.policy for x in found if x.policy is not None], [0, 1, 0, 1])


def engine_cpus(job):
    return [cpus(x[1]) for x in job.output.find(r"thread bpsmpi-engine .* cpus (\S+)")]


def placed_boxes(node):
    """Sums and totals are on the node of the card, if the leader may run there, and so is
    the engine's thread.
    """
    def case(lab):
        job, found = staged(lab, "bpsmpi-stage", "h1:2,h2:2", "-T", mca=LOOSE,
                            prefix=on_nodes(node, 1 - node),
                            env={"BPSMPI_INTERFACE": "roce%d" % node})
        job.check("colocated")
        obeyed(found)
        size = [sum(x.bytes for x in found if x.policy == y) for y in range(2)]
        if not size[1 - node] or size[node] <= size[1 - node]:
            raise CaseError("%s bytes are for nodes 0 and 1" % size)
        same("engines' CPUs", engine_cpus(job), [NODE_CPUS[node]] * 2)
    return case


def loose_engine(lab):
    """An engine that may run everywhere is near its card."""
    job = lab.job("h1:1,h2:1", "sums", "-n", "3", "-T", str(MIB), mca=LOOSE,
                  env={"BPSMPI_INTERFACE": "roce1"})
    job.check("colocated")
    same("engines' CPUs", engine_cpus(job), [NODE_CPUS[1]] * 2)


def masked_job(lab):
    """A job that may use node 0 alone has all there, whatever its card."""
    job = lab.job("h1:1,h2:1", "sums", "-n", "3", "-T", str(MIB),
                  prefix=("taskset", "-c", "0,1"), mca=LOOSE,
                  env={"BPSMPI_INTERFACE": "roce1"})
    job.check("colocated")
    threads = job.output.find(r"thread (bpsmpi\S*) .* cpus (\S+)")
    if len(engine_cpus(job)) != 2 or any(cpus(x[2]) - {0, 1} for x in threads):
        raise CaseError(job.said())


def rails(lab):
    """Both cards of a box carry, and the library counts what the kernel counts."""
    names = ("roce0", "roce1")
    before = [sent(lab, "h1", x) for x in names]
    job = lab.job("h1:2,h2:2", "sums", "-n", "8", str(2 * MIB), mca=SPREAD)
    job.check("colocated")
    kernel = [sent(lab, "h1", x) - y for x, y in zip(names, before)]
    crossed(job, 8, [2 * MIB], 2, (0, 1, 0, 1))
    found = dict(x.groups() for x in job.output.find(
        r" r0 stats: card (\S+) sent=(\d+) "))
    same("cards", sorted(found), sorted(names))
    ours = [int(found[x]) for x in names]
    # To the other box go half of each operation and the other half's total.
    if sum(ours) < 8 * 2 * MIB or min(ours) < sum(ours) // 4:
        raise CaseError("the cards sent %s bytes" % ours)
    if any(x > y or y > 1.2 * x + MIB for x, y in zip(ours, kernel)):
        raise CaseError("%s bytes, says the kernel, not %s" % (kernel, ours))


def threads(pid, name):
    """The CPUs of a process's threads whose names begin so."""
    found = []
    for task in sorted(os.listdir("/proc/%d/task" % pid), key=int):
        with open("/proc/%d/task/%s/status" % (pid, task)) as file:
            text = file.read()
        if re.search(r"^Name:\s+" + name, text, re.MULTILINE):
            found.append(cpus(re.search(r"^Cpus_allowed_list:\s+(\S+)", text,
                                        re.MULTILINE)[1]))
    return found


def server_threads(lab):
    """A reducer for each CPU, in turns on the nodes of the cards."""
    server = lab.serve("h1", "--reducers", "0")
    found = threads(server.pid, "bps-sum-")
    same("nodes of reducers", sorted(map(sorted, found)),
         sorted(map(sorted, NODE_CPUS * 2)))
    if server.stop() != 0:
        raise CaseError(server.output.text())


def forbidden(lab):
    """Each process that may not say where memory lies says so once, and goes on."""
    job, found = staged(lab, "bpsmpi-inbox", "h1:2", mca=SPREAD, prefix=(
        sys.executable, os.path.realpath(__file__), "--without-mbind"),
        env={"BPSMPI_LOG": "debug"})
    job.check("in one box", quiet=False)
    same("policies", {x.policy for x in found}, {None})
    same("lines", len(job.output.find("memory cannot be placed on node")), 1)


# -- without mbind --

def without_mbind(words):
    """Become a command for which mbind(2) fails, as in many a container."""
    program = b"".join(struct.pack("HBBI", *x) for x in (
        (0x20, 0, 0, 0),           # load the number of the system call
        (0x15, 0, 1, MBIND),       # another: skip one
        (0x06, 0, 0, 0x00050001),  # SECCOMP_RET_ERRNO, EPERM
        (0x06, 0, 0, 0x7fff0000)))  # SECCOMP_RET_ALLOW
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    for words_ in ((PR_SET_NO_NEW_PRIVS, 1, None, 0, 0),
                   (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0)):
        if LIBC.prctl(*words_):
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(words[0], words)


CASES = (
    ("two nodes, their CPUs and distances", nodes),
    ("cards and displays at switches, RDMA devices", devices),
    ("usable CPUs of each node", masked),
    ("the plan of a box", plan),
    ("one box, a rank on each node", alone(0, 1)),
    ("one box, two ranks on each node", alone(0, 1, 1, 0)),
    ("one box, one rank and three", alone(1, 0, 0, 0)),
    ("one box, where its memory lies", placed_alone),
    ("one box, ranks are not bound", unbound),
    ("two boxes, leader and card on node 0", placed_boxes(0)),
    ("two boxes, leader and card on node 1", placed_boxes(1)),
    ("two boxes, ranks are not bound", loose_engine),
    ("two boxes, node 0 alone is allowed", masked_job),
    ("two boxes, both cards", rails),
    ("one box, mbind is forbidden", forbidden),
    ("a server by two cards", server_threads),
)


def bring_up_cpus():
    """All but the first: test-vm says why."""
    for cpu in range(1, 4):
        with open("/sys/devices/system/cpu/cpu%d/online" % cpu, "w") as file:
            file.write("1")


def main():
    if sys.argv[1] == "--without-mbind":
        without_mbind(sys.argv[2:])
    build, folder, pattern = sys.argv[1:]
    bring_up_cpus()
    tap = Tap(pattern)
    lab = Guest(build, folder)
    for name, case in CASES:
        tap.run(lab, name, case)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
