# SPDX-License-Identifier: Apache-2.0
"""The bytes one request holds: taken before memory is, given back exactly once, whoever is quicker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.server.errors import BudgetError, CancelledError
from hypersonic.server.limits.admission import Admission, Held


def test_a_request_holds_the_larger_of_itself_and_its_answer() -> None:
    admission = Admission(0)
    held = Held(admission, "c", 100)
    held.hold(70)
    assert admission.size_bytes == 100
    held.hold(130)
    assert admission.size_bytes == 130
    held.leave()
    assert (admission.size_bytes, admission.requests) == (0, 0)


def test_what_exceeds_the_budget_is_not_taken() -> None:
    admission = Admission(1000)
    held = Held(admission, "c", 100)
    with pytest.raises(BudgetError):
        held.take(700)
    held.take(600)
    assert admission.size_bytes == 700
    held.leave()
    assert admission.size_bytes == 0


def test_requests_without_bytes_are_shared_by_address_too() -> None:
    admission = Admission(0, limit_requests=16)
    held: list[Held] = []
    with pytest.raises(BudgetError, match=r"the server holds 14 requests, 14 of them for this client's address"):
        held.extend(Held(admission, f"ipv4:127.0.0.2:{port}", 0) for port in range(100))
    assert admission.requests == 14 == len(held)
    Held(admission, "ipv4:127.0.0.3:1", 0).leave()
    for one in held:
        one.leave()
    assert (admission.requests, admission.refused) == (0, 1)


@given(st.lists(st.tuples(st.sampled_from(["take", "add", "hold", "leave"]), st.integers(0, 300)), max_size=12))
def test_a_call_that_ends_while_it_is_worked_on_leaves_nothing_behind(steps: list[tuple[str, int]]) -> None:
    admission = Admission(1000)
    held, left = Held(admission, "c", 100), False
    for step, size_bytes in steps:
        if step == "leave":
            held.leave()
            left = True
            continue
        try:
            getattr(held, step)(size_bytes)
        except BudgetError:
            assert not left
        except CancelledError:
            assert left
        assert (admission.size_bytes == 0) == left
    held.leave()
    assert (admission.size_bytes, admission.requests) == (0, 0)
