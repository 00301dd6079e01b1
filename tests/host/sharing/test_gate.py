# SPDX-License-Identifier: Apache-2.0
"""The gates: a few transfers at a time, runs of different flows never in flight together, waiting flows in their order."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pytest

from hypersonic.host.sharing.gate import Gate, UnitGate
from hypersonic.host.sharing.order import Flow
from tests.host.settled import settled

A, B = Flow("a"), Flow("b")


def test_turns_of_two_flows_alternate_by_bytes_while_both_wait() -> None:
    gate, served, first = Gate(places=1), list[str](), Flow("first")

    def take(flow: Flow) -> None:
        gate.enter(flow, 10)
        served.append(flow.name)
        gate.leave(flow)

    with ThreadPoolExecutor(12) as pool:
        gate.enter(first, 1)
        futures = []
        for flow in (A, A, A, B, B, B):
            futures.append(pool.submit(take, flow))
            settled(lambda: len(gate._wakes) == len(futures))
        gate.leave(first)
        for future in futures:
            future.result(timeout=10)
    assert served == ["a", "b", "a", "b", "a", "b"]


def test_two_transfers_are_in_flight_and_the_third_waits_for_the_first_to_end() -> None:
    gate = Gate()
    gate.enter(A, 10)
    gate.enter(B, 10)
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(gate.enter, A, 10)
        settled(lambda: len(gate._wakes) == 1)
        assert not third.done()
        gate.leave(A)
        third.result(timeout=10)


def test_a_gate_is_free_again_after_each_turn() -> None:
    gate = Gate()
    for flow in (A, A, B, A):
        gate.enter(flow, 1)
        gate.leave(flow)


def unit(*flows: Flow, weights_bytes: int = 0) -> UnitGate:
    gate = UnitGate()
    for flow in flows:
        gate.join(flow, weights_bytes)
    return gate


def test_a_flow_alone_starts_as_many_runs_as_it_has() -> None:
    gate = unit(A)
    assert all(gate.enter(A, 1) for _ in range(20))


def waits(pool: ThreadPoolExecutor, gate: UnitGate, flow: Flow) -> Future[bool]:
    before = len(gate._wakes)
    future = pool.submit(gate.enter, flow, 10)
    settled(lambda: len(gate._wakes) == before + 1)
    return future


def test_runs_of_two_flows_are_never_in_flight_together() -> None:
    gate = unit(A, B)
    assert gate.enter(A, 10)
    assert gate.enter(A, 10)
    with ThreadPoolExecutor(3) as pool:
        third, other = waits(pool, gate, A), waits(pool, gate, B)
        gate.done()
        assert not other.done()
        gate.done()
        assert other.result(timeout=10)
        assert not third.done()
        gate.done()
        assert third.result(timeout=10)


def test_a_flow_goes_on_while_it_is_ahead_by_less_than_its_weights() -> None:
    served = []
    for weights_bytes in (0, 25):
        gate = unit(A, B, weights_bytes=weights_bytes)
        assert gate.enter(A, 10)
        assert gate.enter(A, 10)
        with ThreadPoolExecutor(6) as pool:
            left = {waits(pool, gate, flow): flow.name for flow in (A, B, A, B, A, B)}
            gate.done()
            order = ""
            while left:
                gate.done()
                wait(left, return_when=FIRST_COMPLETED, timeout=10)
                order += "".join(left.pop(future) for future in list(left) if future.done())
        served.append(order)
    assert served == ["bbaaba", "aabbba"]


def test_everyone_who_waits_for_a_unit_out_of_service_is_refused() -> None:
    gate = unit(A, B)
    assert gate.enter(A, 10)
    with ThreadPoolExecutor(2) as pool:
        other = waits(pool, gate, B)
        gate.close()
        assert not other.result(timeout=10)
    assert not gate.enter(A, 10)


@pytest.mark.parametrize("finished", [True, False])
def test_a_flow_that_leaves_lets_the_other_go_on(finished: bool) -> None:
    gate = unit(A, B)
    assert gate.enter(A, 10)
    if finished:
        gate.done()
    gate.leave(A)
    assert all(gate.enter(B, 10) for _ in range(5))
