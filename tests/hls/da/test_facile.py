# SPDX-License-Identifier: Apache-2.0
"""The main job's promise: FACILE in RTL equals hls4ml's C++ as integers, on channels of 20 events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.build import build_project
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.verilator import lint
from hypersonic.hls.zoo.facile import events


@pytest.mark.parametrize(
    ("rows", "optimisation", "distinct"),
    [
        pytest.param(2_000, "-O0", 500, id="an eighth of an event"),
        pytest.param(20 * 16_000, "-O1", 10_000, id="twenty events", marks=pytest.mark.whole),
    ],
)
def test_facile_rtl_equals_csim_on_every_channel(tmp_path: Path, rows: int, optimisation: str, distinct: int) -> None:
    project, core = build_project("facile", tmp_path / "facile")
    assert core is not None
    lint(core.sources, core.top)
    drawn = np.concatenate([events.log_flat_events(14, seed=2001).rows, events.physics_events(6, seed=2002).rows])
    assert drawn.shape == (20 * 16_000, 18)
    x_raw = project.inputs.to_raw([drawn[:: len(drawn) // rows]])
    expected = Csim(compile_csim(project), project).predict_raw(x_raw)
    assert len(np.unique(expected)) > distinct
    with RtlCore(core, optimisation=optimisation) as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x_raw), expected)
        assert rtl.clocks == rows + core.latency_cycles
        np.testing.assert_array_equal(rtl.predict_raw(x_raw[:16_000], Stalls(60, 60, 3)), expected[:16_000])
