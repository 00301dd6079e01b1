# SPDX-License-Identifier: Apache-2.0
"""The main job's promise: FACILE in RTL equals hls4ml's C++ as integers, on every channel of 20 events."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hypersonic.hls.build import build_project
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.rtl.simulate import RtlCore, Stalls
from hypersonic.hls.verilator import lint
from hypersonic.hls.zoo.facile import events


def test_facile_rtl_equals_csim_on_every_channel_of_twenty_events(tmp_path: Path) -> None:
    project, core = build_project("facile", tmp_path / "facile")
    assert core is not None
    lint(core.sources, core.top)
    rows = np.concatenate([events.log_flat_events(14, seed=2001).rows, events.physics_events(6, seed=2002).rows])
    assert rows.shape == (20 * 16_000, 18)
    x_raw = project.inputs.to_raw([rows])
    expected = Csim(compile_csim(project), project).predict_raw(x_raw)
    assert len(np.unique(expected)) > 10_000
    with RtlCore(core) as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x_raw), expected)
        assert rtl.clocks == len(rows) + core.latency_cycles
        np.testing.assert_array_equal(rtl.predict_raw(x_raw[:16_000], Stalls(60, 60, 3)), expected[:16_000])
