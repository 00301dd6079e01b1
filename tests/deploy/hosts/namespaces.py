# SPDX-License-Identifier: Apache-2.0
"""Several hosts on this machine: network namespaces with addresses of their own, joined by a switch.

    client 10.99.0.2 ==veth== +---------------------+ ==veth== server 10.99.0.3
                              | switch: 10.99.0.1   |
    far 10.99.1.2 ===relay=== | a bridge, and routes| ==veth== envoy 10.99.0.4
                              +---------------------+

The switch is a namespace too, so that no link, route or setting of the machine's own namespace changes. All namespaces of a
process have its id and its start time in their names. `remove_leftovers` removes those of processes that are gone.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

PREFIX = "hypersonic"
NAMESPACES = Path("/run/netns")
TUN = Path("/dev/net/tun")
RELAY = Path(__file__).with_name("relay.py")
#: bytes of a tbf queue as a time at its rate: long enough for TCP, and shorter than its timeouts
QUEUE_MS = 100
#: of linux/sockios.h, and ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO of linux/ethtool.h
SIOCETHTOOL = 0x8946
OFFLOADS = (0x1F, 0x24, 0x2C)


class NamespaceError(Exception):
    """A call that makes namespaces or links failed. The text has the call and its answer."""


def call(*argv: str) -> str:
    """Run a command and return its output. Raises NamespaceError."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NamespaceError(f"`{' '.join(argv)}` failed: {error}") from error
    if done.returncode:
        raise NamespaceError(f"`{' '.join(argv)}` failed: {(done.stderr or done.stdout).strip() or done.returncode}")
    return done.stdout


@dataclass(frozen=True)
class Counters:
    """The bytes and packets that an interface has sent and received, with the headers of IP and Ethernet."""

    sent: int
    received: int
    packets_sent: int
    packets_received: int

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(
            self.sent - earlier.sent,
            self.received - earlier.received,
            self.packets_sent - earlier.packets_sent,
            self.packets_received - earlier.packets_received,
        )


@dataclass(frozen=True)
class Host:
    """A namespace with one interface `device`. port: the other end of it, in the switch."""

    name: str
    namespace: str
    switch: str
    address: str
    device: str
    port: str

    def command(self, *argv: str) -> list[str]:
        """Return the command that runs `argv` on this host. The program ends if the thread that starts it ends."""
        return ["nsenter", f"--net={NAMESPACES / self.namespace}", "setpriv", "--pdeathsig", "KILL", *argv]

    def call(self, function: Callable[[], Any]) -> Any:
        """Return what `function` returns on a thread that is on this host: its sockets belong to the host."""
        return in_namespace(self.namespace, function)

    def counters(self) -> Counters:
        """Return the counters of its interface."""
        link = json.loads(call("ip", "-n", self.namespace, "-json", "-s", "link", "show", self.device))[0]
        sent, received = link["stats64"]["tx"], link["stats64"]["rx"]
        return Counters(sent["bytes"], received["bytes"], sent["packets"], received["packets"])

    def limit(self, bits_per_s: int) -> None:
        """Limit its link to so many bits/s in each direction. Ethernet headers count."""
        for namespace, device in ((self.namespace, self.device), (self.switch, self.port)):
            shape(namespace, device, bits_per_s)

    def disconnect(self) -> None:
        """Take its link down at the switch: packets in both directions are lost, and no host is told."""
        call("ip", "-n", self.switch, "link", "set", self.port, "down")

    def connect(self) -> None:
        """Take its link up again."""
        call("ip", "-n", self.switch, "link", "set", self.port, "up")


def shape(namespace: str, device: str, bits_per_s: int) -> None:
    """Limit what a device sends, with the token bucket filter of tc."""
    call(
        "tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{bits_per_s}bit",
        "burst", "32kb", "latency", f"{QUEUE_MS}ms",
    )  # fmt: skip


def enter(namespace: str) -> None:
    """Move the calling thread into a namespace. Raises NamespaceError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (NAMESPACES / namespace).open() as file:
        if libc.setns(file.fileno(), 0):
            raise NamespaceError(f"setns to {namespace} failed: {os.strerror(ctypes.get_errno())}")


@dataclass
class Network:
    """A switch and the hosts that are connected to it."""

    stem: str
    hosts: dict[str, Host] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def switch(self) -> str:
        """The namespace of the switch."""
        return f"{self.stem}-switch"

    def host(self, name: str) -> Host:
        """Add a host with a link to the switch."""
        number = len(self.hosts) + 2
        new = Host(name, f"{self.stem}-{name}", self.switch, f"10.99.0.{number}", "eth0", f"port{number}")
        add_namespace(new.namespace)
        self.hosts[name] = new
        call(
            "ip", "-n", self.switch, "link", "add", new.port, "type", "veth",
            "peer", "name", new.device, "netns", new.namespace,
        )  # fmt: skip
        for namespace, device in ((self.switch, new.port), (new.namespace, new.device)):
            in_namespace(namespace, partial(without_offloads, device))
        call("ip", "-n", self.switch, "link", "set", new.port, "master", "bridge", "up")
        call("ip", "-n", new.namespace, "link", "set", new.device, "up")
        call("ip", "-n", new.namespace, "address", "add", f"{new.address}/24", "dev", new.device)
        call("ip", "-n", new.namespace, "route", "add", "default", "via", "10.99.0.1")
        return new

    def far(self, name: str, rtt_s: float, loss: float = 0.0, seed: int = 1) -> Host:
        """Add a host behind a relay that delays each packet by half of `rtt_s` and drops a share of them."""
        number = len(self.hosts) + 2
        new = Host(name, f"{self.stem}-{name}", self.switch, f"10.99.{number}.2", "tun0", f"tun{number}")
        add_namespace(new.namespace)
        self.hosts[name] = new
        argv = [sys.executable, str(RELAY), self.switch, new.port, new.namespace, new.device]
        argv = ["setpriv", "--pdeathsig", "KILL", *argv, str(rtt_s / 2), str(loss), str(seed)]
        relay = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.stack.callback(relay.wait)
        self.stack.callback(relay.kill)
        if not relay.stdout or relay.stdout.readline() != "ready\n":
            raise NamespaceError(f"`{' '.join(argv)}` failed: see its text on stderr")
        self.stack.callback(relay.stdout.close)
        call("ip", "-n", self.switch, "address", "add", f"10.99.{number}.1", "peer", new.address, "dev", new.port)
        call("ip", "-n", self.switch, "link", "set", new.port, "up")
        call("ip", "-n", new.namespace, "address", "add", new.address, "peer", f"10.99.{number}.1", "dev", new.device)
        call("ip", "-n", new.namespace, "link", "set", new.device, "up")
        call("ip", "-n", new.namespace, "route", "add", "default", "via", f"10.99.{number}.1")
        return new


@contextmanager
def network() -> Iterator[Network]:
    """A switch without hosts; it and all its hosts are removed in the end. Raises NamespaceError."""
    remove_leftovers()
    made = Network(own_stem())
    try:
        add_namespace(made.switch)
        call("ip", "-n", made.switch, "link", "add", "bridge", "type", "bridge")
        call("ip", "-n", made.switch, "address", "add", "10.99.0.1/24", "dev", "bridge")
        call("ip", "-n", made.switch, "link", "set", "bridge", "up")
        set_value(made.switch, "net/ipv4/ip_forward", "1")
        yield made
    finally:
        made.stack.close()
        remove([name for name in namespaces() if name.startswith(f"{made.stem}-")])


def add_namespace(name: str) -> None:
    """Add a namespace with loopback up, and with the same TCP on every machine: the one that every kernel allows there."""
    call("ip", "netns", "add", name)
    call("ip", "-n", name, "link", "set", "lo", "up")
    set_value(name, "net/ipv4/tcp_congestion_control", "reno")


def in_namespace(namespace: str, function: Callable[[], Any]) -> Any:
    """Return what `function` returns on a thread that is in a namespace. Raises NamespaceError if it cannot enter it."""
    results: list[Any] = []

    def run() -> None:
        try:
            enter(namespace)
            results.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again below
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = results[0]
    if error is not None:
        raise error
    return value


def without_offloads(device: str) -> None:
    """Let a device send and count packets as a cable carries them, without TSO, GSO and GRO, as `ethtool -K` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in OFFLOADS:
            value = array.array("I", [command, 0])
            try:
                fcntl.ioctl(sock, SIOCETHTOOL, struct.pack("16sP8x", device.encode(), value.buffer_info()[0]))
            except OSError as error:
                raise NamespaceError(f"ioctl SIOCETHTOOL {command:#x} of {device} failed: {error}") from error


def set_value(namespace: str, key: str, value: str) -> None:
    """Set a value of /proc/sys in a namespace. Raises NamespaceError."""
    try:
        in_namespace(namespace, lambda: Path(f"/proc/sys/{key}").write_text(value))
    except OSError as error:
        raise NamespaceError(f"setting {key} to {value} failed: {error}") from error


def why_not() -> str:
    """Return the reason why there are no namespaces for this process; empty if there are."""
    try:
        with network() as probe:
            probe.host("probe").limit(1_000_000)
            probe.far("far", 0.0)
    except NamespaceError as error:
        return str(error)
    return ""


def own_stem() -> str:
    """Return the beginning of the names of this process's namespaces."""
    return f"{PREFIX}-{os.getpid()}-{started(os.getpid())}"


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def namespaces() -> list[str]:
    """Return the names of all namespaces of these tests, of this process and of others."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(file.name for file in NAMESPACES.iterdir() if file.name.startswith(f"{PREFIX}-"))
    return []


def remove_leftovers() -> None:
    """Remove the namespaces of processes that are gone, and end the programs in them."""
    for name in namespaces():
        _, pid, start, _ = name.split("-", 3)
        if started(int(pid)) != int(start):
            remove([name])


def remove(names: list[str]) -> None:
    """End the programs in these namespaces, and remove them."""
    for name in names:
        with contextlib.suppress(NamespaceError):  # another process removed it in the meantime
            wait_until(partial(is_empty, name), explain=partial(call, "ip", "netns", "pids", name))
            call("ip", "netns", "delete", name)


def is_empty(namespace: str) -> bool:
    """Send SIGKILL to the programs in a namespace. Returns whether there were none."""
    found = [int(pid) for pid in call("ip", "netns", "pids", namespace).split()]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not found
