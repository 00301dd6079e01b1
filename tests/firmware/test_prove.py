# SPDX-License-Identifier: Apache-2.0
"""The formal proofs hold, and a broken module is caught by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.prove import ProofError, files, proofs, prove

BREAKS = [
    ("axi_burst_split", "axi_burst_split.sv", "wire                fits = left_q <= COUNT_WIDTH'(room);", "wire fits = 1'b1;"),
    ("axi_burst_split", "axi_burst_split.sv", "beat_q + BEAT_ADDR_WIDTH'(beats)", "beat_q + BEAT_ADDR_WIDTH'(1)"),
    ("axis_skid", "axis_skid.sv", "skid_valid_q ? skid_data_q : s_axis_tdata", "s_axis_tdata"),
    ("axis_fifo", "axis_fifo.sv", "assign s_axis_tready = !full;", "assign s_axis_tready = 1'b1;"),
]


def test_every_proof_holds_and_every_broken_module_is_caught(tmp_path: Path) -> None:
    # One test: the first run of Yosys on a machine compiles it, and two at once would do so twice.
    for name in proofs():
        (directory := tmp_path / name).mkdir()
        assert sorted(prove(name, directory)) == ["cover", "prove"]
    for i, (name, file, before, after) in enumerate(BREAKS):
        (directory := tmp_path / f"broken_{i}").mkdir()
        text = files(name)[file].read_text()
        assert before in text
        with pytest.raises(ProofError, match=f"proof {name}: .* does not hold"):
            prove(name, directory, {file: text.replace(before, after)})


def test_an_unknown_proof_is_named_with_those_there_are() -> None:
    with pytest.raises(ProofError, match="proof 'nonesuch' is not there, expected one of axi_burst_split"):
        files("nonesuch")
