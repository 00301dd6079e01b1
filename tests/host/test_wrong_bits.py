# SPDX-License-Identifier: Apache-2.0
"""HYPERSONIC_EMU_WRONG: the emulated card gives one wrong bit where it is told to, and none elsewhere.

The rehearsal of the first day (tests/hypersonic/first_day) has the runs that begin beside another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.host.errors import DeviceError
from hypersonic.host.instance import Slot, open_instances
from hypersonic.host.opening import open_device

Build = tuple[Path, Manifest]
ROWS = 100


def fill(slot: Slot, seed: int) -> NDArray[np.uint8]:
    """Rows in x; returns the bytes that model.c answers."""
    x = np.random.default_rng(seed).integers(-1000, 1000, (ROWS, 18)).astype("<f4")
    slot.x.view("<f4").reshape(x.shape)[:] = x
    answers: NDArray[np.uint8] = (2 * x[:, 0] + x[:, 1]).astype("<f4").view(np.uint8)
    return answers


def wrong_bits(got: NDArray[np.uint8], expected: NDArray[np.uint8]) -> list[int]:
    """The bits of the answers that differ, by their indices."""
    return [int(index) for index in np.flatnonzero(np.unpackbits(got ^ expected, bitorder="little"))]


def test_a_units_runs_are_wrong_from_the_given_one_on_and_another_units_are_right(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_WRONG", "facile_2:3")
    with open_device(build[0]) as device:
        for instance, expected in zip(open_instances(device, build[1], slot_rows=ROWS), ([], [0]), strict=True):
            slot = instance.slots[0]
            for run in range(1, 6):
                answers = fill(slot, run)
                slot.start(ROWS)
                slot.finish(5000)
                assert wrong_bits(slot.y, answers) == (expected if run >= 3 else [])


def test_a_copy_to_the_card_has_a_wrong_bit_in_its_last_byte(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_WRONG", "memory:2")
    with open_device(build[0]) as device:
        buffer = device.compute_unit("facile_1").allocate(4096, 0)
        for expected in ([], [8 * 99], [8 * 99]):
            pattern = np.random.default_rng(1).integers(0, 256, 100, dtype=np.uint8)
            buffer.array[:100] = pattern
            buffer.sync_to_device(100)
            buffer.array[:] = 0
            buffer.sync_from_device(100)
            assert wrong_bits(buffer.array[:100], pattern) == expected


@pytest.mark.parametrize("value", ["facile_1", "facile_1:many", "facile_1/queued"])
def test_a_value_that_is_not_understood_is_refused_when_the_xclbin_is_loaded(
    value: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_WRONG", value)
    with pytest.raises(DeviceError):
        open_device(build[0])
