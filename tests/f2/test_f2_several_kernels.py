# SPDX-License-Identifier: Apache-2.0
"""Two different kernels behind one F2 shell, simulated together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.f2.design import assemble_f2_xclbin, write_f2_kernels
from hypersonic.firmware.kernel.files import KernelError
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.host.instance import open_instances
from hypersonic.host.opening import open_device
from hypersonic.sim.bench_core import bench_core_wire, bench_rows, write_bench_core
from hypersonic.sim.card.f2 import build_f2_simulator

ROWS = 24
SHAPES = {"narrow": (2, 1), "wide": (7, 4)}


def test_the_units_of_every_kernel_answer_at_once(tmp_path: Path) -> None:
    kernels = [
        write_kernel(write_bench_core(*bench_rows(*shape), tmp_path / name, name=name), tmp_path / name)
        for name, shape in SHAPES.items()
    ]
    design = write_f2_kernels([(kernels[0], 2), (kernels[1], 1)], tmp_path)
    container = assemble_f2_xclbin(design, Target.HW_EMU, find_platform("aws_f2"), build_f2_simulator(design).read_bytes())
    (tmp_path / "model.xclbin").write_bytes(container)
    manifests = [
        Manifest.of(
            container, model=kernel.name, kernel=kernel.name, platform="aws_f2", core="da", inputs=kernel.core.inputs,
            outputs=kernel.core.outputs, ii=1, latency_cycles=kernel.core.latency_cycles, max_batch_size=ROWS,
        )
        for kernel in kernels
    ]  # fmt: skip
    assert [manifest.compute_units for manifest in manifests] == [("narrow_1", "narrow_2"), ("wide_1",)]
    assert [manifest.kernel_sha256 for manifest in manifests] == [kernel.sha256 for kernel in kernels]
    with open_device(tmp_path / "model.xclbin") as device:
        running = []
        for manifest, shape in zip(manifests, SHAPES.values(), strict=True):
            for seed, instance in enumerate(open_instances(device, manifest, slots=1, slot_rows=ROWS)):
                x = np.random.default_rng(seed).normal(0, 8, (ROWS, shape[0])).astype(np.float32)
                (y,) = bench_core_wire((x,), *bench_rows(*shape))
                (slot,) = instance.slots
                slot.x[: x.nbytes] = x.view(np.uint8).ravel()
                slot.start(ROWS)
                running.append((slot, np.asarray(y, np.float32)))
        assert len(running) == 3
        for slot, expected in running:
            slot.finish(60_000)
            np.testing.assert_array_equal(slot.y[: expected.nbytes].view(np.float32).reshape(expected.shape), expected)


def test_too_many_units_and_equal_names_are_refused_by_the_kernels(tmp_path: Path) -> None:
    kernels = [
        write_kernel(write_bench_core(*bench_rows(2, 1), tmp_path / name, name=name), tmp_path / name) for name in SHAPES
    ]
    with pytest.raises(KernelError, match=r"compute units are 17 \(narrow 16, wide 1\), expected 1 to 16"):
        write_f2_kernels([(kernels[0], 16), (kernels[1], 1)], tmp_path)
    with pytest.raises(KernelError, match="the kernels narrow, narrow have narrow twice; give a model another name"):
        write_f2_kernels([(kernels[0], 1), (kernels[0], 1)], tmp_path)
