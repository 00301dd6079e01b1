# SPDX-License-Identifier: Apache-2.0
"""A real kernel that loads weights, once and over and over, on the emulated cards with DIMMs and with HBM and on the simulated
F2 card, by their drivers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.f2.design import assemble_f2_xclbin, write_f2
from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.host.device import Device
from hypersonic.host.errors import BufferObjectError, RunError, WeightsError
from hypersonic.host.instance import ModelInstance, Slot, open_instances
from hypersonic.host.opening import open_device
from hypersonic.host.weights import W
from hypersonic.sim.card.f2 import build_f2_simulator
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.host.conftest import kept_up
from tests.support.rtl.bench_weights import bench_image, bench_weights_rows, write_bench_weights

CARDS = ("u250", "u55c", "aws_f2")
ROWS, SIZE, UNITS = 40, 4, 2

#: card -> the container of two compute units
Containers = Callable[[str], bytes]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    directory = tmp_path_factory.mktemp("weights_kernel")
    return write_kernel(write_bench_weights(directory, size=SIZE), directory)


@pytest.fixture(scope="module")
def container(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Containers:
    def assemble(card: str) -> bytes:
        platform = find_platform(card)
        if card != "aws_f2":
            image = build_hardware_simulator(kernel).read_bytes()
            return assemble_xclbin(kernel.name, Target.HW_EMU, platform, image, compute_units=UNITS, weights=True)
        design = write_f2(kernel, UNITS, tmp_path_factory.mktemp("f2"))
        return assemble_f2_xclbin(design, Target.HW_EMU, platform, build_f2_simulator(design).read_bytes())

    return assemble


@pytest.fixture(params=CARDS)
def published(request: pytest.FixtureRequest, kernel: Kernel, container: Containers, tmp_path: Path) -> Callable[[int], Path]:
    """A version with random weights by their seed; every version has the same xclbin."""
    return partial(_publish, tmp_path, kernel, container(request.param), request.param)


def _publish(repository: Path, kernel: Kernel, xclbin: bytes, card: str, seed: int) -> Path:
    core = kernel.core
    weights = bench_image(core, seed).tobytes()
    manifest = Manifest.of(
        xclbin, model=kernel.name, platform=card, core="bench", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=ROWS, weights=weights,
    )  # fmt: skip
    return publish(repository, xclbin, manifest, config_pbtxt(manifest), weights=weights)


def opened(device: Device, version: Path) -> tuple[ModelInstance, ...]:
    manifest, weights = Manifest.read(version / "manifest.json"), version / "weights.bin"
    return open_instances(device, manifest, slots=2, slot_rows=ROWS, weights=weights)


def start(slot: Slot, rows: int, seed: int) -> NDArray[np.int16]:
    x = np.random.default_rng(seed).integers(-(1 << 15), 1 << 15, (rows, SIZE), dtype=np.int16)
    slot.x.view("<i2").reshape(-1, SIZE)[:rows] = x
    slot.start(rows)
    return x


def check(instance: ModelInstance, kernel: Kernel, weights: int, runs: int = 3) -> None:
    """Both slots in flight, `runs` times, from the first row on that a unit takes with these weights."""
    image, first = bench_image(kernel.core, weights), 0
    for turn in range(runs):
        given = [start(slot, ROWS - turn - number, 10 * turn + number) for number, slot in enumerate(instance.slots)]
        for slot, x in zip(instance.slots, given, strict=True):
            slot.finish(60_000)
            y = slot.y.view("<i2").reshape(-1, SIZE)[: len(x)]
            np.testing.assert_array_equal(y, bench_weights_rows(kernel.core, image, x, first))
            first += len(x)


def test_every_unit_computes_with_the_published_weights(published: Callable[[int], Path], kernel: Kernel) -> None:
    version = published(1)
    with open_device(version / "model.xclbin") as device:
        for instance in opened(device, version):
            check(instance, kernel, 1)


def test_a_run_without_weights_is_not_started_on_f2(kernel: Kernel, container: Containers, tmp_path: Path) -> None:
    """XRT starts such a run, with w 0; our driver of F2 does not."""
    version = _publish(tmp_path, kernel, container("aws_f2"), "aws_f2", 1)
    with open_device(version / "model.xclbin") as device:
        unit = device.open_units()[0]
        run = unit.open_run()
        for argument in (0, 1):
            run.set_arg(argument, unit.allocate(4096, argument))
        run.set_arg(2, 1)
        with pytest.raises(RunError, match="cannot be started: argument 3 was not set"):
            run.start()


def test_two_sets_of_weights_take_turns_on_one_unit(published: Callable[[int], Path], kernel: Kernel) -> None:
    versions = {seed: published(seed) for seed in (1, 2)}
    with open_device(versions[1] / "model.xclbin") as device:
        instances = {seed: opened(device, version)[1] for seed, version in versions.items()}
        for seed in (1, 2, 1, 2):
            check(instances[seed], kernel, seed, runs=1)


def test_who_opens_the_card_next_has_weights_of_his_own(kernel: Kernel, container: Containers, tmp_path: Path) -> None:
    """The card stays as it is in between, and the next buffers come to lie where the last ones were."""
    xclbin = container("u250")
    with kept_up():
        for seed in (3, 4, 4, 5):
            version = _publish(tmp_path, kernel, xclbin, "u250", seed)
            with open_device(version / "model.xclbin") as device:
                check(opened(device, version)[0], kernel, seed, runs=2)


def test_damaged_weights_are_refused_and_the_card_serves_on(published: Callable[[int], Path], kernel: Kernel) -> None:
    version = published(6)
    whole = (version / "weights.bin").read_bytes()
    with open_device(version / "model.xclbin") as device:
        (version / "weights.bin").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(
            WeightsError, match=r"weights\.bin has sha256 \w+, expected \w+ as in the manifest of 'bench_weights'"
        ):
            opened(device, version)
        (version / "weights.bin").write_bytes(whole)
        check(opened(device, version)[1], kernel, 6, runs=1)


@pytest.mark.parametrize("card", ["u250", "u55c"])
def test_weights_lie_beside_the_rows_and_nowhere_else(kernel: Kernel, container: Containers, tmp_path: Path, card: str) -> None:
    version = _publish(tmp_path, kernel, container(card), card, 7)
    with open_device(version / "model.xclbin") as device:
        first, second = device.open_units()
        assert [unit.group_id(W) for unit in (first, second)] == [unit.group_id(0) for unit in (first, second)]
        foreign = second.allocate(4096, W)
        with pytest.raises(BufferObjectError, match="argument 3 of bench_weights_1 does not take the buffer object"):
            first.open_run().set_arg(W, foreign)
