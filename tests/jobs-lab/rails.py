# SPDX-License-Identifier: BSD-3-Clause
"""Several network cards: each carries its part. A lab with two NICs a host.

What went by a card is what its own counters say.
"""

import contextlib
import json
import os
import re

from harness import CaseError, shim
from networks import address, sent

BYTES = 4 << 20
CALLS = 20  # some 80 MB each way
MCA = ("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0")
NICS = ("eth0", "eth1")


def received(lab, host, nic):
    """Bytes that a host has received by an interface."""
    said = lab.on(host, "ip", "-s", "-o", "link", "show", "dev", nic)
    return int(re.search(r"RX:.*?\\ +(\d+)", said)[1])


class Counters:
    """Bytes by card of some hosts since it was made: counters(host) is (eth0, eth1)."""

    def __init__(self, lab, hosts, count=sent, nics=NICS):
        self.lab, self.count, self.nics = lab, count, nics
        self.before = {x: self.now(x) for x in hosts}

    def now(self, host):
        return [self.count(self.lab, host, x) for x in self.nics]

    def __call__(self, host):
        return [y - x for x, y in zip(self.before[host], self.now(host))]

    def check_all(self):
        """Each card of each host has carried 0.6 of an equal part, or more."""
        for host in self.before:
            spent = self(host)
            least = 0.6 * sum(spent) / len(self.nics)
            if sum(spent) < CALLS * BYTES // 4 or min(spent) < least:
                raise CaseError("%s: %s bytes by %s" % (host, spent, self.nics))

    def check_one(self, nic):
        for host in self.before:
            spent = self(host)
            rest = sum(spent) - spent[self.nics.index(nic)]
            if sum(spent) < CALLS * BYTES // 4 or rest > sum(spent) // 20:
                raise CaseError("%s: %d bytes by eth0, %d by eth1" % (host, *spent))


def run(lab, kind, env=None, quiet=True, hosts="h1:2,h2:1"):
    return lab.job(hosts, "sums", "-n", str(CALLS), str(BYTES), env=env,
                   mca=MCA).check(kind, quiet=quiet)


def dedicated(lab, *options, **env):
    """A server on s1, and the variables of a job that uses it."""
    lab.serve("s1", *options)
    return dict(env, BPSMPI_SERVERS=address(lab, "s1", "eth0"))


def checked(lab, env, *patterns):
    """What bpsmpi-check finds of rails is just this, on both boxes together."""
    program = os.path.join(os.path.dirname(lab.server), "bpsmpi-check")
    job = lab.job("h1:1,h2:1", program, env=env, mca=MCA)
    job.wait()
    said = re.sub(r"\n {4,}", " ", job.said())
    found = re.findall(r"^(\S+), rails: (.*)$", said, re.M)
    if len(found) != len(patterns) or not all(
            x[0] == "h[1-2]" and re.search(y, x[1]) for x, y in zip(found, patterns)):
        raise CaseError("no findings %s alone:\n%s" % (patterns, said))


def shown(lab, env):
    """The cards that a job would use on h1, by bpsmpi-check, and the shares of these."""
    program = os.path.join(os.path.dirname(lab.server), "bpsmpi-check")
    job = lab.job("h1:1,h2:1", program, "--json", env=env, mca=MCA)
    job.wait()
    said = job.said()
    box = json.JSONDecoder().raw_decode(said[said.index("{"):])[0]["boxes"][0]
    names = [x["name"] for x in box["machine"]["nics"]]
    rails = {names[x["nic"]]: x["share"] for x in box["machine"]["plan"]["rails"]}
    return sorted(box["interfaces"]), rails


def cards_that_are_shown(lab):
    """A card that leads to no server counts where other boxes carry some, and there only."""
    four, six = (address(lab, "s1", "eth1", x) for x in (4, 6))
    lab.on("s1", "ip", "link", "set", "eth1", "down")
    try:
        found = shown(lab, dedicated(lab))
        if found != (["eth0", "eth1"], {"eth0": 0.5, "eth1": 0.5}):
            raise CaseError("one server: %s" % (found,))
        env = {"BPSMPI_SERVERS": "{0}:7000,{0}:7001".format(address(lab, "s1", "eth0"))}
        lab.serve("s1", port=7001)
        found = shown(lab, env)
        if found != (["eth0"], {"eth0": 1}):
            raise CaseError("two servers: %s" % (found,))
    finally:
        lab.on("s1", "sh", "-c", BACK.format(four=four, six=six), check=False)


def two_networks(lab):
    """A network for each card."""
    counters = Counters(lab, ("h1", "h2"))
    run(lab, "colocated")
    counters.check_all()
    counters = Counters(lab, ("h1", "h2", "s1"))
    env = dedicated(lab)
    run(lab, "1 dedicated", env)
    counters.check_all()
    checked(lab, env)


# All cards on one and the same network.
MOVE = """
ip addr flush dev eth1
ip addr add {extra}/24 dev eth1
for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo {filter} >$f; done
for f in /proc/sys/net/ipv4/conf/*/arp_ignore; do echo {ignore} >$f; done
for f in /proc/sys/net/ipv4/conf/*/arp_announce; do echo {announce} >$f; done
"""
OWN_WAY = """
ip route add {net} dev eth1 src {extra} table 101
ip rule add from {extra} table 101
"""
BACK = """
ip rule del table 101 2>/dev/null
ip route flush table 101 2>/dev/null
ip link set eth1 up
ip addr flush dev eth1
ip addr add {four}/24 dev eth1
ip addr add {six}/64 dev eth1 nodad
for f in rp_filter arp_ignore arp_announce; do
	for g in /proc/sys/net/ipv4/conf/*/$f; do echo 0 >$g; done
done
cd /proc/sys/net/ipv4/conf/all; echo 1 >arp_ignore; echo 2 >arp_announce
"""
HOSTS = ("h1", "h2", "s1")


@contextlib.contextmanager
def one_network(lab, rp_filter, own_way=False, own_arp=True):
    """eth1 of each host has an address in the network of eth0, and speaks for it alone,
    or each card for both. The filter: of all hosts, or of h1, h2 and s1.
    """
    filters = rp_filter if isinstance(rp_filter, tuple) else [rp_filter] * len(HOSTS)
    words = {}
    for host, one in zip(HOSTS, filters):
        four = address(lab, host, "eth0")
        net, last = four.rsplit(".", 1)
        words[host] = {"extra": "%s.%d" % (net, int(last) + 100), "net": net + ".0/24",
                       "filter": one, "ignore": 1 if own_arp else 0,
                       "announce": 2 if own_arp else 0,
                       "four": address(lab, host, "eth1"),
                       "six": address(lab, host, "eth1", 6)}
    try:
        for host in HOSTS:
            script = MOVE + (OWN_WAY if own_way else "")
            lab.on(host, "sh", "-ec", script.format(**words[host]))
        for host in HOSTS:
            lab.on(host, "ip", "neigh", "flush", "all")
        yield
    finally:
        lab.clear()
        for host in HOSTS:
            lab.on(host, "sh", "-c", BACK.format(**words[host]), check=False)


def both_in_one(rp_filter, own_way=False):
    """Two cards in one network, of which the kernel would take one."""
    def case(lab):
        with one_network(lab, rp_filter, own_way):
            counters = Counters(lab, ("h1", "h2"))
            run(lab, "colocated")
            counters.check_all()
            counters = Counters(lab, ("h1", "h2", "s1"))
            run(lab, "1 dedicated", dedicated(lab))
            counters.check_all()
    return case


def left_out(lab, rp_filter, own_arp=True):
    """The second card of the boxes carries nothing; one line says what to do."""
    with one_network(lab, rp_filter, own_arp=own_arp):
        extra = address(lab, "h1", "eth1")
        wanted = (r"network card eth1 \(%s\) carries nothing.*arp_ignore=1.*"
                  r"rp_filter=2.*ip route add 10.77.\d+.0/24 dev eth1 src %s table 101; "
                  r"ip rule add from %s table" % (extra, extra, extra))
        for with_server in (False, True):
            counters = Counters(lab, ("h1", "h2"))
            env = dedicated(lab) if with_server else {}
            job = run(lab, "dedicated" if env else "colocated", env, quiet=False)
            counters.check_one("eth0")
            job.check_lines(wanted, lines=1)


def filtered(lab):
    """Where a filter drops what comes in by the second card."""
    left_out(lab, 1)


def filtered_there(lab):
    """The filter is the server's: it makes do with one card, the boxes have two."""
    with one_network(lab, (0, 0, 1)):
        env = dedicated(lab)
        boxes, server = Counters(lab, ("h1", "h2")), Counters(lab, ("s1",))
        run(lab, "1 dedicated", env)
        boxes.check_all()
        server.check_one("eth0")


def walled_off(lab):
    """Packets to the server's second card vanish: after two seconds it is given up."""
    rule = ("INPUT", "-d", address(lab, "s1", "eth1"), "-p", "tcp", "-j", "DROP")
    env = dedicated(lab)
    usual = run(lab, "1 dedicated", env)
    try:
        lab.on("s1", "iptables", "-w", "-A", *rule)
        counters = Counters(lab, ("s1",))
        job = run(lab, "1 dedicated", env, quiet=False)
        counters.check_one("eth0")
        job.check_lines(r"network card eth1 \(%s\) carries nothing to %s:7000 .*no answer"
                        % (address(lab, "h1", "eth1"), address(lab, "s1", "eth1")),
                        lines=1)
        job.check_time(usual, 10)
        checked(lab, env, "card eth1 does not reach %s:7000 of server .*no answer" %
                address(lab, "s1", "eth1"))
    finally:
        lab.on("s1", "iptables", "-w", "-D", *rule, check=False)


@contextlib.contextmanager
def losing(lab, way, nic):
    """Packets over 600 bytes to s1, or of s1, vanish on their way by this card."""
    rule = ("INPUT", "-i", nic, "-p", "tcp", "-m", "length", "--length", "600:65535",
            *(("-s", address(lab, "s1", nic)) if way == "of" else ()), "-j", "DROP")
    where = HOSTS[:2] if way == "of" else HOSTS[2:]
    try:
        # Each packet is seen as it is on a wire.
        for host in HOSTS:
            lab.on(host, "ip", "link", "set", "dev", nic, "gso_max_segs", "1")
        for host in where:
            lab.on(host, "iptables", "-w", "-A", *rule)
        yield
    finally:
        for host in where:
            lab.on(host, "iptables", "-w", "-D", *rule, check=False)
        for host in HOSTS:
            lab.on(host, "ip", "link", "set", "dev", nic, "gso_max_segs", "65535")


def small_alone(way):
    """The second card carries small packets alone, to the server or from it: given up."""
    def case(lab):
        usual = run(lab, "1 dedicated", dedicated(lab))
        lab.clear()
        with losing(lab, way, "eth1"):
            for more in ({}, {"BPSMPI_BANDWIDTH": "1Gbit"}):
                env = dedicated(lab, **more)
                counters = Counters(lab, ("s1",))
                job = run(lab, "1 dedicated", env, quiet=False)
                counters.check_one("eth0")
                job.check_lines(r"network card eth1 \(%s\) carries nothing to %s:7000 "
                                r"of server .*large ones are lost: look at the MTU" % (
                                    address(lab, "h1", "eth1"),
                                    address(lab, "s1", "eth1")), lines=1)
                job.check_time(usual, 10)
                checked(lab, env, "card eth1 does not reach %s:7000 of server .*large "
                        "ones are lost: look at the MTU" % address(lab, "s1", "eth1"))
                lab.clear()
    return case


def turned_away(option, value, why):
    """The server has room for one connection of each box: it says why it takes no more."""
    def case(lab):
        env = dedicated(lab, option, value, BPSMPI_WINDOW_BYTES="4M",
                        BPSMPI_PARTITION_BYTES="256K", BPSMPI_BANDWIDTH="1Gbit")
        counters = Counters(lab, ("s1",))
        job = run(lab, "1 dedicated", env, quiet=False)
        counters.check_one("eth0")
        job.check_lines(r"network card eth1 \(%s\) carries nothing to %s:7000 of server "
                        r".*%s.* BPSMPI_INTERFACE says which cards to use$" % (
                            address(lab, "h1", "eth1"), address(lab, "s1", "eth1"), why),
                        lines=1)
    return case


def no_card_for_large(way):
    """The one card that is named loses large packets: told after eight seconds."""
    def case(lab):
        with losing(lab, way, "eth0"):
            env = dedicated(lab, BPSMPI_INTERFACE="eth0")
            lab.job("h1:2,h2:1", "sums", "-n", "4", "100000", env=env,
                    mca=MCA).check_native(
                r"cannot be used \(it has said nothing for 8 s; small packets arrive, "
                "large ones are lost: look at the MTU")
    return case


def few_connections(lab):
    """A firewall lets no more connections to the server pass: nobody waits for them."""
    rule = ("INPUT", "-p", "tcp", "--dport", "7000", "--syn", "-m", "connlimit",
            "--connlimit-above", "1", "-j", "DROP")
    env = dedicated(lab, BPSMPI_INTERFACE="eth0")
    usual = run(lab, "1 dedicated", env)
    try:
        lab.on("s1", "iptables", "-w", "-A", *rule)
        run(lab, "1 dedicated", env).check_time(usual, 15)
    finally:
        lab.on("s1", "iptables", "-w", "-D", *rule, check=False)


def lost_in_the_middle(lab):
    """A card of the server is lost in mid-job: the way that broke is named."""
    env = dedicated(lab, BPSMPI_TIMEOUT_S="3")
    job = lab.job("h1:1,h2:1", "sums", "-t", "30", str(BYTES), env=env, mca=MCA)
    job.pids()
    ways = "|".join(address(lab, x, "eth1") for x in ("h1", "h2"))
    rule = ("INPUT", "-i", "eth1", "-j", "DROP")
    try:
        lab.on("s1", "iptables", "-w", "-A", *rule)
        job.wait()
        if job.status == 0 or not job.output.find(
                r"server .* died, or the way from (%s) to %s:7000 broke" % (
                    ways, address(lab, "s1", "eth1"))):
            raise CaseError("status %d:\n%s" % (job.status, job.said()))
    finally:
        lab.on("s1", "iptables", "-w", "-D", *rule, check=False)


def answering(lab):
    """Each card answers for the other's address, so that chance would decide."""
    left_out(lab, 0, own_arp=False)


# Kernels before 5.7 want CAP_NET_RAW for that.
NOT_HELD = """
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
        if (level != SOL_SOCKET || option != SO_BINDTODEVICE)
                return syscall(SYS_setsockopt, fd, level, option, value, bytes);
        errno = EPERM;
        return -1;
}
"""


def not_held(lab):
    """The kernel lets nobody hold a connection to a card: all goes by the first one."""
    preload = shim(lab, "not-held", NOT_HELD)
    refused = r"cannot hold a connection to eth1 \(Operation not permitted\)"
    with one_network(lab, 0):
        for with_server in (False, True):
            env = {"LD_PRELOAD": "%s:%s" % (preload, lab.library), "BPSMPI_LOG": "debug"}
            hosts = HOSTS if with_server else HOSTS[:2]
            if with_server:
                server = lab.serve("s1", "--log", "debug",
                                   prefix=("env", "LD_PRELOAD=" + preload))
                env["BPSMPI_SERVERS"] = address(lab, "s1", "eth0")
            counters = Counters(lab, hosts)
            job = lab.job("h1:2,h2:1", "sums", "-n", str(CALLS), str(BYTES), env=env,
                          mca=MCA, preload=False)
            job.check("1 dedicated" if with_server else "colocated", quiet=False)
            counters.check_one("eth0")
            if not job.output.find(refused):
                raise CaseError("no line %r:\n%s" % (refused, job.said()))
            if with_server and not server.output.find(refused):
                raise CaseError("no line %r:\n%s" % (refused, server.output.text()))


def one_named(lab):
    """BPSMPI_INTERFACE narrows, in one network too, for ranks and for the server."""
    with one_network(lab, 0):
        counters = Counters(lab, ("h1", "h2"))
        run(lab, "colocated", {"BPSMPI_INTERFACE": "eth1"})
        counters.check_one("eth1")
        lab.serve("s1", "--bind", "eth1")
        counters = Counters(lab, ("h1", "h2", "s1"))
        run(lab, "1 dedicated", {"BPSMPI_INTERFACE": "eth1",
                                 "BPSMPI_SERVERS": address(lab, "s1", "eth1")})
        counters.check_one("eth1")


def two_at_the_server(lab):
    """Boxes with one card, a server with two: each gets its part."""
    with one_network(lab, 0):
        for host in ("h1", "h2"):
            lab.on(host, "ip", "link", "set", "eth1", "down")
        env = dedicated(lab)
        boxes = Counters(lab, ("h1", "h2"))
        servers = Counters(lab, ("s1",)), Counters(lab, ("s1",), received)
        run(lab, "1 dedicated", env)
        boxes.check_one("eth0")
        for counters in servers:
            counters.check_all()


def one_at_the_server(lab):
    """Boxes with two cards, a server with one."""
    with one_network(lab, 0):
        lab.on("s1", "ip", "link", "set", "eth1", "down")
        env = dedicated(lab)
        boxes, server = Counters(lab, ("h1", "h2")), Counters(lab, ("s1",))
        run(lab, "1 dedicated", env)
        boxes.check_all()
        server.check_one("eth0")


def bound(lab, host, nic, rate):
    if rate:
        lab.on(host, "tc", "qdisc", "replace", "dev", nic, "root", "tbf", "rate", rate,
               "burst", "16kb", "latency", "20ms")
    else:
        lab.on(host, "tc", "qdisc", "del", "dev", nic, "root", check=False)


def unequal(lab):
    """A card that is three times as fast carries more than twice as much."""
    hosts = ("h1", "h2", "s1")
    try:
        for host in hosts:
            bound(lab, host, "eth0", "90mbit")
            bound(lab, host, "eth1", "30mbit")
        env = dedicated(lab, BPSMPI_BANDWIDTH="120Mbit")
        counters = Counters(lab, hosts)
        run(lab, "1 dedicated", env)
        for host in hosts:
            fast, slow = counters(host)
            if fast < 2 * slow or slow < (fast + slow) // 10:
                raise CaseError("%s: %d bytes by eth0, %d by eth1" % (host, fast, slow))
    finally:
        for host in hosts:
            for nic in NICS:
                bound(lab, host, nic, None)


def statistics(lab):
    """BPSMPI_STATS says what each card of a leader carried."""
    counters = Counters(lab, ("h1", "h2"))
    job = run(lab, "colocated", {"BPSMPI_BANDWIDTH": "1Gbit"})
    for host, rank in (("h1", 0), ("h2", 2)):
        for nic, really in zip(NICS, counters(host)):
            found = job.output.find(r" r%d stats: card %s sent=(\d+) received=\d+ "
                                    r"connections=2$" % (rank, nic))
            if len(found) != 1 or not 0.85 < int(found[0][1]) / really <= 1:
                raise CaseError("%s has sent %d bytes by %s:\n%s" % (
                    host, really, nic, job.said()))


def connections(lab):
    """BPSMPI_CONNECTIONS is for each card; sixteen in all is the most."""
    for given, wanted in ((3, 3), (16, 8)):
        env = dedicated(lab, BPSMPI_CONNECTIONS=str(given))
        job = lab.job("h1:1,h2:1", "sums", "-t", "3", str(BYTES), env=env, mca=MCA)
        job.pids()
        said = lab.on("s1", "ss", "-Htn", "state", "established", "sport", "=", ":7000")
        job.check("1 dedicated")
        for host in ("h1", "h2"):
            for nic in NICS:
                n = len(re.findall(re.escape(address(lab, host, nic)) + r"[\]:]", said))
                if n != wanted:
                    raise CaseError("%d: %s has %d by %s:\n%s" % (
                        given, host, n, nic, said))
        lab.clear()


def four_networks(lab):
    """Four cards a host, a network for each."""
    nics = ("eth0", "eth1", "eth2", "eth3")
    counters = Counters(lab, ("h1", "h2"), nics=nics)
    run(lab, "colocated")
    counters.check_all()
    counters = Counters(lab, ("h1", "h2", "s1"), nics=nics)
    run(lab, "1 dedicated", dedicated(lab))
    counters.check_all()


# In a lab with four cards a host.
FOUR = [("D01 four cards in four networks", four_networks)]

CASES = [
    ("D01 two cards in two networks", two_networks),
    ("D01 two cards in one network, no filter", both_in_one(0)),
    ("D01 two cards in one network, of which none may be held", not_held),
    ("D01 two cards in one network, loose filter", both_in_one(2)),
    ("D01 two cards in one network, that answer for each other", answering),
    ("D01 two cards in one network, strict filter", filtered),
    ("D01 two cards in one network, strict filter of the server", filtered_there),
    ("D01 two cards in one network, strict filter and rules", both_in_one(1, True)),
    ("cards that bpsmpi-check shows", cards_that_are_shown),
    ("D01 a firewall before the second card", walled_off),
    ("D01 a second card that loses large packets to the server", small_alone("to")),
    ("D01 a second card that loses large packets of the server", small_alone("of")),
    ("a server without memory for a second card",
     turned_away("--memory", "30M", "refused this job: the memory bound .*CONNECTIONS")),
    ("a server that takes no more connections",
     turned_away("--max-connections", "2", "closed at once: see what that server says")),
    ("D01 the only card loses large packets to the server", no_card_for_large("to")),
    ("D01 the only card loses large packets of the server", no_card_for_large("of")),
    ("a firewall that bounds connections", few_connections),
    ("D01 a card that fails in mid-job", lost_in_the_middle),
    ("D01 one of two cards in one network is named", one_named),
    ("two cards at the server alone", two_at_the_server),
    ("two cards at the boxes alone", one_at_the_server),
    ("cards of unequal speed", unequal),
    ("bytes by card", statistics),
    ("connections on each card", connections),
]
