# SPDX-License-Identifier: Apache-2.0
"""The resources of a kernel, module by module, as Yosys estimates them without any vendor tool.

The core and the shell around it are mapped separately, each cached by the hash of its own sources, and are counted together.
The estimate of LUTs is too high: Vivado packs two small LUTs into one and optimises across module boundaries, which Yosys
keeps here so that each module can be reported. The estimate of registers is too high as well, because it includes registers
beside a multiplier that Vivado moves into the DSP. An rf core is mapped stage by stage (stages.py). A da core too large for
Yosys is counted by its adders, which gives a third more LUTs for FACILE than Yosys does.
`python -m hypersonic.firmware.estimate` prints a report (__main__.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.estimate.cells import Cell, parse_blif
from hypersonic.firmware.estimate.logic_path import LogicPath, longest_paths
from hypersonic.firmware.estimate.module_tree import Module, memory_resources, module_of, read_module
from hypersonic.firmware.estimate.stages import CoreSynthesis, synthesise_rf_core
from hypersonic.firmware.estimate.yosys import FAMILY, MAP, Synthesis, ports, synthesise
from hypersonic.firmware.kernel.files import Kernel, rtl_sources
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.pyosys import tool_version
from hypersonic.firmware.xclbin.connectivity import LIMITS_PERCENT, interconnect
from hypersonic.hls.cache import cached, content_hash
from hypersonic.hls.core import RTL as CORE_RTL
from hypersonic.hls.core import Core
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.da import delay
from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts
from hypersonic.hls.weight_stream import WEIGHT_BITS

#: per cent by which a module may grow without a reason, and the growth in cells that is ignored in a small module
GROWTH_PERCENT = 2
_SLACK = {"lut": 4, "ff": 4, "dsp": 0, "bram36": 0, "uram": 0}


#: a core with more LUTs than this, by its own count, is not mapped: Yosys needs minutes for so many, and for a core of
#: 333,000 LUTs it ended with a WebAssembly exception
MAPPED_LUTS = 150_000


class GrowthError(FirmwareError):
    """A kernel needs more resources than in its stored report. The message names the modules and both amounts."""


@dataclass(frozen=True)
class ResourceReport:
    """The estimated resources of one compute unit.

    Attributes:
        tool: version of Yosys.
        paths: the deepest logic, longest first.
        cpu_seconds: processor time of the synthesis when it was first done.
        notes: sentences on the parts that were not mapped as they are.
    """

    kernel: str
    tool: str
    top: Module
    paths: tuple[LogicPath, ...]
    cpu_seconds: float
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object, for the manifest and for a model's stored report. Equal sources give equal objects."""
        return {
            "tool": self.tool,
            "family": FAMILY,
            "modules": {
                path: {"count": module.count, **module.total.to_json(), "own": module.own.to_json()}
                for path, module in self.top.walk()
            },
            "paths": [{**asdict(path), "fastest_mhz": path.fastest_mhz} for path in self.paths],
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def lines(self, platform: Platform) -> list[str]:
        """The report as the lines of a table: modules, their share of one die, the planning limits, the deepest paths."""
        shares = _shares(self.top.total, platform)
        return [*table(self.top), *self.notes, *shares, *_path_lines(self.paths, platform), self._cost()]

    def _cost(self) -> str:
        return f"Yosys {self.tool} took {self.cpu_seconds:.0f} s of processor time when this was first synthesised"


def step_of(kernel: str) -> str:
    """The line of progress for a kernel's estimate."""
    return f"estimating the resources of {kernel} (Yosys; some minutes the first time)"


def estimate(kernel: Kernel) -> ResourceReport:
    """Synthesise the kernel, or read an earlier result from the cache. xclbin/connectivity.py checks whether it fits a card.

    A build uses make_estimates (report.py). Raises SynthesisError for RTL that Yosys refuses, MissingToolError without Yosys.
    """
    core, shell = _parts(kernel)
    with ThreadPoolExecutor(2) as both:
        inner = both.submit(_core, kernel.core, core)
        outer = both.submit(synthesise, kernel.top, shell, [_box(kernel.core, core)])
    return _report(kernel, outer.result(), inner.result())


def sources_key(kernel: Kernel) -> str:
    """Return a hash of everything that determines an estimate, except the code that counts cells. A stored report has it."""
    files = sorted({*kernel.sources, *kernel.core.memories}, key=lambda file: file.name)
    return content_hash([tool_version(), MAP, kernel.name, kernel.top, *files])


def _parts(kernel: Kernel) -> tuple[list[Path], list[Path]]:
    """The sources of the core, and those of the shell. The stream modules that both use are in both lists."""
    core = [source.resolve() for source in kernel.core.sources]
    own = {source for source in core if not source.is_relative_to(CORE_RTL)}
    return core, [source for source in kernel.sources if source.resolve() not in own]


def _box(core: Core, sources: list[Path]) -> Path:
    """A file with the core's ports. For an rf core, and for a core that is not mapped, it is written without Yosys, which would
    have to read all of the core."""
    if core.kind != CoreKind.RF and not _counted(core):
        return ports(core.top, sources)
    text = core_ports(core)
    return cached("ports", [text], lambda directory: _write(directory / "ports.v", text)) / "ports.v"


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def core_ports(core: Core) -> str:
    """The Verilog of the core's module with its ports and no contents (see hls/core.py)."""
    ports = ["input clk", "input rst_n"]
    for name, port, way, back in (("s_axis_x", core.x, "input", "output"), ("m_axis_y", core.y, "output", "input")):
        ports += [f"{way} {name}_tvalid", f"{back} {name}_tready", f"{way} {name}_tlast"]
        ports += [f"{way} [{port.width - 1}:0] {name}_tdata"]
    if streams := len(core.weight_streams):
        ports += [f"input [{streams - 1}:0] s_axis_w_tvalid", f"output [{streams - 1}:0] s_axis_w_tready"]
        ports += [f"input [{streams * WEIGHT_BITS - 1}:0] s_axis_w_tdata"]
    return f"module {core.top} ({', '.join(ports)});\nendmodule\n"


@dataclass(frozen=True)
class _Inner:
    """A mapped core.

    Attributes:
        cells: returns the cells of its netlist, given the nets at its ports.
        key: hash of everything that determines them.
    """

    module: Module
    cells: Callable[[Mapping[str, str]], Iterator[Cell]]
    cpu_seconds: float
    key: str
    notes: tuple[str, ...] = ()


def _core(core: Core, sources: list[Path]) -> _Inner | CoreSynthesis:
    if core.kind == CoreKind.RF:
        return synthesise_rf_core(core)
    if counted := _counted(core):
        return counted
    synthesis = synthesise(core.top, sources)
    module = module_of(core.top, 1, synthesis.cells)
    return _Inner(
        module,
        lambda nets: parse_blif(synthesis.netlist(), f"{core.top}.", nets),
        synthesis.cpu_seconds,
        synthesis.directory.name,
    )


def _counted(core: Core) -> _Inner | None:
    """The count of a core that is too large to be mapped, by its adders and without paths; None for other cores."""
    if core.logic is None or core.logic.luts <= MAPPED_LUTS:
        return None
    most = Amounts(lut=core.logic.luts, ff=core.logic.registers)
    note = (
        f"{core.top} is too large for Yosys (over {MAPPED_LUTS:,} LUTs): its figures are one LUT for each bit of its adders, "
        "an upper bound, and the paths below are the shell's"
    )
    return _Inner(Module(core.top, 1, most), lambda _: iter(()), 0.0, repr(core.logic), (note,))


def known_amounts(core: Core) -> Amounts:
    """A core's resources as far as they are known without Yosys: its memories, and the adders of one too large to be mapped."""
    counted = _counted(core)
    return memory_resources(core.memories) + (counted.module.total if counted else NOTHING)


def _report(kernel: Kernel, shell: Synthesis, core: _Inner | CoreSynthesis) -> ResourceReport:
    """The report of shell and core together. Counting takes seconds, so its result is cached too."""
    here = Path(__file__).resolve()
    names = ("absorbed.py", "cells.py", "flip_flops.py", "logic_path.py", "module_tree.py")
    files = [here, *(here.with_name(name) for name in names), Path(delay.__file__)]
    name = kernel.core.top

    def count(directory: Path) -> None:
        top = module_of(shell.top, 1, shell.cells, {name: core.module})
        value = {"top": asdict(top), "paths": [asdict(path) for path in _deepest(shell, name, core)]}
        (directory / "report.json").write_text(json.dumps(value))

    kept = cached("resources", [kernel.name, shell.directory.name, core.key, *files], count)
    value = json.loads((kept / "report.json").read_text())
    paths = tuple(LogicPath(**path) for path in value["paths"])
    seconds = shell.cpu_seconds + core.cpu_seconds
    return ResourceReport(kernel.name, tool_version(), read_module(value["top"]), paths, seconds, core.notes)


def _deepest(shell: Synthesis, name: str, core: _Inner | CoreSynthesis) -> tuple[LogicPath, ...]:
    """The longest paths of the whole kernel, with the core's ports connected to the shell's nets."""
    cells = list(parse_blif(shell.netlist()))
    box = next(cell for cell in cells if cell.type == name)
    return longest_paths([*(cell for cell in cells if cell is not box), *core.cells(box.ports)])


def _row(name: str, count: str, amounts: Iterable[str]) -> str:
    return f"{name:<40} {count:>5}" + "".join(f" {amount:>9}" for amount in amounts)


def table(top: Module) -> list[str]:
    """The modules as the lines of a table, after a line with the names of the columns."""
    rows = [_row("module", "count", [LABELS[name] for name in KINDS])]
    for path, module in top.walk():
        depth = path.count("/")
        rows.append(_row("  " * depth + module.name, str(module.count), module.total.texts()))
    return rows


def _shares(total: Amounts, platform: Platform) -> list[str]:
    die, added = platform.slrs[0], interconnect(platform)
    share = (total + added).percent_of(die)
    lines = [
        *([_row("interconnect of v++, assumed", "", added.texts())] if added != NOTHING else []),
        _row(f"one SLR of {platform.name}", "", die.texts()),
        _row("share of it", "", [f"{share.get(name, 0):g} %" for name in KINDS]),
        _row("planning limit", "", [f"{getattr(LIMITS_PERCENT, name)} %" for name in KINDS]),
    ]
    if platform.spread:
        spread = ", ".join(LABELS[name] for name in platform.spread)
        lines.append(f"{spread}: only the card's total is known; each SLR is assumed to hold an equal part")
    return lines


def _path_lines(paths: Sequence[LogicPath], platform: Platform) -> list[str]:
    period_ns = 1000 / platform.kernel_clock_mhz
    lines = [f"deepest logic by a rule of thumb, as no wire is routed yet; a clock period is {period_ns:.2f} ns"]
    for path in paths:
        mark = "!" if path.estimated_ns > period_ns else " "
        lines.append(
            f"{mark} {path.estimated_ns:5.2f} ns  {path.luts:2} LUTs {path.carries:2} carry  {path.start} -> {path.end}"
        )
    return lines


def estimate_shell(module: str, compute_units: int) -> Module:
    """The resources of the module between that many kernels and a shell (Platform.shell_module). Raises like estimate."""
    synthesis = synthesise(module, rtl_sources(module), parameters={"UNITS": compute_units})
    return module_of(synthesis.top, 1, synthesis.cells)


def check_growth(kept: Mapping[str, Any], report: ResourceReport) -> None:
    """Modules are compared without the modules inside them.

    Args:
        kept: to_json() of that report.

    Raises:
        GrowthError: Which names each module that has grown by more than GROWTH_PERCENT since the stored report.
    """
    now = report.to_json()["modules"]
    grown = [growth for path, module in now.items() if (growth := _growth(path, kept["modules"].get(path), module["own"]))]
    if grown:
        tools = "" if kept["tool"] == report.tool else f" (Yosys was {kept['tool']}, now is {report.tool})"
        raise GrowthError(
            f"{report.kernel} grew{tools}: {'; '.join(grown)}; give the reason and write a new report: "
            "python -m hypersonic.firmware.estimate DIRECTORY --write FILE"
        )


def _growth(path: str, before: Mapping[str, Any] | None, now: Mapping[str, float]) -> str:
    """A text on the growth of one module; empty when it has not grown, or by a few cells in a small module."""
    if before is None:
        return f"{path} is new: " + ", ".join(f"{LABELS[name]} {now[name]:g}" for name in KINDS if now[name])
    was: Mapping[str, float] = before["own"]
    grown = [
        f"{LABELS[name]} {was[name]:g} -> {now[name]:g}"
        for name in KINDS
        if now[name] > was[name] + max(was[name] * GROWTH_PERCENT / 100, _SLACK[name])
    ]
    return f"{path}: {', '.join(grown)}" if grown else ""
