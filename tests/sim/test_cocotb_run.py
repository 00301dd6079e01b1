# SPDX-License-Identifier: Apache-2.0
"""Parameter sets side by side in one cocotb build: each is tested, and an error names the one that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cocotb.triggers import Timer

from tests.support.rtl.cocotb_run import BenchError, bench_test, bench_test_on, run_bench

_STAGE = """\
module stage #(
    parameter int WIDTH = 1,
    parameter bit WRONG = 1'b0
) (
    input  logic             clk,
    input  logic [WIDTH-1:0] x,
    output logic [WIDTH-1:0] y,
    output logic [WIDTH-1:0] y_now
);
  assign y_now = ~x;
  always_ff @(posedge clk) y <= WRONG ? x : ~x;
endmodule
"""


@bench_test
async def results_are_inverted(dut: Any) -> None:
    mask = (1 << int(dut.WIDTH.value)) - 1
    for x in (0, 1, 0x5A & mask, mask):
        dut.clk.value = 0
        dut.x.value = x
        await Timer(1, "ns")
        assert int(dut.y_now.value) == ~x & mask
        dut.clk.value = 1
        await Timer(1, "ns")
        assert int(dut.y.value) == ~x & mask


@bench_test_on("wide")
async def the_wide_one_is_wide(dut: Any) -> None:
    assert int(dut.WIDTH.value) == 70


@pytest.mark.whole("firmware", "requirements.lock", "sim")
def test_the_set_that_fails_is_named_and_the_others_pass(tmp_path: Path) -> None:
    source = tmp_path / "stage.sv"
    source.write_text(_STAGE)
    sets = {"narrow": {"WIDTH": 8}, "broken": {"WIDTH": 8, "WRONG": 1}, "wide": {"WIDTH": 70}}
    with pytest.raises(BenchError) as caught:
        run_bench(tmp_path / "build", "stage", [source], __name__, sets=sets)
    failed, *_ = str(caught.value).splitlines()
    assert failed == "cocotb: results_are_inverted/instance=broken"
    results = (tmp_path / "build" / "results.xml").read_text()
    for name in (
        "results_are_inverted/instance=narrow",
        "results_are_inverted/instance=wide",
        "the_wide_one_is_wide/instance=wide",
    ):
        assert f'name="{name}"' in results
