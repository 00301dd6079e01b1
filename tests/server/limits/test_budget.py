# SPDX-License-Identifier: Apache-2.0
"""Who may hold how much: whatever other addresses hold, a new one gets its share."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.arguments import add_arguments
from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.peers import Peers
from hypersonic.server.options import Options

LIMIT = 2 << 30
FRESH = "10.9.9.9:1"


def test_an_address_that_is_alone_may_take_all_but_an_eighth_and_so_may_its_only_connection() -> None:
    shares = Budget(800)
    assert shares.room("10.0.0.1:1") == (700, 613)
    shares.take(613, "10.0.0.1:1")
    assert shares.room("10.0.0.1:1") == (87, 0)
    assert shares.room("10.0.0.1:2") == (87, 44)
    assert shares.room("10.0.0.2:1") == (94, 83)


def test_few_places_are_all_for_whoever_is_alone_and_the_last_is_for_whoever_has_none() -> None:
    shares = Budget(4)
    for _ in range(4):
        assert shares.room("10.0.0.1:1")[1] >= 1
        shares.take(1, "10.0.0.1:1")
    assert shares.room(FRESH) == (0, 0)
    shares.release(1, "10.0.0.1:1")
    assert shares.room(FRESH) == (1, 1)
    assert shares.room("10.0.0.2:7") == (1, 1)


def test_without_a_limit_there_is_always_room() -> None:
    shares = Budget(0)
    shares.take(1 << 50, "10.0.0.1:1")
    assert min(shares.room("10.0.0.1:1")) > 1 << 60
    assert shares.full_since is None


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.floats(0, 1), st.booleans()), max_size=60)


@given(steps, st.sampled_from([1, 2, 7, 256, 1000, LIMIT]))
def test_whatever_others_hold_a_new_address_gets_the_share_that_is_promised(
    steps: list[tuple[int, int, float, bool]], limit: int
) -> None:
    """Each step: a connection of an address takes a part of what it may, or gives a part of what it holds back."""
    shares, held = Budget(limit), dict[str, int]()
    for address, port, part, takes in steps:
        client = f"10.0.0.{address}:{port}"
        for amount in (1, shares.room(client)[1], shares.room(client)[1] + 1, limit // 5):
            assert shares.fits(amount, client) == (amount <= shares.room(client)[1])
        if takes:
            amount = round(part * shares.room(client)[1])
            shares.take(amount, client)
            held[client] = held.get(client, 0) + amount
        else:
            amount = round(part * held.get(client, 0))
            shares.release(amount, client)
            held[client] = held.get(client, 0) - amount
        assert shares.used == sum(held.values()) <= limit
        holders = {client.split(":")[0] for client, amount in held.items() if amount}
        free = limit - shares.used
        assert free >= limit // 2 ** (len(holders) + 2)
        address_room, room = shares.room(FRESH)
        assert room == shares.fresh_room
        assert address_room >= free // 2
        assert room >= 7 * free // 16
        assert room >= (free > 0)
    for client, amount in held.items():
        shares.release(amount, client)
    assert shares.used == 0
    assert shares.held("10.0.0.1:1") == (0, 0)


def test_it_knows_since_when_a_new_address_would_be_refused() -> None:
    shares = Budget(64, fresh=4)
    for number in range(6):
        client = f"10.0.0.{number}:1"
        shares.take(shares.room(client)[0], client)
    assert shares.full_since is not None
    since = shares.full_since
    shares.release(1, "10.0.0.5:1")
    assert shares.full_since == since
    shares.release(50, "10.0.0.0:1")
    assert shares.full_since is None


@pytest.mark.parametrize(
    ("client", "address"),
    [
        ("ipv4:10.1.2.3:50124", "10.1.2.3"),
        ("10.1.2.3:50124", "10.1.2.3"),
        ("ipv6:[::ffff:10.1.2.3]:50124", "10.1.2.3"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:50124", "10.1.2.3"),
        ("::ffff:10.1.2.3:50124", "10.1.2.3"),
        ("ipv6:%5B2a00:1:2:3:4::5%5D:50124", "2a00:1:2:3::/64"),
        ("2a00:1:2:3:ffff::5:50124", "2a00:1:2:3::/64"),
        ("ipv6:[::1]:50124", "::1"),
        ("ipv6:[fd00::7]:50124", "fd00::7"),
        ("ipv6:[fe80::7%25eth0]:50124", "fe80::7%eth0"),
        ("unix:/run/a.sock", "unix"),
        ("unix:", "unix"),
        ("ipv4:10.2.0.9:7", "ipv4:10.2.0.9:7"),
        ("2a01:5::1:9", "2a01:5::1:9"),
        ("", ""),
        ("c", "c"),
    ],
)
def test_a_client_counts_as_its_address_and_a_trusted_proxys_as_its_connection(client: str, address: str) -> None:
    assert Peers(["10.2.0.0/16", "2a01:5::1"]).address_of(client) == address


@pytest.mark.parametrize("text", ["10.0.0.256", "10.0.0.0/33", "proxy.example.org", "10.0.0.1,::g"])
def test_a_trusted_proxy_that_is_not_an_address_ends_the_start_with_a_reason(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--model-repository", "m", "--trusted-proxies", text])
    assert "is not an IP address or network, expected for example 10.0.0.7 or 10.0.0.0/8" in capsys.readouterr().err


def test_trusted_proxies_are_addresses_and_networks_with_commas_between_them() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    opts = Options.of(parser.parse_args(["--model-repository", "m", "--trusted-proxies", "10.0.0.7, 10.1.2.3/16,::1"]))
    peers = Peers(opts.trusted_proxies)
    assert [peers.address_of(client) for client in ("10.0.0.7:1", "10.1.9.9:1", "::1:5", "10.0.0.8:1")] == [
        "10.0.0.7:1", "10.1.9.9:1", "::1:5", "10.0.0.8",
    ]  # fmt: skip
