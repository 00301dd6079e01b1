# SPDX-License-Identifier: Apache-2.0
"""Several models on one card: a unit each, or one unit together. What one of them does leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from hypersonic.host.card_instances import CardInstances, ModelOnCard
from hypersonic.host.errors import ComputeUnitOutOfServiceError, ComputeUnitTimeoutError, DeviceError
from hypersonic.host.instance import open_instances
from hypersonic.host.opening import open_device
from tests.host.conftest import Build, Cards
from tests.host.one_run import run
from tests.host.register_values import HEALTHY

SLOT = ["run", "buffer", "buffer"]


def shared(build: Build, *units: str, index: int = 0) -> tuple[CardInstances, list[ModelOnCard]]:
    """A card with one model for each of these units, named a, b and so on."""
    reopen = partial(open_device, build[0], index)
    card = CardInstances(reopen(), reopen)
    opening = partial(open_instances, manifest=build[1], slots=1, slot_rows=64)
    return card, [card.open(name, partial(opening, units=[unit])) for name, unit in zip("abc", units, strict=False)]


def hang_up(model: ModelOnCard) -> None:
    (slot,) = model.instances[0].slots
    slot.start(1)
    with pytest.raises(ComputeUnitTimeoutError):
        slot.finish(30)


def test_a_unit_is_opened_with_its_first_model_and_closed_with_its_last(faulty: Any, build: Build) -> None:
    _, (first, second, other) = shared(build, "facile_1", "facile_1", "facile_2")
    first.close()
    assert faulty.journal() == SLOT
    second.close()
    assert faulty.journal() == [*SLOT, *SLOT, "kernel"]
    other.close()
    assert faulty.journal() == [*SLOT, *SLOT, "kernel", *SLOT, "kernel", "device"]


def test_a_model_that_comes_or_goes_leaves_the_others_running(build: Build) -> None:
    card, (first, second) = shared(build, "facile_1", "facile_2")
    first.close()
    run(second.instances[0].slots[0])
    again = card.open("a", partial(open_instances, manifest=build[1], slots=2, slot_rows=64, units=["facile_1"]))
    for model in (again, second):
        run(model.instances[0].slots[0])
    card.close()


def test_a_model_that_cannot_be_opened_leaves_the_others_running(build: Build) -> None:
    card, (first,) = shared(build, "facile_1")
    with pytest.raises(DeviceError, match="'jet_1', the xclbin has facile_1, facile_2"):
        card.open("b", partial(open_instances, manifest=replace(build[1], compute_units=("jet_1",))))
    run(first.instances[0].slots[0])
    card.close()


def test_a_hung_unit_is_its_own_models_alone_and_who_is_in_the_way_is_said(
    build: Build, cards: Cards, hang: Callable[[str], None]
) -> None:
    hang("facile_1:1")
    card, (bad, good) = shared(build, "facile_1", "facile_2")
    hang_up(bad)
    assert (bad.instances[0].in_service, good.instances[0].in_service) == (False, True)
    with pytest.raises(
        ComputeUnitOutOfServiceError,
        match=r"facile_1 can be recovered once facile_2 of the same card .*unload 'a' and 'b', reset",
    ):
        bad.recover("facile_1")
    run(good.instances[0].slots[0])
    with pytest.raises(ComputeUnitOutOfServiceError, match="facile_1 is out of service"):
        card.open("c", partial(open_instances, manifest=build[1], units=["facile_1"]))
    card.close()


def test_the_memory_of_a_hung_unit_is_freed_with_the_card_and_not_before(faulty: Any, build: Build) -> None:
    faulty.set(f"registers={HEALTHY}")
    _, (bad, good) = shared(build, "facile_1", "facile_2")
    faulty.set(f"registers={HEALTHY} state=3")
    hang_up(bad)
    bad.close()
    assert faulty.journal() == []
    good.close()
    assert faulty.journal() == [*SLOT, "kernel", *SLOT, "kernel", "device"]


def test_after_a_reset_all_models_of_the_card_return_and_none_waits_for_one_that_cannot(
    build: Build, cards: Cards, hang: Callable[[str], None]
) -> None:
    hang("facile_1:1,facile_2:1")
    card, (first, second) = shared(build, "facile_1", "facile_2")
    late = card.open("c", partial(open_instances, manifest=build[1], slots=1, slot_rows=64, units=["facile_2"]))
    for model in (first, second):
        hang_up(model)
    with pytest.raises(ComputeUnitOutOfServiceError, match="once facile_2, facile_2 of the same card"):
        first.recover("facile_1")
    with pytest.raises(ComputeUnitOutOfServiceError, match="once facile_2 of the same card"):
        second.recover("facile_2")
    with pytest.raises(ComputeUnitOutOfServiceError, match="facile_2 is not idle before its first run"):
        late.recover("facile_2")
    cards.reset(0)
    run(first.recover("facile_1").slots[0])
    second.close()
    run(late.recover("facile_2").slots[0])
    run(first.instances[0].slots[0])
    card.close()
