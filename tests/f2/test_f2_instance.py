# SPDX-License-Identifier: Apache-2.0
"""Model instances over the register driver and the simulated F2 card: what tests/host/test_instance.py asks of XRT's path."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.metadata import embedded_metadata
from hypersonic.firmware.xclbin.sections import Kind
from hypersonic.host.device import Device
from hypersonic.host.errors import (
    BufferObjectError,
    ComputeUnitNotFoundError,
    ComputeUnitOutOfServiceError,
    ComputeUnitTimeoutError,
    DeviceClosedError,
    DeviceError,
    RunError,
    XclbinMismatchError,
)
from hypersonic.host.f2.driver import F2Driver
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device as open_card
from hypersonic.sim.card.f2_simulation import SimulatedCard

if TYPE_CHECKING:
    from tests.f2.conftest import Built

ROWS = 200


def _open(device: Device, built: Built, slots: int = 2) -> tuple[ModelInstance, ...]:
    return open_instances(device, built.manifest, slots=slots, slot_rows=ROWS)


def _fill(slot: Slot, built: Built, seed: int) -> NDArray[np.float32]:
    """Random rows in x; returns what y must become."""
    x, y = built.rows(slot.capacity_rows, seed)
    slot.x.view("<f4").reshape(x.shape)[:] = x
    return y


def _y(slot: Slot, like: NDArray[np.float32]) -> NDArray[np.uint32]:
    return slot.y.view(np.uint32).reshape(like.shape)


def test_the_card_is_what_its_container_says(device: Device, built: Built) -> None:
    assert device.uuid == built.design.uuid == built.manifest.uuid
    assert [unit.name for unit in device.open_units()] == ["bench_1", "bench_2"]
    unit = device.open_units()[0]
    assert unit.read_register(registers.VERSION) == registers.MAP_VERSION
    assert (unit.group_id(0), unit.group_id(1)) == (0, 0)
    with pytest.raises(ComputeUnitNotFoundError, match="argument 2 has no memory bank"):
        unit.group_id(2)


def test_several_runs_are_in_flight_and_come_back_in_order(device: Device, built: Built) -> None:
    slots = _open(device, built, slots=4)[0].slots
    for turn in range(3):
        wanted = [_fill(slot, built, 10 * turn + number) for number, slot in enumerate(slots)]
        for slot in slots:
            slot.start(ROWS)
        times = [slot.finish(60_000) for slot in slots]
        for slot, y in zip(slots, wanted, strict=True):
            assert_array_equal(_y(slot, y), y.view(np.uint32))
        assert [time.done_ns for time in times] == sorted(time.done_ns for time in times)


def test_more_runs_than_the_unit_takes_wait_for_their_turn(device: Device, built: Built) -> None:
    slots = _open(device, built, slots=registers.MAX_RUNS + 4)[0].slots
    wanted = [_fill(slot, built, number) for number, slot in enumerate(slots)]
    for slot in slots:
        slot.start(ROWS)
    for slot, y in reversed(list(zip(slots, wanted, strict=True))):  # whoever waits moves the others on
        slot.finish(60_000)
        assert_array_equal(_y(slot, y), y.view(np.uint32))


def test_both_units_work_side_by_side_each_with_threads_of_its_own(device: Device, built: Built) -> None:
    instances = _open(device, built)
    failures: list[int] = []

    def work(slot: Slot, number: int) -> None:
        for turn in range(4):
            y = _fill(slot, built, 100 * number + turn)
            slot.start(ROWS)
            slot.finish(120_000)
            failures.extend([number] * (not np.array_equal(_y(slot, y), y.view(np.uint32))))

    slots = [slot for instance in instances for slot in instance.slots]
    threads = [threading.Thread(target=work, args=(slot, number)) for number, slot in enumerate(slots)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(instance.busy_clocks() > 8 * ROWS for instance in instances)


@pytest.mark.parametrize("rows", [0, 1, 7, ROWS])
def test_any_row_count_writes_its_rows_and_no_others(device: Device, built: Built, rows: int) -> None:
    slot = _open(device, built)[1].slots[1]
    y = _fill(slot, built, rows)
    slot.y.view("<f4")[:] = -7
    slot.start(rows)
    slot.finish(60_000)
    assert_array_equal(_y(slot, y)[:rows], y[:rows].view(np.uint32))
    assert (slot.y.view("<f4").reshape(y.shape)[rows:] == -7).all()


def test_a_unit_that_hangs_goes_out_of_service_and_the_other_goes_on(
    open_device: Callable[[], Device], built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "bench_1:2")
    with open_device() as device:
        bad, good = _open(device, built)
        bad.slots[0].start(10)
        bad.slots[0].finish(60_000)
        bad.slots[0].start(10)
        bad.slots[1].start(10)
        with pytest.raises(ComputeUnitTimeoutError, match=r"10 rows on bench_1 did not complete .* 60 ms.*`fpga-load-local"):
            bad.slots[0].finish(60)
        assert (bad.in_service, good.in_service) == (False, True)
        with pytest.raises(ComputeUnitOutOfServiceError, match="a run did not complete; load the card's image again"):
            bad.slots[1].finish(60)
        y = _fill(good.slots[0], built, 1)
        good.slots[0].start(ROWS)
        good.slots[0].finish(60_000)
        assert_array_equal(_y(good.slots[0], y), y.view(np.uint32))


def test_a_hang_that_one_thread_met_ends_the_others_waits(
    open_device: Callable[[], Device], built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "bench_1:1")
    with open_device() as device, ThreadPoolExecutor(1) as pool:
        first, second = _open(device, built)[0].slots
        first.start(10)
        second.start(10)
        patient = pool.submit(second.finish, 600_000)
        with pytest.raises(ComputeUnitTimeoutError):
            first.finish(60)
        with pytest.raises(ComputeUnitOutOfServiceError):
            patient.result(timeout=60)


@pytest.mark.parametrize("memory", ["ideal", "latency=120,stall=25,seed=5,outstanding=9"])
def test_the_memorys_timing_changes_nothing(
    open_device: Callable[[], Device], built: Built, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:  # fmt: skip
    monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", memory)
    with open_device() as device:
        slots = [slot for instance in _open(device, built) for slot in instance.slots]
        wanted = [_fill(slot, built, number) for number, slot in enumerate(slots)]
        for slot in slots:
            slot.start(ROWS)
        for slot, y in zip(slots, wanted, strict=True):
            slot.finish(60_000)
            assert_array_equal(_y(slot, y), y.view(np.uint32))


@pytest.mark.parametrize("memory", ["fast", "latency=", "latency=-1", "depth=3", "latency=10000000"])
def test_a_timing_that_is_not_understood_is_refused(
    open_device: Callable[[], Device], monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:  # fmt: skip
    monkeypatch.setenv("HYPERSONIC_EMU_MEMORY", memory)
    with pytest.raises(DeviceError, match=f"HYPERSONIC_EMU_MEMORY is '{memory}', expected ideal or latency=CLOCKS"):
        open_device()


def test_runs_that_cannot_be_are_refused(device: Device, built: Built) -> None:
    unit = device.open_units()[0]
    buffer, run = unit.allocate(4096, 0), unit.open_run()
    with pytest.raises(RunError, match="argument 0 was not set"):
        run.start()
    with pytest.raises(RunError, match="argument 0 does not take 5"):
        run.set_arg(0, 5)
    with pytest.raises(RunError, match="argument 2 does not take 4294967296"):
        run.set_arg(2, 1 << 32)
    with pytest.raises(ComputeUnitNotFoundError, match="argument 2 has no memory bank"):
        run.set_arg(2, buffer)
    with pytest.raises(ComputeUnitNotFoundError, match="argument 3 has no memory bank"):
        run.set_arg(3, buffer)  # only a kernel that takes weights has it
    for size_bytes, offset in ((4097, 0), (1, 4096), (8, -1), (-1, 0)):
        with pytest.raises(BufferObjectError, match="do not sync"):
            buffer.sync_to_device(size_bytes, offset)


def test_what_was_closed_cannot_be_used(device: Device, built: Built) -> None:
    instance = _open(device, built)[0]
    instance.close()
    with pytest.raises(DeviceClosedError):
        instance.slots[0].start(1)
    device.close()
    assert not instance.in_service


def test_a_manifest_or_a_card_of_another_build_is_refused(device: Device, built: Built) -> None:
    with pytest.raises(XclbinMismatchError, match="describes 0000"):
        open_instances(device, replace(built.manifest, uuid="0" * 32, kernel_sha256="0" * 64))
    other = replace(Xclbin.read(built.xclbin), uuid="1" * 32)
    with pytest.raises(XclbinMismatchError, match=f"card 0 holds xclbin {built.design.uuid}, expected 1111"):
        Device(F2Driver(lambda _index, _contents: SimulatedCard(built.simulator)), other, built.xclbin, 0)


def test_a_kernel_of_other_arguments_than_ours_is_refused(built: Built, tmp_path: Path) -> None:
    contents = Xclbin.read(built.xclbin)
    (kernel,) = contents.kernels
    described = embedded_metadata([replace(kernel, arguments=kernel.arguments[:2])], contents.target, find_platform("aws_f2"))
    sections = [
        replace(section, payload=described) if section.kind == Kind.EMBEDDED_METADATA else section
        for section in contents.sections
    ]
    (tmp_path / "model.xclbin").write_bytes(replace(contents, sections=tuple(sections)).to_bytes())
    with pytest.raises(XclbinMismatchError, match="kernel bench has 2 arguments, expected 3 or 4: build the model again"):
        open_card(tmp_path / "model.xclbin").open_units()
