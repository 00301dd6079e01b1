# SPDX-License-Identifier: Apache-2.0
"""Budgets that ran out: the log and the server's readiness say so."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from hypersonic.server.limits import budget, saturation
from hypersonic.server.limits.budget import Budget
from hypersonic.server.limits.saturation import Saturation
from tests.server.conftest import Serve


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """time.monotonic() of the rules, in seconds."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    for module in (saturation, budget):
        monkeypatch.setattr(module, "time", clock)
    return now


def fill(budget: Budget, addresses: int) -> None:
    for number in range(addresses):
        client = f"10.0.0.{number}:1"
        budget.take(budget.room(client)[0], client)


def empty(budget: Budget) -> None:
    for number in range(256):
        client = f"10.0.0.{number}:1"
        budget.release(budget.held(client)[1], client)


def test_a_server_refuses_all_once_a_new_address_has_been_refused_for_five_seconds(clock: list[float]) -> None:
    budgets = Saturation()
    budget = budgets.add("bytes", Budget(1 << 20, fresh=1 << 10))
    fill(budget, 1)
    clock[0] += 100
    assert not budgets.refuses_all, "one address is not all"
    fill(budget, 20)
    assert not budgets.refuses_all
    clock[0] += 4.9
    assert not budgets.refuses_all
    empty(budget)
    fill(budget, 20)
    clock[0] += 4.9
    assert not budgets.refuses_all, "there was room meanwhile"
    clock[0] += 0.2
    assert budgets.refuses_all
    assert budgets.update()
    empty(budget)
    assert not budgets.refuses_all
    assert budgets.update()
    assert not budgets.update()


def test_the_log_says_once_that_a_budget_is_saturated_and_once_that_it_has_room_again(
    clock: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "handlers", [])  # another test's, which would hear it as well
    caplog.set_level(logging.INFO, "hypersonic")
    budgets = Saturation()
    budget = budgets.add("bytes", Budget(800))
    fill(budget, 1)
    for _ in range(100):
        budget.refused("10.0.0.0:1")
        budgets.update()
        clock[0] += 1
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the budget 'bytes' is saturated for 10.0.0.0: 700 of 800 are in use")
    for _ in range(10):
        budgets.update()
        clock[0] += 1
    assert caplog.messages[1:] == ["the budget 'bytes' has room again: 700 of 800 are in use; 100 refusals"]


def test_one_address_leaves_a_server_ready_and_many_that_fill_it_do_not(serve: Serve, clock: list[float]) -> None:
    with serve(max_inflight_bytes=1 << 20) as running:
        service = running.server.service
        budget = service.admission.budget
        fill(budget, 1)
        clock[0] += 60
        assert service.ready
        fill(budget, 20)
        clock[0] += 6
        assert not service.ready
        empty(budget)
        assert service.ready


def test_the_log_says_when_a_saturated_budget_refuses_new_addresses_too(
    clock: list[float], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "handlers", [])
    caplog.set_level(logging.INFO, "hypersonic")
    budgets = Saturation()
    budget = budgets.add("bytes", Budget(1 << 20, fresh=1 << 10))
    for addresses in (1, 20):
        fill(budget, addresses)
        for _ in range(3):
            budget.refused("10.0.0.0:1")
            budgets.update()
            clock[0] += 1
    assert [message.rpartition("; ")[2] for message in caplog.messages] == [
        "new addresses have room",
        "new addresses are refused",
    ]
