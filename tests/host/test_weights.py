# SPDX-License-Identifier: Apache-2.0
"""Weights that the kernel loads at run time, on the emulated card with a model that adds the first of them to every answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hypersonic.firmware.errors import ManifestMismatchError
from hypersonic.firmware.kernel.registers import W as W_REGISTER
from hypersonic.firmware.publish.manifest import check
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.card_instances import CardInstances
from hypersonic.host.errors import BufferObjectError, DeviceError, WeightsError, XclbinMismatchError
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device
from hypersonic.host.weights import W, find_weights, load_weights
from tests.host.conftest import Build, Cards, FaultyXrt, kept_up, publish_weights, weights_of

CLOSED = ["run", "buffer", "buffer"]


def answer(slot: Slot) -> np.float32:
    """Of a row of zeros: the weight."""
    slot.x[:] = 0
    slot.start(1)
    slot.finish(5000)
    return slot.y.view("<f4")[0]


def answers(instances: tuple[ModelInstance, ...]) -> list[list[float]]:
    return [[float(answer(slot)) for slot in instance.slots] for instance in instances]


@pytest.fixture
def broken(faulty: FaultyXrt, weighted: Build) -> FaultyXrt:
    """A faulty XRT that holds the kernel with weights."""
    faulty.hold(Xclbin.read(weighted[0]).uuid)
    return faulty


def test_every_slot_of_every_unit_runs_with_the_weights_beside_the_xclbin(weighted: Build) -> None:
    with open_device(weighted[0]) as device:
        assert answers(open_instances(device, weighted[1], slots=2, slot_rows=16)) == [[100, 100]] * 2


def test_another_place_of_the_file_can_be_named(weighted: Build, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.write_bytes(weights_of(100))
    alone = tmp_path / "model.xclbin"
    alone.write_bytes(weighted[0].read_bytes())
    with open_device(alone) as device:
        assert answers(open_instances(device, weighted[1], slots=1, slot_rows=16, weights=moved)) == [[100]] * 2


@pytest.mark.parametrize("turns", [1, 2])
def test_other_weights_of_the_same_xclbin_never_take_the_place_of_the_last_ones(weighted: Build, turns: int) -> None:
    """Or the kernel would take them for those it has: the card stays as it was from one process to the next."""
    places = []
    with kept_up():
        for value in range(1, 3 * turns):
            other = publish_weights(weighted, weights_of(value))
            with open_device(other[0]) as device:
                assert answers(open_instances(device, other[1], slots=1, slot_rows=16)) == [[value]] * 2
                places.append(device.open_units()[0].read_register(W_REGISTER))
    assert all(before != after for before, after in pairwise(places))


def test_weights_longer_than_a_piece_reach_the_card_whole(weighted: Build) -> None:
    image = np.random.default_rng(1).integers(0, 256, (3 << 20) + 64, dtype=np.uint8)
    long = publish_weights(weighted, image.tobytes())
    with open_device(long[0]) as device:
        file = find_weights(long[1], long[0].with_name("weights.bin"))
        assert file is not None
        memory = load_weights(device.open_units()[1], file)
        memory.array[:] = 0
        memory.sync_from_device(image.size)
        assert_array_equal(memory.array, image)
        assert load_weights(device.open_units()[1], file) is memory


def test_the_weights_stay_while_the_unit_is_open_and_go_after_its_slots(weighted: Build, broken: FaultyXrt) -> None:
    with open_device(weighted[0]) as device:
        instances = open_instances(device, weighted[1], slots=1, slot_rows=16)
        for instance in instances:
            instance.close()
        assert broken.journal() == [*CLOSED, "buffer", "kernel"] * 2
        (again, _) = open_instances(device, weighted[1], slots=2, slot_rows=16)
        assert len(again.slots) == 2
        broken.set("")
    assert broken.journal() == [*CLOSED * 2, "buffer", "kernel", *CLOSED * 2, "buffer", "kernel", "device"]


DAMAGE: dict[str, tuple[Any, str]] = {
    "missing": (
        lambda file: file.unlink(),
        r"weights\.bin cannot be read \(No such file .*128 bytes: it must be next to model",
    ),
    "short": (lambda file: file.write_bytes(weights_of(100)[:-64]), r"weights\.bin is 64 bytes, expected 128: .*cut short"),
    "long": (lambda file: file.write_bytes(weights_of(100, 3)), r"weights\.bin is 192 bytes, expected 128: .*publish the"),
    "another": (lambda file: file.write_bytes(weights_of(1)), r"weights\.bin has sha256 \w{64}, expected \w{64} as in the man"),
    "a directory": (lambda file: (file.unlink(), file.mkdir()), r"weights\.bin (cannot be read|is \d+ bytes)"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_file_that_is_not_the_published_one_is_refused_before_memory_is_taken(
    weighted: Build, broken: FaultyXrt, tmp_path: Path, name: str
) -> None:
    damage, message = DAMAGE[name]
    (file := tmp_path / "weights.bin").write_bytes(weights_of(100))
    damage(file)
    with open_device(weighted[0]) as device:
        with pytest.raises(WeightsError, match=message):
            open_instances(device, weighted[1], weights=file)
        assert broken.journal() == []


def test_a_file_that_changes_while_it_is_loaded_is_refused_and_its_memory_given_back(
    weighted: Build, broken: FaultyXrt, tmp_path: Path
) -> None:
    (file := tmp_path / "weights.bin").write_bytes(weights_of(100))
    weights = find_weights(weighted[1], file)
    assert weights is not None
    file.write_bytes(weights_of(100)[:-4])
    with open_device(weighted[0]) as device:
        with pytest.raises(WeightsError, match="was changed while it was loaded"):
            load_weights(device.open_units()[0], weights)
        assert broken.journal() == ["buffer"]


def test_a_full_bank_leaves_the_unit_as_it_was(weighted: Build, broken: FaultyXrt) -> None:
    broken.set("xrtBOAlloc=12@2")  # the second unit's weights come after the first one's x and y
    with open_device(weighted[0]) as device, pytest.raises(BufferObjectError, match="bank is full"):
        open_instances(device, weighted[1], slots=1, slot_rows=16)
    broken.set("xrtBOSync=22")
    with open_device(weighted[0]) as device:
        with pytest.raises(DeviceError, match="do not sync to the card"):
            open_instances(device, weighted[1], slots=1, slot_rows=16)
        assert broken.journal() == ["buffer", "kernel"]


def test_a_file_of_fewer_beats_than_the_unit_reads_is_refused(weighted: Build) -> None:
    small = publish_weights(weighted, weights_of(1, 1))
    with open_device(small[0]) as device, pytest.raises(XclbinMismatchError, match=r"facile_1 reads 128 bytes .* has 64: they"):
        open_instances(device, small[1])


def test_a_buffer_of_another_bank_is_no_weights(weighted: Build) -> None:
    with open_device(weighted[0]) as device:
        first, second = device.open_units()
        assert (first.group_id(W), second.group_id(W)) == (first.group_id(0), second.group_id(0))
        elsewhere = first.allocate_in(128, second.group_id(W))
        with pytest.raises(BufferObjectError, match="argument 3 of facile_1 does not take the buffer object: it is in memory"):
            first.open_run().set_arg(W, elsewhere)


def test_a_card_that_was_reset_gets_its_weights_again(weighted: Build, cards: Cards) -> None:
    def reopen() -> Any:
        return open_device(weighted[0])

    card = CardInstances(reopen(), reopen).open("facile", partial(open_instances, manifest=weighted[1], slots=1, slot_rows=16))
    try:
        assert answers(card.instances) == [[100]] * 2
        cards.reset(0)
        for instance in card.instances:
            with pytest.raises(DeviceError):
                answer(instance.slots[0])
        names = [instance.name for instance in card.instances]
        with pytest.raises(DeviceError, match="can be recovered once"):
            card.recover(names[0])
        back = tuple(card.recover(name) for name in reversed(names))
        assert answers(back) == [[100]] * 2
    finally:
        card.close()


def test_a_manifest_tells_of_weights_where_the_kernel_takes_them_and_nowhere_else(weighted: Build, build: Build) -> None:
    for xclbin, manifest, message in (
        (weighted[0], replace(weighted[1], weights_bytes=0), "weights_bytes is 0, but the xclbin's kernel reads weights"),
        (build[0], replace(build[1], weights_bytes=64), "weights_bytes is 64, but the xclbin's kernel reads none"),
    ):
        with pytest.raises(ManifestMismatchError, match=message):
            check(manifest, xclbin.read_bytes())
