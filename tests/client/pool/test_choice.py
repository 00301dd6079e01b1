# SPDX-License-Identifier: Apache-2.0
"""Which server takes a request."""

from __future__ import annotations

import random
from collections import Counter

from hypersonic.client.pool.choice import choose
from hypersonic.client.pool.member import Member, State
from hypersonic.client.servers import Server

WANTED = ("m", "")


def member(
    name: str, state: State = State.UP, in_flight: int = 0, models: frozenset[str] | None = None, failures: int = 0
) -> Member:
    made = Member(Server(f"{name}:1"), transport=None, state=state, models=models, failures=failures)  # type: ignore[arg-type]
    made.bytes_in_flight = in_flight
    return made


def test_of_two_servers_the_one_with_fewer_bytes_in_flight_is_taken() -> None:
    a, b = member("a", in_flight=10), member("b", in_flight=5)
    assert {choose([a, b], WANTED, set(), random.Random(seed)) for seed in range(20)} == {b}


def test_of_many_servers_two_random_ones_are_compared_so_that_not_all_clients_take_the_same() -> None:
    members = [member(str(n), in_flight=n) for n in range(10)]
    rng = random.Random(1)
    taken = Counter(choose(members, WANTED, set(), rng) for _ in range(2000))
    assert len(taken) == 9, "all but the most loaded one"
    assert [taken[one] for one in members] == sorted((taken[one] for one in members), reverse=True)


def test_the_server_that_failed_is_avoided_if_another_is_up() -> None:
    a, b = member("a"), member("b", in_flight=99)
    assert choose([a, b], WANTED, {a}, random.Random(0)) is b
    assert choose([a], WANTED, {a}, random.Random(0)) is a


def test_a_busy_server_is_asked_before_any_of_those_that_failed() -> None:
    a, b, busy = member("a"), member("b"), member("busy", in_flight=99)
    assert {choose([a, b, busy], WANTED, {a, b}, random.Random(seed)) for seed in range(20)} == {busy}
    assert {choose([a, b], WANTED, {a, b}, random.Random(seed)) for seed in range(20)} == {a, b}


def test_a_server_that_is_still_being_checked_is_asked_before_the_one_that_failed() -> None:
    failed, new, out = member("failed"), member("new", State.UNKNOWN), member("out", State.OUT)
    assert choose([failed, new, out], WANTED, {failed}, random.Random(1)) is new
    assert choose([failed, new, out], WANTED, set(), random.Random(1)) is failed


def test_servers_without_the_model_and_servers_that_reject_new_work_are_never_taken() -> None:
    lacking = member("a", models=frozenset({"other"}))
    refusing = member("b", State.REFUSING)
    assert choose([lacking, refusing], WANTED, set(), random.Random(0)) is None


def test_if_none_is_up_the_one_that_failed_least_is_asked() -> None:
    a, b = member("a", State.OUT, failures=9), member("b", State.OUT, failures=3)
    assert choose([a, b], WANTED, set(), random.Random(0)) is b
    assert choose([a, b, member("c")], WANTED, set(), random.Random(0)).name == "c:1"  # type: ignore[union-attr]
