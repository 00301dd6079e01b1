# SPDX-License-Identifier: Apache-2.0
"""The packaging script, run by tclsh against commands that record themselves: each port, argument and address is the map's."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.firmware.kernel import registers
from hypersonic.firmware.kernel.files import PORTS, Kernel, rtl_sources
from hypersonic.firmware.kernel.vitis_xml import describe_kernel, parse_kernels
from hypersonic.firmware.toolchains.errors import VendorError
from hypersonic.firmware.toolchains.steps import run_steps
from hypersonic.firmware.toolchains.vitis.package_xo import HERE, kernel_tcl, package_steps, tcl_word
from hypersonic.firmware.toolchains.vitis.tools import Tools
from tests.firmware.toolchains.conftest import U250, Vendor
from tests.support.optional import skip_without

needs_tcl = skip_without("tclsh", "tcl")


@pytest.fixture
def record(vendor: Vendor, tools: Tools, kernel: Kernel, tmp_path: Path) -> list[list[str]]:
    build = tmp_path / "build"
    build.mkdir()
    run_steps(package_steps(tools, U250, kernel, build), build)
    assert (build / "bench.xo").is_file()
    return vendor.vivado_record()


def _calls(record: list[list[str]], command: str) -> list[list[str]]:
    return [call[1:] for call in record if call[0] == command]


def _properties(record: list[list[str]]) -> dict[str, dict[str, str]]:
    """object -> property -> value, from set_property."""
    properties: dict[str, dict[str, str]] = defaultdict(dict)
    for name, value, target in _calls(record, "set_property"):
        properties[target][name] = value
    return properties


def test_every_port_of_the_kernel_belongs_to_exactly_one_interface(record: list[list[str]]) -> None:
    inferred = {tuple(ports.split()): kind for ports, kind, _ in _calls(record, "ipx::infer_bus_interface")}
    assert sorted(port for ports in inferred for port in ports) == sorted(name for _, name, _ in PORTS)
    kinds = {ports[0]: kind.split(":")[2] for ports, kind in inferred.items()}
    assert kinds == {
        "ap_clk": "clock_rtl", "ap_rst_n": "reset_rtl", "interrupt": "interrupt_rtl",
        "s_axi_control_awaddr": "aximm_rtl", "m_axi_gmem0_araddr": "aximm_rtl", "m_axi_gmem1_awaddr": "aximm_rtl",
    }  # fmt: skip


def test_clock_and_reset_are_associated_with_every_bus(record: list[list[str]]) -> None:
    buses = [port.name for port in describe_kernel("bench").ports]
    assert _calls(record, "ipx::associate_bus_interfaces") == [
        *(["-busif", bus, "-clock", "ap_clk", "core"] for bus in buses), ["-clock", "ap_clk", "-reset", "ap_rst_n", "core"],
    ]  # fmt: skip
    properties = _properties(record)
    assert properties["parameter:interface:ap_rst_n:POLARITY"] == {"value": "ACTIVE_LOW"}
    assert properties["parameter:interface:ap_clk:ASSOCIATED_RESET"] == {"value": "ap_rst_n"}
    assert properties["parameter:interface:interrupt:SENSITIVITY"] == {"value": "LEVEL_HIGH"}
    assert properties["parameter:interface:m_axi_gmem0:READ_WRITE_MODE"] == {"value": "READ_ONLY"}
    assert properties["parameter:interface:m_axi_gmem1:READ_WRITE_MODE"] == {"value": "WRITE_ONLY"}
    assert "parameter:interface:s_axi_control:READ_WRITE_MODE" not in properties


def test_each_master_says_how_long_its_bursts_are_and_how_many_are_in_flight(record: list[list[str]]) -> None:
    (shell,) = [file for file in rtl_sources("kernel_shell") if file.stem == "kernel_shell"]
    beats, bursts = (
        re.search(rf"parameter int {name} = (\d+),", shell.read_text()) for name in ("MAX_BURST_BEATS", "OUTSTANDING")
    )
    assert beats
    assert bursts
    told = {
        target.removeprefix("parameter:interface:"): values["value"]
        for target, values in _properties(record).items()
        if target.endswith(("OUTSTANDING", "MAX_BURST_LENGTH"))
    }
    assert told == {
        "m_axi_gmem0:MAX_BURST_LENGTH": beats[1], "m_axi_gmem0:NUM_READ_OUTSTANDING": bursts[1],
        "m_axi_gmem0:NUM_WRITE_OUTSTANDING": "0", "m_axi_gmem1:MAX_BURST_LENGTH": beats[1],
        "m_axi_gmem1:NUM_READ_OUTSTANDING": "0", "m_axi_gmem1:NUM_WRITE_OUTSTANDING": bursts[1],
    }  # fmt: skip


def test_the_control_protocol_is_named_in_the_xml_alone(record: list[list[str]], tmp_path: Path) -> None:
    (call,) = _calls(record, "package_xo")
    assert "-kernel_xml" in call
    assert "-ctrl_protocol" not in call
    text = (tmp_path / "build" / "kernel.xml").read_text()
    assert 'language="ip_c"' in text
    assert 'hwControlProtocol="ap_ctrl_chain"' in text


def test_every_register_stands_where_the_map_has_it(record: list[list[str]]) -> None:
    arguments = {argument.offset: argument for argument in describe_kernel("bench").arguments}
    vitis = {registers.CONTROL: "CTRL", registers.GIE: "GIER", registers.IER: "IP_IER", registers.ISR: "IP_ISR"}
    properties = _properties(record)
    names = [name for name, block in _calls(record, "ipx::add_register") if block == "block:reg0"]
    for name, register in zip(names, [one for one in registers.REGISTERS if one.offset != registers.W], strict=True):
        argument = arguments.get(register.offset)
        assert name == (argument.name if argument else vitis.get(register.offset, register.name))
        described = properties[f"register:{name}"]
        assert (int(described["address_offset"], 0), int(described["size"])) == (register.offset, 32 * register.words)
        assert described["access"] == {"RW": "read-write", "R": "read-only"}[register.access]
        assert described["description"] == register.text
        pointer = properties.get(f"parameter:register:{name}:ASSOCIATED_BUSIF")
        wanted = argument.port if argument and argument.address_qualifier == 1 else None
        assert (pointer or {}).get("value") == wanted
        bits = [call[0] for call in _calls(record, "ipx::add_field") if call[1] == f"register:{name}"]
        assert bits == [bit.name.upper() for bit in register.bits]
        for bit in register.bits:
            field = properties[f"field:register:{name}:{bit.name.upper()}"]
            assert (field["bit_offset"], field["bit_width"], field["description"]) == (str(bit.bit), "1", bit.text)


def test_the_weights_pointer_is_a_register_of_kernels_that_have_one() -> None:
    texts = [kernel_tcl(describe_kernel("bench", weights=weights), U250, (), "bench.xo") for weights in (False, True)]
    text = next(register.text for register in registers.REGISTERS if register.offset == registers.W)
    assert [f"{{{{w}} 0x030 64 read-write {{{text}}} {{m_axi_gmem0}} {{}}}}" in script for script in texts] == [False, True]
    assert ["0x030" in script for script in texts] == [False, True]


def test_arguments_fill_their_registers_and_fit_the_address_range(record: list[list[str]]) -> None:
    properties = _properties(record)
    for argument in describe_kernel("bench").arguments:
        assert int(properties[f"register:{argument.name}"]["size"]) == 8 * argument.size
    assert int(properties["block:reg0"]["range"]) == registers.ADDRESS_RANGE
    assert properties["interface:s_axi_control"]["slave_memory_map_ref"] == "s_axi_control"
    assert max(r.offset + 4 * r.words for r in registers.REGISTERS) <= registers.ADDRESS_RANGE


def test_the_core_is_checked_as_a_kernel_saved_and_packaged_last(
    record: list[list[str]], kernel: Kernel, tmp_path: Path
) -> None:
    order = [call[0] for call in record if call[0] not in ("set_property", "read_verilog", "synth_design")]
    assert order[-4:] == ["ipx::check_integrity", "ipx::save_core", "close_project", "package_xo"]
    assert _calls(record, "ipx::check_integrity") == [["-kernel", "core"]]
    core = _properties(record)["core"]
    assert (core["sdx_kernel"], core["sdx_kernel_type"], core["ipi_drc"]) == ("true", "rtl", "ignore_freq_hz true")
    assert core["vitis_drc"] == "ctrl_protocol ap_ctrl_chain"
    (package,) = _calls(record, "package_xo")
    build = tmp_path / "build"
    assert package == [
        "-force", "-xo_path", f"{build}/partial/bench.xo", "-kernel_name", "bench", "-ip_directory", f"{build}/package/ip",
        "-kernel_xml", f"{build}/kernel.xml",
    ]  # fmt: skip
    (written,) = parse_kernels((build / "kernel.xml").read_bytes())
    assert written == describe_kernel("bench")


def test_the_sources_are_the_kernels_and_the_part_is_the_platforms(
    record: list[list[str]], kernel: Kernel, tmp_path: Path
) -> None:
    created = _calls(record, "create_project")
    assert created[0] == ["-in_memory", "-part", U250.part]
    assert created[1][-2:] == ["-part", U250.part]
    ((_, files),) = _calls(record, "add_files")
    assert files.split() == [f"{tmp_path}/build/rtl/{source.name}" for source in kernel.sources]
    assert all(
        Path(file).read_bytes() == source.read_bytes() for file, source in zip(files.split(), kernel.sources, strict=True)
    )
    assert _properties(record)["fileset:sources_1"]["top"] == "bench"


def test_vivado_is_called_in_batch_with_no_file_of_its_own(vendor: Vendor, record: list[list[str]], tools: Tools) -> None:
    quiet = ["vivado", "-mode", "batch", "-nojournal", "-nolog", "-notrace"]
    assert vendor.calls() == [
        [*quiet, "-source", "check_part.tcl", "-tclargs", U250.part, "partial/part_checked"],
        [*quiet, "-source", "package_xo.tcl"],
    ]
    assert Path(tools.vivado).name == "vivado"


def test_an_interface_whose_ports_are_gone_ends_the_script(
    vendor: Vendor, tools: Tools, kernel: Kernel, tmp_path: Path
) -> None:
    (step,) = [step for step in package_steps(tools, U250, kernel, tmp_path) if step.name == "package_xo"]
    written = (tmp_path / "kernel.tcl").read_text()
    (tmp_path / "kernel.tcl").write_text(written.replace("{m_axi_gmem1} {WRITE_ONLY}", "{m_axi_gmem9} {WRITE_ONLY}"))
    with pytest.raises(VendorError, match="interface m_axi_gmem9 was not found among the ports"):
        run_steps([step], tmp_path)


def test_two_files_of_one_name_are_refused(tools: Tools, kernel: Kernel, tmp_path: Path) -> None:
    other = tmp_path / "other" / kernel.sources[0].name
    other.parent.mkdir()
    other.write_text("module other; endmodule\n")
    doubled = Kernel(kernel.name, kernel.top, (*kernel.sources, other), (), kernel.core)
    with pytest.raises(VendorError, match=f"two files of the kernel are called {other.name}"):
        package_steps(tools, U250, doubled, tmp_path)


@given(st.text(max_size=40))
def test_a_word_of_tcl_is_the_text_itself_or_refused(text: str) -> None:
    try:
        word = tcl_word(text)
    except VendorError:
        assert re.search(r"[{}\\]", text) or not text.isprintable()
    else:
        assert word == f"{{{text}}}"


@needs_tcl
def test_the_data_file_is_tcl_that_substitutes_nothing(tmp_path: Path) -> None:
    """A register text with $, [ and " in it is data."""
    text = kernel_tcl(describe_kernel("bench"), U250, ("rtl/[exit 3].sv", 'rtl/$x"y.sv'), "partial/bench.xo")
    (tmp_path / "kernel.tcl").write_text(text)
    (tmp_path / "show.tcl").write_text("source kernel.tcl\nforeach source $sources {puts $source}\n")
    output = subprocess.run(["tclsh", "show.tcl"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["rtl/[exit 3].sv", 'rtl/$x"y.sv']


@needs_tcl
@pytest.mark.parametrize("script", sorted(HERE.glob("*.tcl")), ids=lambda file: file.name)
def test_every_script_is_complete_tcl(script: Path, tmp_path: Path) -> None:
    (tmp_path / "complete.tcl").write_text(f"puts [info complete [read [open {{{script}}}]]]\n")
    output = subprocess.run(["tclsh", "complete.tcl"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert output == "1\n"
