# SPDX-License-Identifier: Apache-2.0
"""The generated top, the file lists, and the rules every RTL module keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypersonic.firmware.estimate import yosys
from hypersonic.firmware.kernel import files
from hypersonic.firmware.kernel.files import PORTS, Kernel, KernelError, rtl_sources
from hypersonic.firmware.kernel.parts import RowPart, converter_parameters, parts
from hypersonic.firmware.kernel.write import keep_kernel, write_kernel
from hypersonic.hls import verilator
from hypersonic.hls.core import Core, Port
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import ToolError
from hypersonic.hls.fixed import OVERFLOW_CODES, ROUNDING_CODES, FixedPoint, Overflow, Rounding
from hypersonic.hls.row import Row
from hypersonic.hls.spec import DATATYPES, TensorSpec
from hypersonic.sim import vivado
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench
from tests.support.rf_kernels import LOADED, WHOLE_OUT, Model

MODULES = sorted(file.stem for file in files.RTL.glob("*.sv"))

#: modules with a table, which is a memory with initial contents
ROMS = {"axis_codes_to_fixed"}


@pytest.fixture
def core(tmp_path: Path) -> Core:
    return write_bench_core(*bench_rows(18, 1), tmp_path)


def lint(kernel: Kernel) -> None:
    verilator.lint([*kernel.lint_waivers, *kernel.sources], kernel.top)
    assert list(vivado.found_in(kernel.top_file)) == []  # Verilog in a file named .v


def test_the_kernel_lints_clean(core: Core, tmp_path: Path) -> None:
    lint(write_kernel(core, tmp_path))


TYPES = st.builds(
    FixedPoint, st.integers(1, 62), st.integers(-8, 60), st.booleans(), st.sampled_from(Rounding), st.sampled_from(Overflow)
)


@st.composite
def tensors(draw: st.DrawFn, name: str) -> TensorSpec:
    size, fixed = draw(st.integers(1, 70)), draw(TYPES)
    datatype = draw(st.sampled_from(list(DATATYPES)))
    if (element := DATATYPES[datatype]).is_integer:
        return TensorSpec(name, (size,), replace(fixed, width=min(fixed.width, 53), signed=element.signed), datatype)
    return TensorSpec(name, (size,), fixed, datatype, (draw(st.integers(-40, 40)),) * size)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    return Row(tuple(draw(tensors(f"t{index}")) for index in range(draw(st.integers(1, 4)))))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(x=rows(), y=rows())
def test_a_kernel_of_any_tensors_lints_clean(tmp_path: Path, x: Row, y: Row) -> None:
    lint(write_kernel(write_bench_core(x, y, tmp_path), tmp_path))


def test_a_kernel_whose_rows_have_more_than_8192_bits_lints_clean(tmp_path: Path) -> None:
    row = Row((TensorSpec("t", (265,), FixedPoint(32, 6), "INT32"),))
    lint(write_kernel(write_bench_core(row, row, tmp_path), tmp_path))


def test_a_kernel_is_written_once_and_kept(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    written, kept = write_kernel(core, tmp_path), keep_kernel(core)
    assert kept.top_file.read_text() == written.top_file.read_text()
    assert (kept.top_file.name, kept.sources[:-1]) == (written.top_file.name, written.sources[:-1])
    before = kept.top_file.stat().st_mtime_ns
    assert keep_kernel(core) == kept
    assert kept.top_file.stat().st_mtime_ns == before


def test_every_file_is_named_once_and_the_top_comes_last(core: Core, tmp_path: Path) -> None:
    kernel = write_kernel(core, tmp_path)
    assert len(set(kernel.sources)) == len(kernel.sources)
    assert kernel.sources[-1] == (tmp_path / "bench.v").resolve()
    assert all(source.is_file() for source in (*kernel.sources, *kernel.lint_waivers))
    assert (kernel.name, kernel.top) == ("bench", "bench")


def test_the_top_has_exactly_the_ports_of_a_vitis_kernel(core: Core, tmp_path: Path) -> None:
    write_kernel(core, tmp_path)
    header = (tmp_path / "bench.v").read_text().split(");", 1)[0]
    ports = re.findall(r"(input|output) +wire (?:\[(\d+):0\] )?(\w+)", header)
    assert [(direction, name, int(high or 0) + 1) for direction, high, name in ports] == [
        (direction, name, abs(bits)) for direction, name, bits in PORTS
    ]
    names = {name for _, name, _ in PORTS}
    assert {"ap_clk", "ap_rst_n", "interrupt", "m_axi_gmem0_rdata", "m_axi_gmem1_wstrb", "s_axi_control_araddr"} <= names


#: Yosys counts the registers of the top, whose instances stay black boxes. Equal registers are merged unless they are kept
_COUNT_REGISTERS = """\
read_verilog {file}
hierarchy -top {top}
proc
opt_merge
opt_clean
select -assert-count {count} t:$dff
"""


@pytest.mark.parametrize(
    ("model", "parts"), [(WHOLE_OUT, ("shell_rst_n", "rst_n", "core_rst_n")), (LOADED, ("shell_rst_n", "rst_n"))]
)
def test_each_part_of_a_kernel_has_its_own_register_of_the_reset(model: Model, parts: tuple[str, ...], tmp_path: Path) -> None:
    kernel = model.kernel(tmp_path)
    text = kernel.top_file.read_text()
    assert re.findall(r"(\w+) <= reset_n_q;", text) == list(parts)
    resets = re.findall(r"^  (\w+) (?:#\(.*?\n  \) )?u_\w+ \(.*?\.rst_n *\((\w+)\)", text, re.MULTILINE | re.DOTALL)
    assert dict(resets)["kernel_shell"] == "shell_rst_n"
    assert dict(resets)[kernel.core.top] == "core_rst_n"
    assert {reset for module, reset in resets if module not in ("kernel_shell", kernel.core.top)} == {"rst_n"}
    (tmp_path / "count.ys").write_text(_COUNT_REGISTERS.format(file=kernel.top_file, top=kernel.top, count=1 + len(parts)))
    yosys.run("count.ys", tmp_path)


def test_scales_and_types_reach_the_converter_as_literals() -> None:
    x = TensorSpec("x", (3,), FixedPoint(12, 20, False, Rounding.RND_CONV, Overflow.SAT), scale_exponents=(1, -2, 0))
    parameters = converter_parameters(RowPart(x, 3, 1), x.fixed)
    assert parameters["SCALES"] == "48'h0000fffe0001"
    assert (parameters["WIDTH"], parameters["FRACTION"], parameters["SIGNED"]) == ("12", "-8", "1'b0")
    assert parameters["ROUNDING"] == str(ROUNDING_CODES[Rounding.RND_CONV])
    assert parameters["OVERFLOW"] == str(OVERFLOW_CODES[Overflow.SAT])


@pytest.mark.parametrize("name", ["table", "module", "axis_fifo", "kernel_shell", "bench_core"])
def test_a_name_that_verilog_or_the_kernel_uses_is_refused(core: Core, tmp_path: Path, name: str) -> None:
    with pytest.raises(KernelError, match=f"kernel name is '{name}'"):
        write_kernel(replace(core, name=name), tmp_path)


def test_a_scale_beyond_the_shell_is_refused_by_element(core: Core, tmp_path: Path) -> None:
    y = TensorSpec("energy", (2,), FixedPoint(16, 6), scale_exponents=(0, 391))
    with pytest.raises(KernelError, match="tensor 'energy', element 1: 10 fraction bits and scale exponent 391"):
        write_kernel(replace(core, outputs=Row((y,))), tmp_path)


def test_a_row_longer_than_the_shell_counts_is_refused(core: Core, tmp_path: Path) -> None:
    x = TensorSpec("x", (2048, 2048), FixedPoint(16, 6))
    with pytest.raises(KernelError, match="tensor 'x': a row is 16777216 bytes, expected at most 16777215"):
        write_kernel(replace(core, inputs=Row((x,))), tmp_path)


@pytest.mark.parametrize(("elements", "widths"), [(16_383, 0), (16_384, 1)])
def test_only_rows_of_65536_bytes_and_more_are_counted_with_more_bits(tmp_path: Path, elements: int, widths: int) -> None:
    y = Row((TensorSpec("y", (elements,), FixedPoint(16, 6)),))
    core = Core("wide_rows", CoreKind.RF, "wide_core", (), bench_rows(4, 1)[0], y, 1, 1, y_lanes=(1,))
    write_kernel(core, tmp_path)
    assert (tmp_path / "wide_rows.v").read_text().count(".BYTES_WIDTH(56)") == widths


#: an image with numbers beside it, as plain as networks have them, and inputs that look alike but for their types
IN_BEATS = {
    "one tensor": rf_bench_rows(((16, 6), "FP32")),
    "several tensors": rf_bench_rows(((8, 6), "FP32"), ((15,), "INT8"), ((7, 6), "FP16"), n_out=6, datatype="INT16"),
}


@pytest.mark.parametrize(("x", "y"), IN_BEATS.values(), ids=IN_BEATS)
def test_a_kernel_whose_rows_come_in_beats_lints_clean(tmp_path: Path, x: Row, y: Row) -> None:
    core = write_rf_bench(x, y, tmp_path, reuse_factor=16)
    assert core.x_lanes
    lint(write_kernel(core, tmp_path / "kernel"))


def test_tensors_whose_beats_look_alike_share_a_converter() -> None:
    image, first, second, wider = (
        TensorSpec(name, shape, FixedPoint(width, 4), "INT8")
        for name, shape, width in (("a", (4, 3), 8), ("b", (5,), 8), ("c", (7,), 8), ("d", (5,), 7))
    )
    shared = parts(Port(Row((image, first, second, wider)), (3, 1, 1, 1)))
    assert [(part.tensor.name, part.elements, part.beats) for part in shared] == [("a", 3, 4), ("b", 1, 12), ("d", 1, 5)]


def test_a_beats_scales_are_those_of_every_beat_or_the_element_is_named(core: Core, tmp_path: Path) -> None:
    x = TensorSpec("image", (4, 2), FixedPoint(16, 6), scale_exponents=(1, 2, 1, 2, 1, 3, 1, 2))
    beats = replace(core, inputs=Row((x,)), x_lanes=(2,))
    with pytest.raises(KernelError, match=r"'image', element 5: scale exponent is 3, expected 2 as for element 1: .* every 2"):
        write_kernel(beats, tmp_path)
    assert write_kernel(replace(beats, x_lanes=(8,)), tmp_path)
    assert write_kernel(replace(beats, inputs=Row((replace(x, scale_exponents=(1, 2) * 4),))), tmp_path)


def test_several_outputs_in_beats_are_refused(core: Core, tmp_path: Path) -> None:
    y = Row(tuple(TensorSpec(name, (4,), FixedPoint(16, 6)) for name in "ab"))
    with pytest.raises(KernelError, match="core bench: 2 outputs in several beats each, expected one output"):
        write_kernel(replace(core, outputs=y, y_lanes=(2, 2)), tmp_path)


@pytest.mark.parametrize("module", MODULES)
def test_the_file_list_of_each_module_is_complete_and_exact(module: str) -> None:
    sources = rtl_sources(module)
    verilator.lint(sources, module)
    text = "".join(source.read_text() for source in sources)
    for source in sources[:-1]:
        assert re.search(rf"\b{source.stem}\b", text.replace(source.read_text(), "")), f"{source.name} is not used"


def test_an_unknown_module_is_named_with_those_there_are() -> None:
    with pytest.raises(KernelError, match="module 'nonesuch' is not part of the kernel, expected one of axi_burst_split"):
        rtl_sources("nonesuch")


@pytest.mark.parametrize("module", MODULES)
def test_each_module_follows_the_rules_of_the_house(module: str) -> None:
    text = (files.RTL / f"{module}.sv").read_text()
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    assert re.findall(r"^module (\w+)", text, re.MULTILINE) == [module]
    assert "`default_nettype none" in text
    assert not re.search(r"lint_off|lint_on|always @|'x|\.\*", text)
    assert module in ROMS or not re.search(r"\binitial\b", text)
    assert (files.RTL / f"{module}.f").is_file()


BAD_PARAMETERS = [
    ("axi_burst_split", "MAX_BURST_BEATS=48", "MAX_BURST_BEATS is 48"),
    ("axi_burst_split", "MAX_BURST_BEATS=128", "is 8192, expected at most 4096"),
    ("axi_burst_split", "COUNT_WIDTH=7", "COUNT_WIDTH is 7, expected more than 7"),
    ("axi_read_master", "OUTSTANDING=3", "OUTSTANDING is 3"),
    ("axi_write_master", "OUTSTANDING=1", "OUTSTANDING is 1"),
    ("float_to_fixed", "WIDTH=63", "WIDTH is 63"),
    ("float_to_fixed", "SHIFT=401", "SHIFT is 401"),
    ("float_to_fixed", "ROUNDING=7", "ROUNDING is 7"),
    ("fixed_to_float", "SHIFT=-401", "SHIFT is -401"),
    ("kernel_control", "MAX_RUNS=6", "MAX_RUNS is 6"),
    ("kernel_runs", "ROW_IN_BYTES=65536", "ROW_IN_BYTES is 65536"),
    ("kernel_weights", "RESET_CLOCKS=1", "RESET_CLOCKS is 1"),
    ("axi_read_share", "DEPTH=3", "DEPTH is 3"),
    ("kernel_shell", "Y_BYTES=3", "Y_BYTES is 3"),
    ("tensor_turns", "BEATS=64'd1", "tensor 1 has no BEATS"),
    ("axis_tensor_unpack", "MOST_WORDS=0", "expected 1 to MOST_WORDS, 0"),
]


@pytest.mark.parametrize(("module", "parameter", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_stops_elaboration_by_name_and_value(module: str, parameter: str, message: str) -> None:
    with pytest.raises(ToolError) as caught:
        verilator.lint(rtl_sources(module), module, f"-G{parameter}")
    assert module in str(caught.value)
    assert message in str(caught.value)
