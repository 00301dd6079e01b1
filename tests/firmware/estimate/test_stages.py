# SPDX-License-Identifier: Apache-2.0
"""An rf core's estimate: memories, what is scaled and how, and what Yosys makes of each stage: DSPs, and no long path."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.estimate.cells import parse_blif
from hypersonic.firmware.estimate.kernel import core_ports
from hypersonic.firmware.estimate.logic_path import longest_paths
from hypersonic.firmware.estimate.module_tree import Module, Rom, memory_resources, scaled, with_roms
from hypersonic.firmware.estimate.stages import StageSynthesis, _needed, samples, synthesise_rf_core, synthesise_stages
from hypersonic.firmware.estimate.yosys import Placed, SynthesisError, ports, run
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.pyosys import tool_version
from hypersonic.hls.cache import cached
from hypersonic.hls.core import AXIS_RTL, RF_RTL
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.model_graph import edge
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.resources import Amounts
from hypersonic.hls.rf.modules import rtl_sources
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

MODULES = sorted(RF_RTL.glob("*.sv")) + sorted(AXIS_RTL.glob("*.sv"))


def placed(module: str, **parameters: int) -> Placed:
    return Placed("", module, tuple((name, f"32'sb{value & 0xFFFFFFFF:032b}") for name, value in sorted(parameters.items())))


def test_memories_are_block_ram_or_look_up_tables_or_constants() -> None:
    assert Rom(72, 512).module.own == Amounts(bram36=1)
    assert Rom(10, 40).module.own == Amounts(lut=10, ff=10)
    assert Rom(500, 1).module.own == Amounts()
    stage = with_roms(Module("rf_mac", 1, Amounts(lut=5)), [Rom(72, 512), Rom(72, 1024)])
    assert stage.total == Amounts(lut=5, bram36=3)
    assert [(child.name, child.count) for child in stage.children] == [("rf_rom", 2)]


def test_a_memory_file_is_measured_without_being_read(tmp_path: Path) -> None:
    (tmp_path / "a.mem").write_text("012345678\n" * 2048)  # 33 to 36 bits
    assert memory_resources([tmp_path / "a.mem"]) == Amounts(bram36=2)
    assert memory_resources([]) == Amounts()


def test_a_small_stage_is_mapped_as_it_is() -> None:
    stage = placed("rf_mac", N_IN=16, N_OUT=4, P=8, Q=2)
    assert samples(stage) == [(stage, 1.0)]
    window = placed("rf_window", LANES=64)
    assert samples(window) == [(window, 1.0)]


def test_a_large_stage_is_scaled_from_four_that_keep_its_clocks() -> None:
    parts = samples(placed("rf_mac", N_IN=128, N_OUT=60, P=32, Q=6))
    shapes = [tuple(one.number(name) for name in ("P", "Q", "N_IN", "N_OUT")) for one, _ in parts]
    assert shapes == [(4, 1, 16, 10), (8, 1, 32, 10), (4, 2, 16, 20), (8, 2, 32, 20)]
    assert sum(weight for _, weight in parts) == pytest.approx(1)
    assert sum(weight * p * q for (_, weight), (p, q, *_) in zip(parts, shapes, strict=True) if p and q) == pytest.approx(
        32 * 6
    )


def test_scaling_is_a_straight_line() -> None:
    one, two = (Module("m", n, Amounts(lut=10 + 3 * n, dsp=n), (Module("c", n, Amounts(ff=n)),)) for n in (1, 2))
    sum_ = scaled([(one, -8.0), (two, 9.0)])
    assert (sum_.count, sum_.own, sum_.total) == (10, Amounts(lut=40, dsp=10), Amounts(lut=40, ff=10, dsp=10))


def test_a_memory_with_contents_is_never_ultraram(tmp_path: Path) -> None:
    (tmp_path / "a.mem").write_text("00\n" * 16)
    files = [tmp_path / "a.mem", RF_RTL / "rf_rom.sv"]
    for style in ("block", "ultra"):
        (tmp_path / f"{style}.sv").write_text(
            f"module {style} (input clk, input [3:0] a, output [7:0] w);\n"
            f'  rf_rom #(.STYLE("{style}"), .FILE("a.mem")) u_rom (.clk(clk), .enable(1\'b1), .address(a), .word(w));\n'
            "endmodule\n"
        )
    assert ports("block", [tmp_path / "block.sv", *files]).is_file()
    with pytest.raises(SynthesisError, match=r"STYLE .*expected auto, block, distributed or registers"):
        ports("ultra", [tmp_path / "ultra.sv", *files])


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_weights_that_are_loaded_at_run_time_are_ultraram_by_their_shape() -> None:
    shapes = {(72, 4096): 1, (144, 5000): 4, (1152, 300): 16}
    stages = {shape: placed("rf_weights", WIDTH=shape[0], DEPTH=shape[1], LOAD_WIDTH=512) for shape in shapes}
    mapped = synthesise_stages(stages.values(), MODULES)
    assert {shape: mapped[stage].module.total.uram for shape, stage in stages.items()} == shapes
    assert all(not mapped[stage].roms for stage in stages.values())


def test_wide_weights_are_scaled_by_their_width() -> None:
    stage = placed("rf_weights", WIDTH=4608, DEPTH=1000, LOAD_WIDTH=512)
    assert [(one.number("WIDTH"), one.number("DEPTH")) for one, _ in samples(stage)] == [(576, 1000), (1152, 1000)]
    assert sum(16 * weight for _, weight in samples(stage)[1:]) + sum(8 * weight for _, weight in samples(stage)[:1]) == 64


def test_a_stage_is_kept_by_the_files_it_is_made_of_and_no_others() -> None:
    needed = {name: [file.stem for file in files] for name, files in _needed(MODULES).items()}
    assert needed["rf_lanes"] == ["axis_skid", "rf_lanes", "rf_rom"]
    assert needed["rf_mac"] == [
        "ap_fixed_pkg",
        "axis_fifo",
        "axis_free_running",
        "fixed_cast",
        "rf_mac",
        "rf_mac_engine",
        "rf_output",
        "rf_rom",
    ]


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_a_stage_that_is_a_part_of_another_stage_too_is_counted_in_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stages in each of the two runs: an axis_fifo, and an rf_upsample with the same axis_fifo inside. deepmet has both."""
    upsamples = [placed("rf_upsample", WIDTH=width) for width in (8, 10)]
    fifos = [placed("axis_fifo", WIDTH=width + 1, DEPTH=4) for width in (8, 10)]
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "together"))
    together = synthesise_stages([*fifos, *upsamples], MODULES)
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "alone"))
    alone = synthesise_stages(upsamples, MODULES)
    for fifo, upsample in zip(fifos, upsamples, strict=True):
        assert together[upsample].module == alone[upsample].module
        assert together[upsample].module.total.ff > together[fifo].module.total.ff > 0


#: typical, and at the edges: wide casts with every comparison, trees of narrow sums with two levels to a register, 27 x 18
STAGES = {
    "mac 18 x 16": placed("rf_mac", N_IN=16, N_OUT=4, P=8, Q=1, X_WIDTH=18, X_SIGNED=0, W_WIDTH=16, ACC_WIDTH=43, Y_WIDTH=43),
    "mac 8 x 8": placed(
        "rf_mac", N_IN=16, N_OUT=4, P=4, Q=2, X_WIDTH=8, W_WIDTH=8, ACC_WIDTH=22, RESULT_SHIFT=6, ROUNDING=2, OVERFLOW=1
    ),
    "mac 27 x 18": placed("rf_mac", N_IN=4, N_OUT=4, P=1, Q=1, X_WIDTH=27, W_WIDTH=18, ACC_WIDTH=48, Y_WIDTH=18, OVERFLOW=1),
    "depthwise": placed("rf_depthwise", LANES=1, X_WIDTH=12, W_WIDTH=10, ACC_WIDTH=26),
    "relu of 50 bits": placed(
        "rf_map", LANES=1, MODE=0, X_WIDTH=50, CLAMP_LOW=1, RESULT_SHIFT=11, Y_WIDTH=18, ROUNDING=2, OVERFLOW=1
    ),
    "batch norm": placed(
        "rf_map", LANES=1, MODE=1, X_WIDTH=18, A_WIDTH=16, B_WIDTH=20, PERIOD=8, RESULT_SHIFT=7, Y_WIDTH=18, OVERFLOW=1
    ),
    "leaky": placed("rf_map", LANES=1, MODE=2, X_WIDTH=18, A_WIDTH=16, A_FRACTION=10, RESULT_SHIFT=10, Y_WIDTH=18, OVERFLOW=1),
    "threshold": placed("rf_map", LANES=1, MODE=3, X_WIDTH=24, A_WIDTH=24, Y_WIDTH=24, OVERFLOW=1),
    "add": placed("rf_merge", LANES=1, A_WIDTH=24, B_WIDTH=24, B_LEFT=3, RESULT_SHIFT=3, Y_WIDTH=20, ROUNDING=2, OVERFLOW=1),
    "window of a large image": placed(
        "rf_window", LANES=1, WIDTH=8, H=224, W=224, C=64, K_H=3, K_W=3, S_H=2, S_W=2, PAD_TOP=1, PAD_LEFT=1, OUT_H=112,
        OUT_W=112, PAD_VALUE=0, LINES=6,
    ),
    "upsample of a large image": placed("rf_upsample", WIDTH=16, W=112, BEATS=64, FACTOR_H=2, FACTOR_W=2),
    **{
        name: placed(f"rf_{name}")
        for name in (
            "window", "lanes", "fork", "concat", "pad", "upsample", "embed", "table", "softmax", "pool", "global_pool",
        )
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def mapped() -> dict[str, StageSynthesis]:
    done = synthesise_stages(STAGES.values(), MODULES)
    return {name: done[stage] for name, stage in STAGES.items()}


@pytest.mark.whole
@pytest.mark.timeout(1800)  # a minute of Yosys when nothing is kept yet
def test_a_multiplier_is_one_dsp(mapped: dict[str, StageSynthesis]) -> None:
    dsps = {name: stage.module.own.dsp for name, stage in mapped.items() if name.startswith(("mac", "depthwise"))}
    assert dsps == {"mac 18 x 16": 8, "mac 8 x 8": 8, "mac 27 x 18": 1, "depthwise": 3}


@pytest.mark.whole
@pytest.mark.timeout(1800)
def test_no_logic_inside_a_stage_is_longer_than_a_clock_of_300_mhz(mapped: dict[str, StageSynthesis]) -> None:
    """By the house's rule of thumb (firmware/estimate/logic_path.py); the figures are in the message, longest first."""
    budget_ns = 1000 / find_platform("u250").kernel_clock_mhz
    worst = {name: longest_paths(parse_blif(stage.netlist()), most=1)[0] for name, stage in mapped.items()}
    lines = [
        f"{path.estimated_ns:.2f} ns, {path.luts} LUTs {path.carries} carry, {name}: {path.start} -> {path.end}"
        for name, path in sorted(worst.items(), key=lambda pair: -pair[1].estimated_ns)
    ]
    assert all(path.estimated_ns <= budget_ns for path in worst.values()), "\n".join(lines)


_PACKED = """\
read_verilog -sv -lib rf_rom.sv
read_verilog -sv -defer {sources}
read_verilog -sv top.sv
hierarchy -check -top top
proc
setattr -mod -set keep_hierarchy 1 top/c:* %M
flatten
chformal -remove
synth_xilinx -family xc7 -noiopad -noclkbuf -top top
write_blif -param netlist.blif
"""


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_the_registers_around_a_multiplier_go_into_the_dsp() -> None:
    """Yosys packs registers into the 7 series' DSP48E1 (25 x 18) and not into the DSP48E2, whose pipeline is the same: before
    the multiplier, behind it, and behind the cut that makes the summand."""
    stage = placed("rf_mac", N_IN=4, N_OUT=4, P=2, Q=1, X_WIDTH=18, X_SIGNED=0, W_WIDTH=16, ACC_WIDTH=43, Y_WIDTH=43)
    files = rtl_sources("rf_mac")
    script = _PACKED.format(sources=" ".join(file.name for file in files if file.stem != "rf_rom"))

    def fill(directory: Path) -> None:
        for file in files:
            shutil.copyfile(file, directory / file.name)
        (directory / "top.sv").write_text(f"module top;\n  (* keep *) {stage.text()} u_mac ();\nendmodule\n")
        (directory / "script.ys").write_text(script)
        run("script.ys", directory)

    netlist = (cached("packed", [tool_version(), script, stage.text(), *files], fill) / "netlist.blif").read_text()
    dsps = [cell.parameters for cell in parse_blif(netlist) if cell.type == "DSP48E1"]
    assert dsps == [dict.fromkeys(("AREG", "BREG", "MREG", "PREG"), 1)] * 2


@pytest.mark.whole
@pytest.mark.timeout(600)
def test_a_core_is_its_stages_and_what_joins_them(tmp_path: Path) -> None:
    x, y = Tensor("x", (8,), fixed_point(8, 4)), Tensor("y", (4,), fixed_point(12, 6))
    weight, bias = (Constants(np.ones(shape, dtype=np.int64), 4) for shape in ((8, 4), (4,)))
    layer = Dense("d", x, y, weight, bias, fixed_point(24, 10), 16, 16)
    inputs, outputs = (Row((TensorSpec(one.name, one.shape, edge(one.precision, one.name)),)) for one in (x, y))
    core, figures = write_rf_core(Network("tiny", (x,), (y,), (layer,)), "tiny", inputs, outputs, tmp_path)
    for file in core.memories:
        file.unlink()  # nothing reads them

    synthesis = synthesise_rf_core(core)
    assert {path: module.count for path, module in synthesis.module.walk()} == {
        "tiny_core": 1, "tiny_core/axis_fifo": 1, "tiny_core/rf_lanes": 2, "tiny_core/rf_mac": 1, "tiny_core/rf_mac/rf_rom": 2,
    }  # fmt: skip
    assert synthesis.module.total.dsp == figures["dsp48e2"] == figures["multipliers"] == 2
    assert synthesis.notes == ("1 of 4 stages are extrapolated linearly from fewer multipliers or lanes",)
    nets = {net for cell in synthesis.cells({"clk": "outer_clk"}) for net in cell.ports.values()}
    assert "outer_clk" in nets
    assert "tiny_core.u_d.u_rf_mac_engine.address_q[0]" in nets
    box = core_ports(core)
    assert "input [63:0] s_axis_x_tdata" in box
    assert "output [47:0] m_axis_y_tdata" in box
