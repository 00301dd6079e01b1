# SPDX-License-Identifier: Apache-2.0
"""A core with memory files, whose rows come in beats, as compute units of a simulated F2 card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.f2.design import assemble_f2_xclbin, write_f2
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.host.instance import open_instances
from hypersonic.host.opening import open_device
from hypersonic.sim.card.f2 import build_f2_simulator
from tests.support.rf_kernels import WHOLE_OUT

ROWS = 40


def test_every_unit_answers_the_rows_that_numpy_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = WHOLE_OUT.kernel(tmp_path / "kernel")
    design = write_f2(kernel, 2, tmp_path)
    container = assemble_f2_xclbin(design, Target.HW_EMU, find_platform("aws_f2"), build_f2_simulator(design).read_bytes())
    (tmp_path / "model.xclbin").write_bytes(container)
    core = kernel.core
    manifest = Manifest.of(
        container, model=core.name, platform="aws_f2", core="rf", inputs=core.inputs, outputs=core.outputs, ii=core.ii,
        latency_cycles=core.latency_cycles, max_batch_size=ROWS,
    )  # fmt: skip
    (taken_out := tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(taken_out))
    with open_device(tmp_path / "model.xclbin") as device:
        slots = [instance.slots[0] for instance in open_instances(device, manifest, slots=1, slot_rows=ROWS)]
        assert len(slots) == 2
        expected = []
        for seed, slot in enumerate(slots):
            data, result = WHOLE_OUT.rows(ROWS, seed)
            slot.x[: data.size] = data
            slot.start(ROWS)
            expected.append(result)
        for slot, result in zip(slots, expected, strict=True):
            slot.finish(60_000)
            np.testing.assert_array_equal(slot.y[: result.size], result)
    assert not list(taken_out.iterdir())


def test_other_weights_make_another_design(tmp_path: Path) -> None:
    kernel = WHOLE_OUT.kernel(tmp_path / "kernel")
    same, (memory, *others) = write_f2(kernel, 1, tmp_path / "a").uuid, kernel.core.memories
    (changed := tmp_path / "changed" / memory.name).parent.mkdir()
    changed.write_text(memory.read_text().replace("1", "2"))
    other = replace(kernel, core=replace(kernel.core, memories=(changed, *others)))
    assert write_f2(kernel, 1, tmp_path / "b").uuid == same != write_f2(other, 1, tmp_path / "c").uuid
