# SPDX-License-Identifier: Apache-2.0
"""Memory files of a core on their way into Vivado: named, copied, part of what a build is, and missed before the long step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.toolchains.errors import StepError, VendorError
from hypersonic.firmware.toolchains.f2.custom_logic import synthesis_tcl
from hypersonic.firmware.toolchains.memories import check_memories, check_read
from hypersonic.firmware.toolchains.steps import run_steps
from hypersonic.firmware.toolchains.toolchain import Bitstream, CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.package_xo import package_steps
from hypersonic.firmware.toolchains.vitis.tools import Tools
from tests.firmware.toolchains.conftest import U250, Vendor, build_bitstream


@pytest.fixture
def filled(kernel: Kernel, tmp_path: Path) -> Kernel:
    """The bench kernel with two memory files, one of which its core's top names."""
    folder = tmp_path / "core"
    folder.mkdir()
    weights, bias = (folder / f"bench_{name}.mem" for name in ("weights", "bias"))
    weights.write_text("1f\n20\n")
    bias.write_text("0\n")
    top = folder / f"{kernel.core.top}.sv"
    top.write_text('module bench_core; rf_mac #(.WEIGHTS("bench_weights.mem")) u_mac (); endmodule\n')
    core = replace(kernel.core, sources=(top,), memories=(weights, bias))
    return replace(kernel, core=core)


def _package(kernel: Kernel, tools: Tools, build: Path) -> None:
    build.mkdir(exist_ok=True)
    run_steps(package_steps(tools, U250, kernel, build), build)


def test_the_files_lie_beside_the_sources_as_vivados_memory_files(
    filled: Kernel, vendor: Vendor, tools: Tools, tmp_path: Path
) -> None:
    _package(filled, tools, tmp_path / "build")
    files = [tmp_path / "build" / "rtl" / memory.name for memory in filled.core.memories]
    assert [file.read_text() for file in files] == ["1f\n20\n", "0\n"]
    added = [call[-1].split() for call in vendor.vivado_record() if call[0] == "add_files"]
    assert added[1] == [str(file) for file in files]
    typed = [call for call in vendor.vivado_record() if call[:2] == ["set_property", "file_type"]]
    assert [(call[2], call[3].split(":", 1)[1].split()) for call in typed] == [("Memory Initialization Files", added[1])]


def test_a_kernel_without_memories_adds_none(kernel: Kernel, vendor: Vendor, tools: Tools, tmp_path: Path) -> None:
    _package(kernel, tools, tmp_path / "build")
    assert sum(call[0] == "add_files" for call in vendor.vivado_record()) == 1


def test_a_file_that_the_packager_left_behind_ends_the_build(
    filled: Kernel, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEFT_BEHIND", "bench_bias.mem")
    with pytest.raises(StepError, match=r"memory file bench_bias\.mem was not packaged with the kernel"):
        _package(filled, tools, tmp_path / "build")


def _build(kernel: Kernel, tools: Tools, tmp_path: Path) -> Bitstream:
    return build_bitstream(KernelUnits(kernel, 2), tools, tmp_path / "builds", CardOptions(needed_bytes=0))


def test_other_weights_are_another_build(filled: Kernel, vendor: Vendor, tools: Tools, tmp_path: Path) -> None:
    vendor.link_as("bench", U250, 2)
    first = _build(filled, tools, tmp_path)
    filled.core.memories[0].write_text("1f\n21\n")
    second = _build(filled, tools, tmp_path)
    assert first.build != second.build
    assert (second.build / "rtl" / "bench_weights.mem").read_text() == "1f\n21\n"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gone", r"memory file .*bench_bias\.mem of core bench is missing or empty; build the model again"),
        ("empty", r"memory file .*bench_bias\.mem of core bench is missing or empty"),
        ("unnamed", r"core bench reads bench_weights\.mem, which is none of its 1 memory files"),
        ("name", r"memory file 'bench bias\.mem' of core bench: expected letters"),
    ],
)
def test_a_missing_file_is_refused_before_any_tool_is_called(
    fault: str, message: str, filled: Kernel, vendor: Vendor, tools: Tools, tmp_path: Path
) -> None:
    core = filled.core
    if fault == "gone":
        core.memories[1].unlink()
    elif fault == "empty":
        core.memories[1].write_text("")
    elif fault == "unnamed":
        core = replace(core, memories=core.memories[1:])
    else:
        core = replace(core, memories=(core.memories[0], core.memories[1].rename(tmp_path / "bench bias.mem")))
    with pytest.raises(VendorError, match=message):
        check_memories(core)
    with pytest.raises(VendorError, match=message):
        _build(replace(filled, core=core), tools, tmp_path)
    assert vendor.calls() == []


def test_a_file_that_vivado_did_not_read_ends_the_build(tmp_path: Path) -> None:
    log = tmp_path / "link" / "vivado" / "runme.log"
    log.parent.mkdir(parents=True)
    log.write_text("INFO: [Synth 8-3876] $readmem data file 'bench_weights.mem' is read successfully\n")
    check_read(tmp_path)
    log.write_text(
        "CRITICAL WARNING: [Synth 8-4445] could not open $readmem data file 'bench_weights.mem'; please make sure the file "
        "is added to project and has read permission, ignoring [rf_rom.sv:39]\n"
    )
    with pytest.raises(StepError, match=r"did not find memory file 'bench_weights\.mem' and used zeros"):
        check_read(tmp_path)


def test_the_aws_kit_reads_them_from_the_design() -> None:
    text = synthesis_tcl(["a.sv"], ["bench_weights.mem", "bench_bias.mem"])
    assert (
        "read_mem [list \\\n  $::env(CL_DIR)/design/bench_weights.mem \\\n  $::env(CL_DIR)/design/bench_bias.mem\n]\n" in text
    )
    assert "set_msg_config -id {Synth 8-4445} -new_severity ERROR" in text
    assert "read_mem" not in synthesis_tcl(["a.sv"])
