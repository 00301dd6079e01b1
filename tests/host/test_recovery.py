# SPDX-License-Identifier: Apache-2.0
"""Emulated cards that hang, are unplugged, reset and plugged in again: what the driver notices, gives back, and uses again."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.host.card_instances import CardInstances, ModelOnCard
from hypersonic.host.errors import (
    ComputeUnitOutOfServiceError,
    ComputeUnitTimeoutError,
    DeviceClosedError,
    DeviceError,
    DeviceLostError,
    DeviceNotFoundError,
    MemoryAccessError,
)
from hypersonic.host.instance import open_instances
from hypersonic.host.opening import open_device
from tests.host.conftest import Cards
from tests.host.one_run import run
from tests.host.register_values import BUSY, HEALTHY, MEMORY_ERROR

Build = tuple[Path, Manifest]


def on_card(build: Build, index: int = 0, slots: int = 2) -> ModelOnCard:
    reopen = partial(open_device, build[0], index)
    card = CardInstances(reopen(), reopen)
    return card.open("facile", partial(open_instances, manifest=build[1], slots=slots, slot_rows=64))


def test_all_units_of_a_card_that_is_unplugged_leave_service_at_once_and_say_why(build: Build, cards: Cards) -> None:
    with open_device(build[0], 1) as device:
        first, second = open_instances(device, build[1], slot_rows=64)
        run(first.slots[0])
        second.slots[0].start(4)
        cards.unplug(1)
        with pytest.raises(DeviceLostError, match="ENODEV"):
            first.slots[0].start(4)
        assert (first.in_service, second.in_service, device.lost) == (False, False, True)
        with pytest.raises(ComputeUnitOutOfServiceError, match=r"facile_2 is out of service: .*gone from the bus"):
            second.slots[0].finish(60_000)
    with pytest.raises(DeviceNotFoundError, match="there is no such card"):
        open_device(build[0], 1)


def test_who_waits_for_a_run_notices_that_the_card_is_gone_before_the_runs_time_is_up(
    build: Build, cards: Cards, hang: Callable[[str], None]
) -> None:
    hang("facile_1:1")
    with open_device(build[0]) as device, ThreadPoolExecutor(1) as pool:
        slot = open_instances(device, build[1], slot_rows=64)[0].slots[0]
        slot.start(4)
        waiting = pool.submit(slot.finish, 600_000)
        cards.unplug(0)
        with pytest.raises(DeviceLostError, match=r"facile_1 does not answer: .*ENODEV"):
            waiting.result(60)


def test_runs_that_a_reset_aborted_are_told_apart_from_runs_that_fail(
    build: Build, cards: Cards, hang: Callable[[str], None]
) -> None:
    hang("facile_1:1")
    with open_device(build[0]) as device:
        slot = open_instances(device, build[1], slot_rows=64)[0].slots[0]
        slot.start(4)
        cards.reset(0)
        with pytest.raises(DeviceLostError):
            slot.finish(600_000)


def test_a_card_that_is_plugged_in_again_serves_again(build: Build, cards: Cards) -> None:
    card = on_card(build)
    cards.unplug(0)
    with pytest.raises(DeviceLostError):
        card.instances[0].slots[0].start(1)
    with pytest.raises(ComputeUnitOutOfServiceError, match="once facile_2 of the same card"):
        card.recover("facile_1")
    with pytest.raises(DeviceNotFoundError):
        card.recover("facile_2")
    cards.plug(0)
    for name in ("facile_1", "facile_2"):
        run(card.recover(name).slots[0])
    card.close()
    with pytest.raises(DeviceClosedError):
        card.recover("facile_1")


def test_a_hung_unit_is_recovered_after_a_reset_only(build: Build, cards: Cards, hang: Callable[[str], None]) -> None:
    hang("facile_1:1,facile_2:1")
    card = on_card(build)
    for instance in card.instances:
        instance.slots[0].start(1)
        with pytest.raises(ComputeUnitTimeoutError):
            instance.slots[0].finish(30)
    with pytest.raises(ComputeUnitOutOfServiceError, match="once facile_2 of"):
        card.recover("facile_1")
    for _ in range(2):
        with pytest.raises(ComputeUnitOutOfServiceError, match=r"facile_1 is not idle before its first run.*reset"):
            card.recover("facile_2")
    cards.reset(0)
    both = [card.recover("facile_2"), card.recover("facile_1")]
    for instance in both:
        run(instance.slots[1])
    card.close()


def test_a_card_with_a_hung_unit_is_refused_to_whoever_opens_it_next(
    build: Build, cards: Cards, hang: Callable[[str], None]
) -> None:
    hang("facile_1:1")
    card = on_card(build)
    card.instances[0].slots[0].start(1)
    with pytest.raises(ComputeUnitTimeoutError):
        card.instances[0].slots[0].finish(30)
    card.close()
    with open_device(build[0]) as device, pytest.raises(ComputeUnitOutOfServiceError, match="not idle before its first run"):
        open_instances(device, build[1], slot_rows=64)
    cards.reset(0)
    with open_device(build[0]) as device:
        run(open_instances(device, build[1], slot_rows=64)[0].slots[0])


def test_a_unit_is_not_recovered_while_its_sibling_serves(build: Build, hang: Callable[[str], None]) -> None:
    hang("facile_1:1")
    card = on_card(build)
    bad, good = card.instances
    bad.slots[0].start(1)
    with pytest.raises(ComputeUnitTimeoutError):
        bad.slots[0].finish(30)
    with pytest.raises(
        ComputeUnitOutOfServiceError, match=r"facile_1 can be recovered once facile_2 .*unload 'facile', reset the card"
    ):
        card.recover("facile_1")
    run(good.slots[0])
    card.close()


def test_a_lost_card_is_released_whole_and_in_order(faulty: Any, build: Build) -> None:
    card = on_card(build, slots=1)
    faulty.set(f"xrtRunStart={errno.ENODEV}")
    with pytest.raises(DeviceLostError):
        card.instances[0].slots[0].start(1)
    card.close()
    unit = ["run", "buffer", "buffer", "kernel"]
    assert faulty.journal() == [*unit, *unit, "device"]


def test_letting_go_of_a_card_goes_on_when_calls_fail(faulty: Any, build: Build) -> None:
    card = on_card(build, slots=1)
    faulty.set(f"xrtBOSync={errno.EIO} xrtRunClose={errno.ENODEV} xrtKernelClose={errno.ENODEV} xrtDeviceClose={errno.ENODEV}")
    with pytest.raises(DeviceLostError):
        card.instances[0].slots[0].start(1)
    card.close()
    assert (faulty.journal().count("buffer"), faulty.journal()[-1]) == (4, "device")


def test_nothing_is_released_where_nobody_can_tell_whether_the_unit_still_hangs(faulty: Any, build: Build) -> None:
    card = on_card(build, slots=1)
    faulty.set("state=3")
    for instance in card.instances:
        instance.slots[0].start(1)
        with pytest.raises(ComputeUnitTimeoutError):
            instance.slots[0].finish(30)
    assert not card.recoverable
    card.close()
    assert faulty.journal() == ["device"]


def test_where_registers_tell_a_hung_unit_is_released_so_that_the_card_can_be_reset(faulty: Any, build: Build) -> None:
    faulty.set(f"registers={HEALTHY}")
    card = on_card(build, slots=1)
    faulty.set(f"registers={HEALTHY} state=3")
    for instance in card.instances:
        instance.slots[0].start(1)
        with pytest.raises(ComputeUnitTimeoutError):
            instance.slots[0].finish(30)
    card.close()
    assert faulty.journal()[-1] == "device"
    assert faulty.journal().count("buffer") == 4


def test_a_card_that_reads_all_ones_is_off_the_bus(faulty: Any, build: Build) -> None:
    faulty.set(f"registers={HEALTHY}")
    with open_device(build[0]) as device:
        instance = open_instances(device, build[1], slots=1)[0]
        instance.slots[0].start(1)
        faulty.set("registers=-1 state=3")
        with pytest.raises(DeviceLostError, match=r"reads 0xffffffff at VERSION, expected 0x0001.*gone from the bus"):
            instance.slots[0].finish(600_000)
        assert device.lost


@pytest.mark.parametrize(
    ("registers", "message"),
    [(BUSY, "is not idle"), (MEMORY_ERROR, r"AXI_ERROR set .* \(a read since reset\)")],
)
def test_a_unit_that_is_not_fit_is_refused_and_everything_given_back(
    faulty: Any, build: Build, registers: int, message: str
) -> None:
    faulty.set(f"registers={registers}")
    with (
        open_device(build[0]) as device,
        pytest.raises(ComputeUnitOutOfServiceError, match=rf"facile_1 .*{message}.*reset the card"),
    ):
        open_instances(device, build[1])
    assert faulty.journal() == ["kernel", "device"]


def test_a_run_that_the_memory_answered_with_an_error_fails_although_it_completed(build: Build, cards: Cards) -> None:
    with open_device(build[0]) as device:
        bad, good = open_instances(device, build[1], slot_rows=64)
        bad.slots[0].x.view("<f4")[0] = 1e30
        bad.slots[0].start(1)
        with pytest.raises(MemoryAccessError, match=r"facile_1 completed, but the memory responded to a read with an error"):
            bad.slots[0].finish(5000)
        assert (bad.in_service, good.in_service) == (False, True)
        with pytest.raises(ComputeUnitOutOfServiceError, match="AXI_ERROR"):
            bad.slots[1].start(1)
        run(good.slots[0])


def test_registers_are_not_asked_after_each_run_where_they_cannot_be_read(faulty: Any, build: Build) -> None:
    with open_device(build[0]) as device:
        slot = open_instances(device, build[1], slots=1)[0].slots[0]
        faulty.set(f"xrtKernelReadRegister={errno.EIO}@1")
        slot.start(1)
        slot.finish(100)
        with pytest.raises(DeviceError):  # the first that was read
            device.open_units()[0].read_register(0)
