# SPDX-License-Identifier: Apache-2.0
"""The loop-back model: a ReLU on bytes, which are the numbers that it does not change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.building.csim import build_csim
from hypersonic.first_day.day import LOOPBACK
from hypersonic.first_day.rows import ROW_BYTES, gate_rows
from hypersonic.hls.csim.compiled import Csim
from tests.hypersonic.first_day.own_day import relu


def test_the_file_is_one_relu_on_a_beat_of_bytes() -> None:
    assert Path(LOOPBACK).read_bytes() == relu("rows", "copies", ROW_BYTES, "copy", "loopback").SerializeToString()


@pytest.mark.whole("hls", "hypersonic/building", "hypersonic/first_day", "requirements.lock")
def test_csim_copies_every_byte() -> None:
    project, library = build_csim(LOOPBACK)
    assert project.inputs.row_bytes == project.outputs.row_bytes == ROW_BYTES
    rows = gate_rows().astype(np.uint8)
    assert set(rows.ravel().tolist()) == set(range(256))
    answers = project.outputs.from_raw(Csim(library, project).predict_raw(project.inputs.to_raw((rows,))))
    np.testing.assert_array_equal(answers[0], rows)
