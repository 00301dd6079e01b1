# SPDX-License-Identifier: Apache-2.0
"""The registers at a kernel's AXI ports: in its netlist, and what stays as it was without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.estimate.yosys import run_on
from hypersonic.firmware.kernel.files import PORTS, Kernel, with_run_done
from hypersonic.firmware.kernel.slices import CHANNELS, SLICES, Channel, with_port_registers
from hypersonic.firmware.kernel.write import keep_kernel, top_text, write_kernel
from hypersonic.hls import verilator
from hypersonic.hls.core import Core
from hypersonic.hls.rf.modules import packages_first
from hypersonic.sim import vivado
from hypersonic.sim.bench_core import bench_rows, write_bench_core

#: what a register is after Yosys' proc, with and without a reset or an enable
FLIP_FLOPS = {"$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"}

SCRIPT = "read_verilog -sv -defer {sources}\nhierarchy -check -top {top}\nproc\nflatten\nopt_clean\nwrite_json netlist.json\n"


@pytest.fixture
def core(tmp_path: Path) -> Core:
    return write_bench_core(*bench_rows(3, 2), tmp_path)


class Netlist:
    """The flat netlist of a kernel: the bits of its wires, and those that are outputs of flip-flops."""

    def __init__(self, kernel: Kernel, directory: Path) -> None:
        directory.mkdir()
        sources = " ".join(file.name for file in packages_first(list(kernel.sources)) if file.suffix in {".sv", ".v"})
        run_on({file.name: file for file in kernel.sources}, SCRIPT.format(sources=sources, top=kernel.top), directory)
        self.top: dict[str, Any] = json.loads((directory / "netlist.json").read_text())["modules"][kernel.top]
        cells = [cell for cell in self.top["cells"].values() if cell["type"] in FLIP_FLOPS]
        self.registered = {bit for cell in cells for bit in cell["connections"]["Q"]}

    def bits(self, wire: str) -> list[Any]:
        found: list[Any] = self.top["netnames"][wire]["bits"]
        return found

    def joined(self, channel: Channel, prefix: str = "") -> list[Any]:
        """The bits of a channel's payload as tdata has them."""
        return [bit for name, _ in reversed(channel.payload) for bit in self.bits(f"{prefix}{name}")]


def test_every_channel_of_the_masters_is_there_with_all_its_signals() -> None:
    masters = {name for _, name, _ in PORTS if name.startswith("m_axi_")}
    found = [name for channel in CHANNELS for name, _ in channel.payload]
    found += [f"{channel.name}{signal}" for channel in CHANNELS for signal in ("valid", "ready")]
    assert sorted(found) == sorted(masters)
    assert [(channel.leaves, channel.width) for channel in CHANNELS] == [
        (True, 85), (False, 516), (True, 85), (True, 577), (False, 3),
    ]  # fmt: skip


def test_the_netlist_has_the_registers_between_the_shell_and_every_channel(core: Core, tmp_path: Path) -> None:
    netlist = Netlist(write_kernel(core, tmp_path / "kernel", port_registers=True), tmp_path / "netlist")
    flip_flops = 0
    for channel in CHANNELS:
        own = {
            name: netlist.bits(f"{channel.register}.{name}")
            for name in ("m_axis_tvalid", "m_axis_tdata", "ready_q", "skid_valid_q", "skid_data_q")
        }
        assert {name for name, bits in own.items() if not netlist.registered.issuperset(bits)} == set()
        flip_flops += len({bit for bits in own.values() for bit in bits})
        source, sink = ("shell_", "") if channel.leaves else ("", "shell_")
        assert netlist.joined(channel, sink) == own["m_axis_tdata"]
        assert netlist.joined(channel, source) == netlist.bits(f"{channel.register}.s_axis_tdata")
        assert netlist.bits(f"{sink}{channel.name}valid") == own["m_axis_tvalid"]
    assert flip_flops == SLICES.ff


def test_a_kernel_without_the_option_has_none_and_its_text_is_the_one_it_was(core: Core, tmp_path: Path) -> None:
    kernel = write_kernel(core, tmp_path / "kernel")
    assert not kernel.port_registers
    assert kernel.top_file.read_text() == top_text(core)
    netlist = Netlist(kernel, tmp_path / "netlist")
    assert not [name for name in netlist.top["netnames"] if "axis_skid_gmem" in name or name.startswith("shell_m_axi")]


def test_a_kernel_with_registers_lints_clean_and_is_another_kernel(core: Core, tmp_path: Path) -> None:
    plain, with_registers = (
        write_kernel(core, tmp_path / "plain"),
        write_kernel(core, tmp_path / "registers", port_registers=True),
    )
    verilator.lint([*with_registers.lint_waivers, *with_registers.sources], with_registers.top)
    assert list(vivado.found_in(with_registers.top_file)) == []
    assert with_registers.sha256 != plain.sha256
    assert with_registers.units(2).port_registers
    assert not plain.units(2).port_registers


def test_a_kept_kernel_may_have_registers_too(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    kept = keep_kernel(core, port_registers=True)
    assert kept.port_registers
    assert kept.top_file.read_text() == with_port_registers(top_text(core))
    assert kept.top_file != keep_kernel(core).top_file


def test_the_port_that_counts_runs_is_added_to_a_kernel_with_registers(core: Core) -> None:
    text = with_run_done(with_port_registers(top_text(core)))
    assert "output wire run_done" in text
    assert text.count("  axis_skid #(") == len(CHANNELS) + top_text(core).count("  axis_skid #(")
