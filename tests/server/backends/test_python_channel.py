# SPDX-License-Identifier: Apache-2.0
"""The channel between the server and a model's process: waits with a deadline."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from hypersonic.server.backends.python.stub import channel
from hypersonic.server.backends.python.stub.channel import Channel
from hypersonic.server.limits.bounds import OPTIONS


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    made = tuple(Channel(each, 1 << 20) for each in socket.socketpair())
    yield made[0], made[1]
    for each in made:
        each.close()


def test_a_message_is_received_before_the_latest_deadline_that_an_option_can_set(ends: tuple[Channel, Channel]) -> None:
    ends[0].send(["hello"])
    deadline_ns = time.monotonic_ns() + int(OPTIONS["--model-load-timeout-secs"].most) * 10**9
    assert ends[1].receive(deadline_ns)[0] == ["hello"]


def test_a_late_deadline_is_waited_for_in_parts(ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_LONGEST_S", 0.001)
    deadline_ns = time.monotonic_ns() + 50_000_000
    with pytest.raises(TimeoutError):
        ends[1].receive(deadline_ns)
    assert time.monotonic_ns() >= deadline_ns
