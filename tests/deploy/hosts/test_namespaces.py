# SPDX-License-Identifier: Apache-2.0
"""The network of the tests itself: what it removes, and that it does what it is used for."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.deploy.hosts import namespaces
from tests.deploy.hosts.namespaces import NamespaceError, Network, call
from tests.support.optional import skip_without

#: of asm-generic/socket.h; Python has no name for it
SO_RCVBUFFORCE = 33
#: a network that is left behind, with a program that prints its id as soon as it is in a host
LEAVES = """
import signal, sys
from tests.deploy.hosts.namespaces import network
with network() as made:
    host = made.host("left")
    import subprocess
    subprocess.Popen(["nsenter", "--net=/run/netns/" + host.namespace, "sh", "-c", "echo $$; exec sleep 1000"])
    signal.pause()
"""


def own_links() -> list[str]:
    """The links of the machine's own namespace."""
    return sorted(link["ifname"] for link in json.loads(call("ip", "-json", "link", "show")))


def test_what_a_killed_process_left_is_removed_at_the_next_start(can_have_hosts: None) -> None:
    links = own_links()
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        program = int(process.stdout.readline())
        process.kill()
    assert [name for name in namespaces.namespaces() if name.startswith(f"hypersonic-{process.pid}-")]
    with namespaces.network() as made:
        made.host("one")
        assert own_links() == links, "nothing is added to the machine's own namespace"
        assert not [name for name in namespaces.namespaces() if name.startswith(f"hypersonic-{process.pid}-")]
        assert namespaces.started(program) == 0 or _is_zombie(program)
    assert not [name for name in namespaces.namespaces() if name.startswith(namespaces.own_stem())]
    assert own_links() == links


def _listen(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
    listening.bind((address, 5000))
    listening.settimeout(5)
    return listening


def _send(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for number in range(400):
            sending.sendto(str(number).encode(), (address, 5000))


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_test_that_fails_leaves_nothing(can_have_hosts: None) -> None:
    def fail() -> None:
        with namespaces.network() as made:
            made.far("one", 0.01)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not [name for name in namespaces.namespaces() if name.startswith(namespaces.own_stem())]


@skip_without("ip", "iproute2")
def test_the_text_of_a_failure_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NamespaceError, match=r"`ip netns delete hypersonic-none` failed: .*hypersonic-none"):
        call("ip", "netns", "delete", "hypersonic-none")
    monkeypatch.setenv("PATH", "")
    assert namespaces.why_not().startswith("`ip netns add hypersonic-")


def test_a_process_has_a_name_that_no_later_one_gets() -> None:
    assert namespaces.started(os.getpid()) > 0
    with subprocess.Popen(["sleep", "100"]) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert namespaces.started(process.pid) == 0


def test_a_link_drops_what_the_relay_is_told_to(hosts: Network) -> None:
    """UDP packets over the relay: a fifth of them is lost."""
    far, near = hosts.far("far", rtt_s=0.002, loss=0.2, seed=7), hosts.host("near")
    received = near.call(lambda: _listen(near.address))
    with received:
        far.call(lambda: _send(near.address))
        numbers = set()
        with suppress(TimeoutError):
            while True:
                numbers.add(int(received.recv(100)))
    assert 288 <= len(numbers) <= 352, "of 400: 320, and four standard deviations are 32"
