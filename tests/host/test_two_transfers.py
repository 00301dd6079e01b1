# SPDX-License-Identifier: Apache-2.0
"""Two transfers in flight in each direction: one that fails or a card that goes away leaves no other transfer waiting."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.host.errors import BufferObjectError, ComputeUnitOutOfServiceError, DeviceLostError
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device
from tests.host.conftest import Build, Cards
from tests.host.one_run import run
from tests.host.settled import settled

TIMEOUT_S = 60


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_a_transfer_that_fails_gives_its_place_to_the_next_one(faulty: Any, build: Build, failing: list[bool]) -> None:
    """Each run fails in one of its two transfers where `failing` says so, on two slots in turn, and the next one works."""
    faulty.set("")
    with open_device(build[0]) as device, ThreadPoolExecutor(1) as pool:
        (instance, *_) = open_instances(device, build[1], slots=2)
        for number, fails in enumerate(failing):
            slot = instance.slots[number % 2]
            faulty.set(f"xrtBOSync={errno.EFAULT}@{1 + number // 2 % 2}" if fails else "")
            if fails:
                with pytest.raises(BufferObjectError):
                    pool.submit(_once, slot).result(TIMEOUT_S)
            else:
                pool.submit(_once, slot).result(TIMEOUT_S)


def _once(slot: Slot) -> None:
    slot.start(5)
    slot.finish(1000)


def _begin(slot: Slot) -> str:
    try:
        slot.start(slot.capacity_rows)
    except (DeviceLostError, ComputeUnitOutOfServiceError) as error:
        return type(error).__name__
    return "started"


def test_a_card_that_goes_away_with_two_transfers_in_flight_leaves_nobody_waiting(
    build: Build, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "1")
    with open_device(build[0]) as device:
        instances = open_instances(device, build[1], slots=3, slot_rows=8000)
        slots = [slot for instance in instances for slot in instance.slots]
        with ThreadPoolExecutor(len(slots)) as pool:
            futures = [pool.submit(_begin, slot) for slot in slots]
            settled(lambda: len(device.compute_unit(instances[0].name).to_card._wakes) == len(slots) - 2)
            cards.unplug(0)
            ends = [future.result(TIMEOUT_S) for future in futures]
        assert set(ends) <= {"DeviceLostError", "ComputeUnitOutOfServiceError"}
        assert ends.count("DeviceLostError") >= 1
        assert not any(instance.in_service for instance in instances)
        cards.plug(0)
        cards.reset(0)
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "0")
    with open_device(build[0]) as device:
        for instance in open_instances(device, build[1], slots=2, slot_rows=64):
            for slot in instance.slots:
                run(slot)


def test_two_models_with_two_transfers_in_flight_have_their_own_answers(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_MB_S", "20")
    monkeypatch.setenv("HYPERSONIC_EMU_PCIE_TRANSFER_MB_S", "14")
    with open_device(build[0]) as device:
        instances = open_instances(device, build[1], slots=2, slot_rows=2000)
        most = _most_in_flight(instances, monkeypatch)
        with ThreadPoolExecutor(4) as pool:
            slots = [slot for instance in instances for slot in instance.slots]
            work = [pool.submit(_run_ten, slot, step) for step, slot in enumerate(slots)]
            for future in work:
                future.result(TIMEOUT_S)
    assert most == [2]


def _run_ten(slot: Slot, step: int) -> None:
    for each in range(10):
        run(slot, 1 + (step + each) * 97 % 2000)


def _most_in_flight(instances: tuple[ModelInstance, ...], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The most calls that are copying to the card at the same time, in a list of one number."""
    most, copying, lock = [0], [0], threading.Lock()
    buffers = {type(slot._x) for instance in instances for slot in instance.slots}
    (kind,) = buffers
    copy = kind.sync_to_device

    def counted(buffer: Any, size_bytes: int, offset: int = 0) -> None:
        with lock:
            copying[0] += 1
            most[0] = max(most[0], copying[0])
        try:
            copy(buffer, size_bytes, offset)
        finally:
            with lock:
                copying[0] -= 1

    monkeypatch.setattr(kind, "sync_to_device", counted)
    return most
