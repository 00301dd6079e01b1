# SPDX-License-Identifier: Apache-2.0
"""Model instances on the emulated card: slots in flight, timeouts, what stays usable afterwards."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.device import Device
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitOutOfServiceError,
    ComputeUnitTimeoutError,
    DeviceClosedError,
    RunError,
    XclbinMismatchError,
)
from hypersonic.host.instance import ModelInstance, Slot, check_room, open_instances
from hypersonic.host.opening import open_device

Build = tuple[Path, Manifest]


def _fill(slot: Slot, seed: int) -> NDArray[np.float32]:
    """Random rows in x, (capacity, 18) float32 of small integers; returns what y must become."""
    x = np.random.default_rng(seed).integers(-1000, 1000, (slot.capacity_rows, 18)).astype("<f4")
    slot.x.view("<f4").reshape(x.shape)[:] = x
    return np.asarray(2 * x[:, 0] + x[:, 1], np.float32)


def _open(device: Device, build: Build, slot_rows: int = 256, slots: int = 2) -> tuple[ModelInstance, ...]:
    return open_instances(device, build[1], slots=slots, slot_rows=slot_rows)


def test_there_is_one_instance_per_compute_unit_with_its_slots(device: Device, build: Build) -> None:
    instances = open_instances(device, build[1])
    assert [instance.name for instance in instances] == ["facile_1", "facile_2"]
    assert [len(instance.slots) for instance in instances] == [2, 2]
    assert all(instance.in_service for instance in instances)
    slot = instances[0].slots[0]
    assert (slot.capacity_rows, slot.x.size, slot.y.size) == (16384, 16384 * 72, 16384 * 4)


def test_two_slots_are_in_flight_at_once_and_come_back_in_order(device: Device, build: Build) -> None:
    first, second = _open(device, build)[0].slots
    for turn in range(10):
        y_first, y_second = _fill(first, 2 * turn), _fill(second, 2 * turn + 1)
        first.start(256)
        second.start(200)
        times_first, times_second = first.finish(5000), second.finish(5000)
        assert_array_equal(first.y.view("<f4"), y_first)
        assert_array_equal(second.y.view("<f4")[:200], y_second[:200])
        assert times_first.done_ns <= times_second.done_ns


def test_all_compute_units_work_side_by_side(device: Device, build: Build) -> None:
    instances = _open(device, build, slots=3)

    def work(instance: ModelInstance, failures: list[int]) -> None:
        for turn in range(20):
            wanted = [_fill(slot, turn * 10 + k) for k, slot in enumerate(instance.slots)]
            for slot in instance.slots:
                slot.start(256)
            for slot, y in zip(instance.slots, wanted, strict=True):
                slot.finish(5000)
                failures += [turn] * (not np.array_equal(slot.y.view("<f4"), y))

    failures: list[int] = []
    threads = [threading.Thread(target=work, args=(instance, failures)) for instance in instances]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [instance.busy_clocks() for instance in instances] == [20 * 3 * 256] * 2


def test_each_slot_may_be_used_by_a_thread_of_its_own(device: Device, build: Build) -> None:
    instance = _open(device, build, slots=4)[0]

    def work(slot: Slot, number: int) -> list[int]:
        failures = []
        for turn in range(25):
            y = _fill(slot, 100 * number + turn)
            slot.start(256)
            slot.finish(5000)
            failures += [turn] * (not np.array_equal(slot.y.view("<f4"), y))
        return failures

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, slot, number) for number, slot in enumerate(instance.slots)]
        assert [future.result() for future in done] == [[]] * 4
    assert instance.busy_clocks() == 4 * 25 * 256


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 256), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_any_row_count_writes_its_rows_and_no_others(device: Device, build: Build, counts: list[int], seed: int) -> None:
    (instance, _) = _open(device, build)
    with_marks = instance.slots[seed % 2]
    for rows in counts:
        y = _fill(with_marks, seed)
        with_marks.y.view("<f4")[:] = -7
        with_marks.start(rows)
        with_marks.finish(5000)
        assert_array_equal(with_marks.y.view("<f4")[:rows], y[:rows])
        assert_array_equal(with_marks.y.view("<f4")[rows:], np.full(256 - rows, -7, np.float32))
    instance.close()


def test_the_times_of_a_run_are_in_order(device: Device, build: Build) -> None:
    slot = _open(device, build)[0].slots[0]
    before = time.monotonic_ns()
    slot.start(256)
    times = slot.finish(5000)
    assert before <= times.start_ns <= times.launched_ns <= times.done_ns <= times.end_ns <= time.monotonic_ns()


def test_busy_clocks_count_from_load(device: Device, build: Build) -> None:
    instance = _open(device, build)[0]
    instance.slots[0].start(100)
    instance.slots[0].finish(5000)
    assert instance.busy_clocks() == 100
    instance.close()
    assert _open(device, build)[0].busy_clocks() == 0


@pytest.mark.parametrize("rows", [-1, 257])
def test_rows_that_do_not_fit_are_refused_and_the_slot_stays_free(device: Device, build: Build, rows: int) -> None:
    slot = _open(device, build)[0].slots[0]
    with pytest.raises(RunError, match=f"{rows} rows do not fit a slot of facile_1: expected 0 to 256"):
        slot.start(rows)
    slot.start(1)
    slot.finish(5000)


def test_a_slot_in_flight_cannot_be_started_nor_a_free_one_finished(device: Device, build: Build) -> None:
    slot = _open(device, build)[0].slots[0]
    with pytest.raises(RunError, match="not in flight"):
        slot.finish(100)
    slot.start(5)
    with pytest.raises(RunError, match="has 5 rows in flight"):
        slot.start(6)
    slot.finish(5000)


def test_a_compute_unit_that_hangs_goes_out_of_service_and_the_other_goes_on(build: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:3")
    with open_device(build[0]) as device:
        bad, good = _open(device, build)
        for slot in bad.slots:
            slot.start(10)
            slot.finish(5000)
        bad.slots[0].start(10)
        bad.slots[1].start(10)
        with pytest.raises(ComputeUnitTimeoutError, match=r"10 rows on facile_1 did not complete within 60 ms.*out of service"):
            bad.slots[0].finish(60)
        assert (bad.in_service, good.in_service) == (False, True)
        for slot in bad.slots:
            with pytest.raises(ComputeUnitOutOfServiceError, match="reset the card"):
                slot.finish(60)
        assert bad.busy_clocks() == 0
        y = _fill(good.slots[0], 1)
        good.slots[0].start(256)
        good.slots[0].finish(5000)
        assert_array_equal(good.slots[0].y.view("<f4"), y)
        bad.close()
        good.slots[1].start(256)
        good.slots[1].finish(5000)


def test_a_hang_that_one_thread_met_ends_the_others_waits(build: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:1")
    with open_device(build[0]) as device, ThreadPoolExecutor(1) as pool:
        first, second = _open(device, build)[0].slots
        first.start(10)
        second.start(10)
        patient = pool.submit(second.finish, 600_000)
        with pytest.raises(ComputeUnitTimeoutError):
            first.finish(60)
        with pytest.raises(ComputeUnitOutOfServiceError):
            patient.result(timeout=30)


def test_the_card_serves_again_after_a_hang_was_closed_and_loaded_anew(
    build: Build, hang: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hang("facile_1:1")
    with open_device(build[0], 1) as device:
        slot = _open(device, build)[0].slots[0]
        slot.start(1)
        with pytest.raises(ComputeUnitTimeoutError):
            slot.finish(30)
    monkeypatch.delenv("HYPERSONIC_EMU_HANG")
    with open_device(build[0], 2) as device:
        slot = _open(device, build)[0].slots[0]
        slot.start(1)
        slot.finish(5000)


def test_a_long_wait_can_be_interrupted(build: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:1")

    class AlarmError(Exception):
        pass

    def ring(*_: object) -> None:
        raise AlarmError

    previous = signal.signal(signal.SIGALRM, ring)
    try:
        with open_device(build[0]) as device:
            slot = _open(device, build)[0].slots[0]
            slot.start(1)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(AlarmError):
                slot.finish(60_000)
            assert slot.in_flight_rows == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_manifest_of_another_build_is_refused(device: Device, build: Build) -> None:
    with pytest.raises(XclbinMismatchError, match=f"card holds xclbin {device.uuid}, the manifest of 'facile' describes 0000"):
        open_instances(device, replace(build[1], uuid="0" * 32))
    with pytest.raises(ComputeUnitNotFoundError, match="'jet_1', the xclbin has facile_1, facile_2"):
        open_instances(device, replace(build[1], compute_units=("facile_1", "jet_1")))


@pytest.mark.parametrize(("slots", "slot_rows"), [(0, 10), (2, 0)])
def test_no_slots_or_no_rows_are_refused(device: Device, build: Build, slots: int, slot_rows: int) -> None:
    with pytest.raises(ValueError, match="expected 1 or more of each"):
        _open(device, build, slot_rows, slots)


def test_slots_that_do_not_fit_the_bank_leave_it_as_it_was(device: Device, build: Build) -> None:
    """300 Mi rows of 72 and 4 bytes are 22.3 GiB for each slot, 100 Mi rows are 7.4 GiB. The bank has 16 GiB."""
    for _ in range(3):
        with pytest.raises(BufferObjectError, match=r"2 slots of 314572800 rows .* memory bank 'bank0', .* 0 of them in use"):
            _open(device, build, slot_rows=300 << 20)
    first = _open(device, build, slot_rows=100 << 20)
    with pytest.raises(
        BufferObjectError, match=r"'bank0', which has 17179869184 bytes, 15938355200 of them in use: reduce slots"
    ):
        _open(device, build, slot_rows=100 << 20)
    assert set(device.usage.held_bytes().values()) == {2 * 76 * (100 << 20)}
    for instance in first:
        instance.close()
    _open(device, build)


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 40))
def test_slots_are_compared_with_the_bank_in_whole_pages(build: Build, slots: int, slot_rows: int) -> None:
    pages = sum((slot_rows * row_bytes + 4095) // 4096 for row_bytes in (72, 4))
    xclbin, manifest = Xclbin.read(build[0]), build[1]
    fits = slots * pages <= (16 << 30) // 4096
    with nullcontext() if fits else pytest.raises(BufferObjectError, match=r"reduce slots or slot_rows in config\.pbtxt"):
        check_room(xclbin, manifest, manifest.compute_units, slots, slot_rows)


@given(st.integers(1, 1 << 22))
def test_slots_that_just_fit_the_bank_are_accepted_and_one_more_is_not(build: Build, slots: int) -> None:
    """A slot of up to 56 rows takes two pages."""
    xclbin, manifest = Xclbin.read(build[0]), build[1]
    most = (16 << 30) // (2 * 4096)
    check_room(xclbin, manifest, manifest.compute_units, min(slots, most), 56)
    with pytest.raises(BufferObjectError):
        check_room(xclbin, manifest, manifest.compute_units, most + slots, 56)


def test_closing_an_instance_twice_is_harmless_and_its_views_are_gone(device: Device, build: Build) -> None:
    instance = _open(device, build)[0]
    instance.close()
    instance.close()
    assert (instance.slots[0].x.size, instance.slots[0].y.size) == (0, 0)
    with pytest.raises(DeviceClosedError):
        instance.slots[0].start(1)
    device.close()
    assert not instance.in_service
