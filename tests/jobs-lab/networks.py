# SPDX-License-Identifier: BSD-3-Clause
"""D01: several interfaces, bridges of containers, IPv6; a lab with two NICs a host."""

import os
import re

from harness import CaseError

BYTES = 4 << 20
CALLS = 20  # some 80 MB each way


def sent(lab, host, nic):
    """Bytes that a host has sent by an interface."""
    for line in lab.on(host, "cat", "/proc/net/dev").split("\n"):
        fields = line.replace(":", " ").split()
        if fields and fields[0] == nic:
            return int(fields[9])
    raise CaseError("%s has no %s" % (host, nic))


def address(lab, host, nic, version=4):
    said = lab.on(host, "ip", "-o", "-%d" % version, "addr", "show", "dev", nic,
                  "scope", "global")
    return re.search(r"inet6? ([^/]+)/", said)[1]


def carried(lab, nic, hosts, kind, env, **more):
    """A job whose data all go by this interface (None: both) on each of these hosts."""
    before = {(x, y): sent(lab, x, y) for x in hosts for y in ("eth0", "eth1")}
    mca = ("--mca", "btl_tcp_if_include", "eth0")
    job = lab.job("h1:2,h2:1", "sums", "-n", str(CALLS), str(BYTES), env=env, mca=mca,
                  **more)
    job.check(kind)
    for host in hosts:
        spent = {x: sent(lab, host, x) - before[host, x] for x in ("eth0", "eth1")}
        for each, n_bytes in spent.items():
            used = nic in (None, each)
            if n_bytes < CALLS * BYTES // 8 if used else n_bytes > CALLS * BYTES // 8:
                raise CaseError("%s sent %s" % (host, spent))
    return job


def plain(lab):
    """Nothing is set."""
    carried(lab, None, ("h1", "h2"), "colocated", {})
    lab.serve("s1")
    carried(lab, None, ("h1", "h2", "s1"), "1 dedicated", {"BPSMPI_SERVERS": "s1"})


# docker0 has no carrier, virbr0 has one.
BRIDGES = """
sed "s/^10.*[[:space:]]$(hostname)$/127.0.1.1 $(hostname)/" /etc/hosts >"$1"
mount --bind "$1" /etc/hosts
ip link add docker0 type bridge
ip addr add 172.17.0.1/16 dev docker0
ip link set docker0 up
ip link add virbr0 type veth peer name guest0
ip addr add 192.168.122.1/24 dev virbr0
ip link set virbr0 up
ip link set guest0 up
"""
NO_BRIDGES = """
ip link del docker0
ip link del virbr0
[ "$(grep -c " /etc/hosts " /proc/self/mountinfo)" = 1 ] || umount /etc/hosts
"""


def bridges(lab):
    """Bridges with one address on all hosts, up, and a name that means 127.0.1.1."""
    usual = carried(lab, None, ("h1", "h2"), "colocated", {})
    try:
        for host in ("h1", "h2"):
            file = os.path.join(lab.folder, "hosts-" + host)
            lab.on(host, "sh", "-ec", BRIDGES, "sh", file)
            if "127.0.1.1" not in lab.on(host, "getent", "hosts", host):
                raise CaseError("%s is not what it should be there" % host)
        # Its own name is of no use to mpirun now.
        job = carried(lab, None, ("h1", "h2"), "colocated", {})
        job.check_time(usual, 5)
        lab.serve("s1")
        carried(lab, None, ("h1", "h2", "s1"), "1 dedicated", {"BPSMPI_SERVERS": "s1"})
        for host in ("h1", "h2"):
            if sent(lab, host, "virbr0") > 100000:
                raise CaseError("%s sent by virbr0" % host)
    finally:
        for host in ("h1", "h2"):
            lab.on(host, "sh", "-c", NO_BRIDGES)


def by_interface(spec, nic):
    """BPSMPI_INTERFACE for the ranks, between boxes and to a server."""
    def case(lab):
        env = {"BPSMPI_INTERFACE": spec}
        carried(lab, nic, ("h1", "h2"), "colocated", env)
        lab.serve("s1", "--bind", spec)
        server = address(lab, "s1", nic or "eth0")
        listening = lab.on("s1", "ss", "-Htln")
        if server + ":7000" not in listening or "0.0.0.0:7000" in listening:
            raise CaseError(listening)
        carried(lab, nic, ("h1", "h2", "s1"), "1 dedicated",
                dict(env, BPSMPI_SERVERS=server))
    return case


def by_route(lab):
    """The servers are reached by eth1 alone, the ranks find each other by eth0."""
    lab.serve("s1", "--bind", "eth1")
    server = address(lab, "s1", "eth1")
    job = lab.job("h1:1,h2:1", "sums", "-t", "3", str(BYTES),
                  env={"BPSMPI_SERVERS": server})
    job.pids()
    said = lab.on("s1", "ss", "-Htn", "state", "established", "sport", "=", ":7000")
    peers = [x.split()[-1] for x in said.split("\n") if x]
    job.check("1 dedicated")
    wanted = {address(lab, x, "eth1") for x in ("h1", "h2")}
    got = {x.rsplit(":", 1)[0].strip("[]").replace("::ffff:", "") for x in peers}
    if got != wanted:
        raise CaseError("connections come from %s, not %s" % (got, wanted))


def six(lab):
    """Servers by IPv6: with and without a port, by name, and with an interface."""
    lab.serve("s1")
    server = address(lab, "s1", "eth0", 6)
    for text, more, nic in (("[%s]:7000" % server, {}, None), (server, {}, None),
                            ("s1-v6", {}, None),
                            ("[%s]:7000" % server, {"BPSMPI_INTERFACE": "eth0"}, "eth0"),
                            (server, {"BPSMPI_INTERFACE": "fd77::/32"}, "eth0")):
        carried(lab, nic, ("h1", "h2", "s1"), "1 dedicated",
                dict(more, BPSMPI_SERVERS=text))


def six_between(lab):
    """Servers inside the ranks, by IPv6."""
    carried(lab, "eth0", ("h1", "h2"), "colocated", {"BPSMPI_INTERFACE": "fd77::/32"})


def two_behind_one(lab):
    """One address leads the boxes to two servers: each would wait for the other's box."""
    s1 = address(lab, "s1", "eth0")
    rule = ("OUTPUT", "-p", "tcp", "-d", s1, "--dport", "7000", "-j", "DNAT", "--to",
            s1 + ":7001")
    try:
        lab.on("h2", "iptables", "-w", "-t", "nat", "-A", *rule)
        lab.serve("s1")
        lab.serve("s1", "--port", "7001")
        for more in ({}, {"BPSMPI_BANDWIDTH": "1Gbit"}):
            lab.job("h1:2,h2:1", "sums", "-n", "4", "100000",
                    env=dict(more, BPSMPI_SERVERS=s1)).check_native(
                r"rank [02] on h[12]: server %s:7000.* is another one here than for "
                "other hosts" % s1)
    finally:
        lab.on("h2", "iptables", "-w", "-t", "nat", "-D", *rule, check=False)


def named_twice(lab):
    """One server by two of its addresses."""
    lab.serve("s1")
    names = ",".join(address(lab, "s1", x) for x in ("eth0", "eth1"))
    lab.job("h1:2,h2:1", "sums", "-n", "4", "100000",
            env={"BPSMPI_SERVERS": names}).check_native(
        "refused this job: rank [02] of the job is connected already: is this server "
        "named twice", lines=1)


def sub_communicators(lab):
    """Leaders of sub-communicators that lead no box keep to the interface too."""
    env = {"BPSMPI_INTERFACE": "eth1", "BPSMPI_THRESHOLD_BYTES": "1"}
    before = sent(lab, "h1", "eth0"), sent(lab, "h1", "eth1")
    mca = ("--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "eth0")
    lab.job("h1:2,h2:2", "comms", "50", env=env, mca=mca).check("colocated")
    spent = sent(lab, "h1", "eth0") - before[0], sent(lab, "h1", "eth1") - before[1]
    if spent[0] > spent[1] / 4:
        raise CaseError("eth0 sent %d bytes, eth1 %d" % spent)


def one_subnet(lab):
    """Two NICs in one network, and strict reverse path filtering.

    Each NIC answers for its own addresses (as the lab sets arp_ignore), or what comes in
    by the other one is dropped by the filter, whoever sends it.
    """
    strict = "for f in /proc/sys/net/ipv4/conf/*/%s; do echo %d >$f; done"
    extra = {x: re.sub(r"\d+$", lambda m: str(100 + int(m[0])), address(lab, x, "eth0"))
             for x in ("h1", "h2", "s1")}
    try:
        for host, text in extra.items():
            lab.on(host, "ip", "addr", "add", text + "/24", "dev", "eth1")
            lab.on(host, "sh", "-c", strict % ("rp_filter", 1))
        for host in extra:
            lab.on(host, "ip", "neigh", "flush", "all")
        mca = ("--mca", "btl_tcp_if_include", "eth0")
        lab.job("h1:2,h2:1", "sums", str(BYTES), mca=mca).check("colocated")
        lab.serve("s1")
        lab.job("h1:2,h2:1", "sums", str(BYTES), mca=mca,
                env={"BPSMPI_SERVERS": "s1"}).check("1 dedicated")
    finally:
        for host, text in extra.items():
            lab.on(host, "ip", "addr", "del", text + "/24", "dev", "eth1", check=False)
            lab.on(host, "sh", "-c", strict % ("rp_filter", 0))


def connections(lab, env, wanted):
    """How many each host has to a server, while the job runs."""
    lab.serve("s1")
    job = lab.job("h1:1,h2:2", "sums", "-t", "3", str(BYTES),
                  env={"BPSMPI_SERVERS": "s1", **env})
    job.pids()
    said = lab.on("s1", "ss", "-Htn", "state", "established", "sport", "=", ":7000")
    peers = [x.split()[-1] for x in said.split("\n") if x]
    job.check("1 dedicated")
    for host in ("h1", "h2"):
        n = sum(address(lab, host, "eth0") in x for x in peers)
        if n not in wanted:
            raise CaseError("%s has %d connections:\n%s" % (host, n, said))


def connections_given(lab):
    """BPSMPI_CONNECTIONS says how many."""
    connections(lab, {"BPSMPI_CONNECTIONS": "3"}, (3,))


def connections_found(lab):
    """Where each connection is bounded, it takes several, here to two servers."""
    connections(lab, {}, (2, 8))


def connections_refused(lab):
    """Servers without the memory for many: who is refused goes on with one.

    For longer than it takes to find out that somebody is gone.
    """
    for megabytes in ("80M", "130M", "150M", "200M"):
        job = lab.job("h1:1,h2:1,h3:1,h4:1", "sums", "-t", "4", str(1 << 20),
                      env={"BPSMPI_SERVER_MEMORY_BYTES": megabytes})
        job.check("colocated")


def unknown_on_server(lab):
    """A server is told an interface that is not there: it lists what there is."""
    server = lab.serve("s1", "--bind", "eth7", wait=False)
    wanted = "eth7.*eth0 10.77.*eth1 10.78"
    if server.process.wait(5) != 1 or not server.output.find(wanted):
        raise CaseError(server.output.text())


CASES = [
    ("D01 two NICs, nothing set", plain),
    ("D01 bridges of containers, own name at 127.0.1.1", bridges),
    ("D01 BPSMPI_INTERFACE is a name", by_interface("eth1", "eth1")),
    ("D01 BPSMPI_INTERFACE is a network", by_interface("10.78.0.0/16", "eth1")),
    ("D01 BPSMPI_INTERFACE is the beginning of names", by_interface("et", None)),
    ("D01 the route to the servers decides", by_route),
    ("D01 interface and sub-communicators", sub_communicators),
    ("D01 two NICs in one network", one_subnet),
    ("D01 a server's interface that is not there", unknown_on_server),
    ("D01 one address, two servers", two_behind_one),
    ("D01 two addresses, one server", named_twice),
    ("several connections, given", connections_given),
    ("IPv6 servers", six),
    ("IPv6 between ranks", six_between),
]

# In a lab that bounds each connection.
BOUNDED = [
    ("several connections, found out", connections_found),
    ("several connections, refused", connections_refused),
]
