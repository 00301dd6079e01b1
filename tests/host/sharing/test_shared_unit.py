# SPDX-License-Identifier: Apache-2.0
"""Models with other weights on one compute unit: each answers with its own, and what one does wrong is not the other's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from hypersonic.host.device import Device
from hypersonic.host.errors import ComputeUnitOutOfServiceError, ComputeUnitTimeoutError, MemoryAccessError
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device
from tests.host.conftest import Build, publish_weights, weights_of

#: first numbers of a row for which model.c answers late, and with an error of the memory
LATE, WRONG = 1e29, 1e30


@contextmanager
def models(weighted: Build, *values: float) -> Iterator[tuple[Device, list[ModelInstance]]]:
    """Models with these weights on unit facile_1."""
    builds = [publish_weights(weighted, weights_of(value)) for value in values]
    with open_device(builds[0][0]) as device:
        yield (
            device,
            [
                open_instances(
                    device, manifest, slots=2, slot_rows=8, weights=path.with_name("weights.bin"), units=["facile_1"]
                )[0]
                for path, manifest in builds
            ],
        )


def ask(slot: Slot, first: float = 0.0, timeout_ms: int = 20_000) -> float:
    """The answer to a row."""
    rows = slot.x.view("<f4").reshape(-1, 18)
    rows[0] = 0
    rows[0, 0] = first
    slot.start(1)
    slot.finish(timeout_ms)
    return float(slot.y.view("<f4")[0])


def test_each_model_is_answered_from_its_own_weights(weighted: Build) -> None:
    with models(weighted, 3, 4, 5) as (device, instances):
        assert len(device.compute_units) == 1

        def many(slot: Slot) -> set[float]:
            return {ask(slot) for _ in range(25)}

        with ThreadPoolExecutor(6) as pool:
            answers = [[pool.submit(many, slot) for slot in instance.slots] for instance in instances]
            assert [{value for future in futures for value in future.result()} for futures in answers] == [{3.0}, {4.0}, {5.0}]


def test_the_clocks_of_a_shared_unit_are_those_of_the_model_that_ran(weighted: Build) -> None:
    """model.c counts a clock for each row."""
    with models(weighted, 3, 4) as (_, (one, other)):
        for instance, count in ((one, 2), (other, 3), (one, 4)):
            for _ in range(count):
                ask(instance.slots[0])
        assert [instance.busy_clocks() for instance in (one, other, one, other)] == [6, 3, 6, 3]


def test_weights_are_there_once_and_freed_with_their_last_model(weighted: Build) -> None:
    with models(weighted, 3, 3, 4) as (device, (one, same, other)):
        (unit,) = device.compute_units
        assert len(unit.weights) == 2
        one.close()
        assert len(unit.weights) == 2
        same.close()
        assert len(unit.weights) == 1
        assert ask(other.slots[0]) == 4.0


def test_versions_come_and_go_under_load_and_no_memory_is_kept(weighted: Build) -> None:
    with models(weighted, 0) as (device, (always,)):
        (unit,) = device.compute_units
        for value in range(1, 9):
            path, manifest = publish_weights(weighted, weights_of(value))
            (version,) = open_instances(
                device, manifest, slots=1, slot_rows=8, weights=path.with_name("weights.bin"), units=["facile_1"]
            )
            assert (ask(version.slots[0]), ask(always.slots[0]), ask(version.slots[0])) == (value, 0.0, value)
            version.close()
            assert len(unit.weights) == 1


def test_a_memory_error_is_the_answer_to_its_own_model_alone(weighted: Build) -> None:
    with models(weighted, 3, 4) as (_, (bad, good)), ThreadPoolExecutor(2) as pool:
        rows = bad.slots[0].x.view("<f4").reshape(-1, 18)
        rows[:2] = 0
        rows[0, 0], rows[1, 0] = LATE, WRONG
        bad.slots[0].start(2)
        waiting = pool.submit(ask, good.slots[0])
        with pytest.raises(MemoryAccessError):
            bad.slots[0].finish(20_000)
        with pytest.raises(ComputeUnitOutOfServiceError, match="facile_1 is out of service"):
            waiting.result(timeout=20)


def test_a_run_that_hangs_is_the_timeout_of_its_own_model_alone(weighted: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:2")
    with models(weighted, 3, 4) as (_, (bad, good)), ThreadPoolExecutor(2) as pool:
        assert ask(good.slots[0]) == 4.0
        bad.slots[0].start(1)
        waiting = pool.submit(ask, good.slots[0])
        with pytest.raises(ComputeUnitTimeoutError):
            bad.slots[0].finish(100)
        with pytest.raises(ComputeUnitOutOfServiceError, match="facile_1 is out of service"):
            waiting.result(timeout=20)
