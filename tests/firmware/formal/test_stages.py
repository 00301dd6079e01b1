# SPDX-License-Identifier: Apache-2.0
"""The proofs of the stages of an rf core catch a broken stage; `make formal` runs them all."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from hypersonic.firmware.formal import stages
from hypersonic.firmware.formal.prove import ProofError, prove, texts
from hypersonic.hls.core import RF_RTL
from hypersonic.hls.rf.plan import plan
from tests.firmware.formal.covered import COVERED
from tests.hls.rf.sketch import Drawing


class Break(NamedTuple):
    proof: str
    before: str
    after: str
    task: str = "prove"
    #: the file that is broken, if it is not the module with the name of the proof
    file: str = ""
    #: the file of an assertion that does not hold
    said: str = "stage_rules.sv"


BREAKS = {
    "tlast is on every piece": Break("rf_lanes_narrower", "last_q && left_q == '0;", "last_q;", file="rf_lanes.sv"),
    "a held beat is overwritten": Break(
        "rf_lanes_wider", "s_axis_tready = !complete || !m_axis_tvalid;", "s_axis_tready = 1'b1;", file="rf_lanes.sv"
    ),
    "zeros come before their image": Break("rf_pad", "|| (begun_q && !on_image);", "|| !on_image;"),
    "a row is overwritten before it is sent": Break("rf_permute", "= !full_q[write_q];", "= 1'b1;"),
    "a beat is sent again that is still to come": Break("rf_upsample", "address < count_q", "address <= count_q"),
    "a window has a pixel that is still to come": Break("rf_window", "lacking_q < 0;", "lacking_q <= 0;"),
    "columns are not skipped": Break(
        "rf_window_strided", "AW'((S_W - K_W) * CB + 1)", "AW'((1 - K_W) * CB + 1)", file="rf_window.sv", said="memory_rules.v"
    ),
    "a constant is read behind the last": Break(
        "rf_map", "INDEX_WIDTH'(PERIOD - 1) ?", "INDEX_WIDTH'(PERIOD) ?", said="rf_rom.sv"
    ),
    "results leave before they are taken": Break(
        "rf_quantise", ".m_axis_tready(m_axis_tready)", ".m_axis_tready(1'b1)", "bmc", said="stream_rules.sv"
    ),
    "tlast is lost": Break("rf_output", ".s_axis_tlast(s_axis_tlast)", ".s_axis_tlast(1'b0)"),
    "a table is read behind its last number": Break(
        "rf_table", "> (SUM - RIGHT)'(TABLE_SIZE - 1)", "> (SUM - RIGHT)'(TABLE_SIZE)", file="rf_lookup.sv", said="rf_rom.sv"
    ),
    "an index beyond the vocabulary is looked up": Break(
        "rf_embed", "index > IW'(VOCABULARY - 1)", "index > IW'(VOCABULARY)", said="rf_rom.sv"
    ),
    "a result has no place": Break("rf_pool", "= !kw_last || place_tready;", "= 1'b1;"),
    "each column of a window gives a result": Break(
        "rf_pool_average", "s_axis_tvalid && kw_last)", "s_axis_tvalid)", file="rf_pool.sv"
    ),
    "an image ends with its first channels": Break("rf_global_pool", "if (take && cb_last) begin", "if (take) begin"),
    "a weight is read behind the last": Break("rf_depthwise", "AW'(WORDS - 1) ?", "AW'(WORDS) ?", said="rf_rom.sv"),
    "a vector is overwritten that is still multiplied": Break(
        "rf_mac", "= !full_q[write_q];", "= 1'b1;", file="rf_mac_engine.sv"
    ),
    "a vector's last beat is taken without a place": Break(
        "rf_mac_engine", "= weight_tvalid && (!beat_last || place_tready);", "= weight_tvalid;"
    ),
    "a maximum is known before the last beat": Break("rf_maximum", "&& last_q[LEVELS];", "&& first_q[LEVELS];", "bmc"),
    "tlast of a vector is lost": Break("rf_argmax", "({x_tlast, y})", "({1'b0, y})", "bmc"),
    "a number is for one beat only": Break("rf_hold", "(give && beat_last)", "(give)", "bmc"),
    "tlast of a softmax is lost": Break("rf_softmax", ".s_axis_tlast(h_tlast)", ".s_axis_tlast(1'b0)", "bmc"),
    "gates are taken without an input": Break("rf_recurrent", "= s_axis_tvalid && place_tready;", "= place_tready;", "bmc"),
    "a consumer of a fork gets a beat twice": Break("rf_fork", "all_taken ? '0 : taken;", "'0;", said=""),
    "a beat is taken out of turn": Break("rf_concat", "= out_tready && !turn_q;", "= out_tready;", said=""),
    "a beat of a is taken without one of b": Break(
        "rf_merge", "= s_axis_b_tvalid && place_tready;", "= place_tready;", said=""
    ),
    "a matrix is overwritten that is still multiplied": Break("rf_matmul", "= !full_q[write_q];", "= 1'b1;", said=""),
    "a load takes a word too many": Break("rf_load", "write_q == AW'(DEPTH - 1)", "write_q == AW'(DEPTH)", said=""),
    "a bias is another one's": Break("rf_biases", "words[address]", "words[write_address]", said="rf_biases"),
    "a round of weights is a word too long": Break("rf_weights", "AW'(DEPTH - 1) ?", "AW'(DEPTH) ?", said="rf_weights.sv"),
    "a vector does not wait for its bias": Break(
        "rf_mac_stream", "(s_axis_w_tvalid && biases_loaded)", "(s_axis_w_tvalid)", said="rf_mac_stream_proof.sv"
    ),
    "each beat has a mean": Break("rf_mean", "take_q[TO_SUM] && last_q[TO_SUM];", "take_q[TO_SUM];"),
    "a residual block stops for want of places": Break(
        "rf_residual", "DEPTH_B = 32 ", "DEPTH_B = 2 ", "bmc", "rf_residual_proof.sv"
    ),
}


@pytest.mark.whole(*COVERED)
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_a_broken_stage_does_not_pass_its_proof(tmp_path: Path, broken: Break) -> None:
    file = broken.file or f"{broken.proof}.sv"
    text = texts(broken.proof)[file]
    assert text.count(broken.before) == 1
    with pytest.raises(ProofError, match=f"proof {broken.proof}: .*{broken.said}.* does not hold"):
        prove(broken.proof, tmp_path, {file: text.replace(broken.before, broken.after)}, [broken.task])


def test_every_proof_of_a_stage_has_a_break_that_it_catches() -> None:
    assert {broken.proof for broken in BREAKS.values()} == set(stages.table())


def test_every_module_of_an_rf_core_is_part_of_a_proof() -> None:
    proved = {file for name in stages.table() for file in texts(name)}
    too_long = {"rf_layernorm.sv"}  # docs/formal.md
    assert {file.name for file in RF_RTL.glob("*.sv")} - proved == too_long


def test_the_residual_block_of_the_proof_is_the_one_that_is_planned() -> None:
    drawing = Drawing(1, 1, (2, 4))
    (x,) = drawing.tensors
    drawing.add(drawing.convolution(x, (3, 1)), x)
    planned = [(stage.module, stage.parameters) for stage in plan(drawing.network(), whole_row_bits=1).stages]
    assert [module for module, _ in planned] == ["rf_fork", "rf_window", "rf_mac", "axis_fifo", "axis_fifo", "rf_merge"]
    depths = [parameters["DEPTH"] for module, parameters in planned if module == "axis_fifo"]
    text = texts("rf_residual")["rf_residual_proof.sv"]
    assert all(f"int DEPTH_{side} = {depth}" in text for side, depth in zip("AB", depths, strict=True))


def test_a_turn_of_a_stage_is_written_as_the_table_has_it() -> None:
    text = texts("rf_permute")["rf_permute_proof.sv"]  # of three beats, the last and then the first
    assert all(f".{name}({value})" in text for name, value in {"IN": 3, "OUT": 2, "FROM": "16'h0002", "AT": "16'h0100"}.items())
    assert '.FILE("places.hex")' in text
    assert texts("rf_permute")["places.hex"] == "2\n0\n"
