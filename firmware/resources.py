# SPDX-License-Identifier: Apache-2.0
"""What a kernel takes of an FPGA, before any vendor tool has seen it: Yosys' estimate, module by module.

The core and the shell around it are mapped apart, each kept by the hash of its own sources, and counted together. The
estimate errs upwards in LUTs: Vivado puts two small LUTs into one and optimises over module borders, which Yosys leaves
standing here so that there is something to report. Inverters count as LUTs, two RAMB18 as one BRAM36.

    python -m hypersonic.firmware.resources DIRECTORY [--platform NAME] [--write FILE]

prints the report of the core in DIRECTORY (hypersonic build --build-directory leaves it in <name>/core) in its kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypersonic.firmware.errors import FirmwareError, LinkError
from hypersonic.firmware.kernel import Kernel, rtl_sources, write_kernel
from hypersonic.firmware.kernel_xml import Instance, describe_kernel
from hypersonic.firmware.linker_config import LABELS, LIMITS_PERCENT, describe_places, plan_link
from hypersonic.firmware.logic_path import LogicPath, longest_paths, parse_blif
from hypersonic.firmware.platform import RESOURCE_NAMES, Flow, Platform, Resources, find_platform
from hypersonic.firmware.yosys import FAMILY, Synthesis, SynthesisError, ports, synthesise, tool_version
from hypersonic.hls.cache import cached
from hypersonic.hls.core import RTL as STREAM_RTL
from hypersonic.hls.core import Core
from hypersonic.hls.project import ProjectError
from hypersonic.hls.verilator import ToolError

Progress = Callable[[str], None]

#: per cent by which a module may grow before somebody has to say why, and what is too little to speak of
GROWTH_PERCENT = 2
_SLACK = {"lut": 4, "ff": 4, "dsp": 0, "bram36": 0, "uram": 0}

#: cell -> LUTs it takes; carry chains and multiplexers take none of their own
_LUTS = {
    **dict.fromkeys(["LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6", "INV", "SRL16E", "SRLC16E", "SRLC32E"], 1),
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1S": 2, "RAM128X1D": 4, "RAM256X1S": 4,
    "RAM256X1D": 8, "RAM512X1S": 8, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8,
}  # fmt: skip
_SIZES = {
    **{name: Resources(lut=luts) for name, luts in _LUTS.items()},
    **dict.fromkeys(["FDRE", "FDSE", "FDCE", "FDPE", "LDCE", "LDPE"], Resources(ff=1)),
    "DSP48E2": Resources(dsp=1),
    "RAMB18E2": Resources(bram36=0.5),
    "RAMB36E2": Resources(bram36=1),
    "URAM288": Resources(uram=1),
}
_FREE = re.compile(r"CARRY[48]|MUXF[789]|VCC|GND|\$scopeinfo")


class GrowthError(FirmwareError):
    """A kernel takes more than its kept report says: which modules, by how much, and what to do."""


@dataclass(frozen=True)
class Module:
    """A module and what is inside it; all its instances at this place count together.

    own: without the modules inside.
    """

    name: str
    count: int
    own: Resources
    children: tuple[Module, ...] = ()

    @property
    def total(self) -> Resources:
        return sum((child.total for child in self.children), self.own)

    def walk(self, above: str = "") -> Iterator[tuple[str, Module]]:
        """(path, module) of this and every module inside: kernel/kernel_shell/axis_row_unpack."""
        path = f"{above}/{self.name}" if above else self.name
        yield path, self
        for child in self.children:
            yield from child.walk(path)


@dataclass(frozen=True)
class ResourceReport:
    """What one compute unit takes. paths: the deepest logic, longest first. cpu_seconds: what the synthesis cost when done."""

    kernel: str
    tool: str
    top: Module
    paths: tuple[LogicPath, ...]
    cpu_seconds: float

    def to_json(self) -> dict[str, Any]:
        """For the manifest and for the report kept beside a model: the same for the same sources, whenever it is made."""
        return {
            "tool": self.tool,
            "family": FAMILY,
            "modules": {
                path: {"count": module.count, **asdict(module.total), "own": asdict(module.own)}
                for path, module in self.top.walk()
            },
            "paths": [{**asdict(path), "fastest_mhz": path.fastest_mhz} for path in self.paths],
        }

    def lines(self, platform: Platform) -> list[str]:
        """The report as a table: modules, the share of one die, the limits of planning, the deepest path."""
        return [*_table(self.top), *_shares(self.top.total, platform), *_path_lines(self.paths, platform), self._cost()]

    def _cost(self) -> str:
        return f"Yosys {self.tool} took {self.cpu_seconds:.0f} s of processor time when this was first synthesised"


def estimate(kernel: Kernel, progress: Progress = lambda _: None) -> ResourceReport:
    """Synthesise the kernel's own sources; what was synthesised before is read back.

    Raises SynthesisError for RTL that Yosys refuses, MissingToolError without Yosys. What fits a card: linker_config.plan_link.
    """
    progress(f"estimating the resources of {kernel.name} (Yosys; some minutes the first time)")
    core, shell = _parts(kernel)
    box = ports(kernel.core.top, core)
    with ThreadPoolExecutor(2) as both:
        inner = both.submit(synthesise, kernel.core.top, core)
        outer = both.submit(synthesise, kernel.top, shell, [box])
    return _report(kernel, outer.result(), inner.result())


def _parts(kernel: Kernel) -> tuple[list[Path], list[Path]]:
    """The core's sources and the shell's; the shared stream modules belong to both."""
    core = [source.resolve() for source in kernel.core.sources]
    own = {source for source in core if source.parent != STREAM_RTL}
    return core, [source for source in kernel.sources if source.resolve() not in own]


def _report(kernel: Kernel, shell: Synthesis, core: Synthesis) -> ResourceReport:
    """Counting takes seconds, so its result is kept too."""
    here = Path(__file__).resolve()
    parts: list[str | Path] = [kernel.name, shell.directory.name, core.directory.name, here, here.with_name("logic_path.py")]

    def count(directory: Path) -> None:
        top = _module(shell.top, 1, shell.cells | core.cells)
        value = {"top": asdict(top), "paths": [asdict(path) for path in _deepest(shell, core)]}
        (directory / "report.json").write_text(json.dumps(value))

    value = json.loads((cached("resources", parts, count) / "report.json").read_text())
    paths = tuple(LogicPath(**path) for path in value["paths"])
    seconds = shell.cpu_seconds + core.cpu_seconds
    return ResourceReport(kernel.name, tool_version(), _read_module(value["top"]), paths, seconds)


def _read_module(value: dict[str, Any]) -> Module:
    children = tuple(_read_module(child) for child in value["children"])
    return Module(value["name"], value["count"], Resources(**value["own"]), children)


def _module(name: str, count: int, cells: Mapping[str, Mapping[str, int]]) -> Module:
    """`count` instances of a module, with what is inside; modules that differ in their parameters alone count together."""
    own, inside = Resources(), list[Module]()
    for cell, number in cells[name].items():
        if cell in cells:
            inside.append(_module(cell, number * count, cells))
        else:
            own += _size(cell).times(number * count)
    return Module(_written(name), count, own, _merged(inside))


def _merged(modules: list[Module]) -> tuple[Module, ...]:
    by_name: dict[str, list[Module]] = {}
    for module in modules:
        by_name.setdefault(module.name, []).append(module)
    return tuple(
        Module(
            name,
            sum(module.count for module in same),
            sum((module.own for module in same), Resources()),
            _merged([child for module in same for child in module.children]),
        )
        for name, same in sorted(by_name.items())
    )


def _size(cell: str) -> Resources:
    if cell not in _SIZES and not _FREE.fullmatch(cell):
        raise SynthesisError(f"Yosys used the cell {cell}, of which the size is not known; add it to firmware/resources.py")
    return _SIZES.get(cell, Resources())


def _written(name: str) -> str:
    """The module's name as it was written: Yosys appends a hash or the parameters."""
    found = re.match(r"\$paramod(?:\$\w+)?\\(\w+)", name)
    return found[1] if found else name


def _deepest(shell: Synthesis, core: Synthesis) -> tuple[LogicPath, ...]:
    """Over the whole kernel: the core's ports are the shell's nets."""
    cells = list(parse_blif(shell.netlist()))
    box = next(cell for cell in cells if cell.type == core.top)
    inner = parse_blif(core.netlist(), f"{core.top}.", box.ports)
    return longest_paths([*(cell for cell in cells if cell is not box), *inner])


def _row(name: str, count: str, amounts: Iterable[str]) -> str:
    return f"{name:<40} {count:>5}" + "".join(f" {amount:>9}" for amount in amounts)


def _amounts(resources: Resources) -> list[str]:
    return [
        f"{getattr(resources, name):,g}" if name == "bram36" else f"{getattr(resources, name):,}" for name in RESOURCE_NAMES
    ]


def _table(top: Module) -> list[str]:
    rows = [_row("module", "count", [LABELS[name] for name in RESOURCE_NAMES])]
    for path, module in top.walk():
        depth = path.count("/")
        rows.append(_row("  " * depth + module.name, str(module.count), _amounts(module.total)))
    return rows


def shares(total: Resources, die: Resources) -> dict[str, float]:
    """Per cent of a die, by resource."""
    return {name: round(100 * getattr(total, name) / getattr(die, name), 1) for name in RESOURCE_NAMES if getattr(die, name)}


def _shares(total: Resources, platform: Platform) -> list[str]:
    die = platform.slrs[0]
    share = shares(total, die)
    lines = [
        _row(f"one SLR of {platform.name}", "", _amounts(die)),
        _row("share of it", "", [f"{share.get(name, 0):g} %" for name in RESOURCE_NAMES]),
        _row("planning limit", "", [f"{getattr(LIMITS_PERCENT, name)} %" for name in RESOURCE_NAMES]),
    ]
    if platform.spread:
        spread = ", ".join(LABELS[name] for name in platform.spread)
        lines.append(f"{spread}: only the card's total is known, an equal part of it is taken for an SLR")
    return lines


def _path_lines(paths: Sequence[LogicPath], platform: Platform) -> list[str]:
    period_ns = 1000 / platform.kernel_clock_mhz
    lines = [f"deepest logic by a rule of thumb, no wire being known yet; a clock is {period_ns:.2f} ns"]
    for path in paths:
        mark = "!" if path.estimated_ns > period_ns else " "
        lines.append(
            f"{mark} {path.estimated_ns:5.2f} ns  {path.luts:2} LUTs {path.carries:2} carry  {path.start} -> {path.end}"
        )
    return lines


def estimate_f2_shell(compute_units: int) -> Module:
    """What stands once between that many kernels and the AWS F2 shell. Raises as estimate does."""
    found = synthesise("f2_shell", rtl_sources("f2_shell"), parameters={"UNITS": compute_units})
    return _module(found.top, 1, found.cells)


@dataclass(frozen=True)
class BuildReport:
    """What `hypersonic build` says of a kernel's resources.

    entry: for the manifest's report, under "resources". misfit: why the compute units do not fit the card, empty when they do.
    """

    lines: list[str]
    entry: dict[str, Any]
    misfit: str


def report_build(
    kernel: Kernel, platform: Platform, compute_units: int = 1, progress: Progress = lambda _: None
) -> BuildReport:
    """The estimate of one compute unit and the place of each. Raises as estimate does."""
    report = estimate(kernel, progress)
    lines, misfit, around = report.lines(platform), "", dict[str, Any]()
    if platform.flow is Flow.F2_HDK:
        shell = estimate_f2_shell(compute_units)
        lines += [f"and once, between {compute_units} compute units and the shell of AWS, by Yosys too:", *_table(shell)[1:]]
        around = {"f2_shell": asdict(shell.total)}
    units = [Instance(f"{kernel.name}_{k + 1}", 0) for k in range(compute_units)]
    try:
        lines += describe_places(platform, plan_link(platform, describe_kernel(kernel.name, units), report.top.total))
    except LinkError as error:
        misfit = str(error)
        lines.append(misfit)
    share = shares(report.top.total, platform.slrs[0])
    entry = {**report.to_json(), **around, "platform": platform.name, "share_of_slr_percent": share}
    return BuildReport(lines, entry, misfit)


def check_growth(kept: Mapping[str, Any], report: ResourceReport) -> None:
    """kept: an earlier report's to_json(). Raises GrowthError naming each module that itself, without those inside, takes over
    GROWTH_PERCENT more than then."""
    now = report.to_json()["modules"]
    grown = [said for path, module in now.items() if (said := _growth(path, kept["modules"].get(path), module["own"]))]
    if grown:
        tools = "" if kept["tool"] == report.tool else f" (Yosys was {kept['tool']}, now is {report.tool})"
        raise GrowthError(
            f"{report.kernel} grew{tools}: {'; '.join(grown)}; say why and write the report anew: "
            "python -m hypersonic.firmware.resources DIRECTORY --write FILE"
        )


def _growth(path: str, before: Mapping[str, Any] | None, now: Mapping[str, float]) -> str:
    """What grew, in words; nothing for a few cells more in a small module."""
    if before is None:
        return f"{path} is new: " + ", ".join(f"{LABELS[name]} {now[name]:g}" for name in RESOURCE_NAMES if now[name])
    was: Mapping[str, float] = before["own"]
    grown = [
        f"{LABELS[name]} {was[name]:g} -> {now[name]:g}"
        for name in RESOURCE_NAMES
        if now[name] > was[name] + max(was[name] * GROWTH_PERCENT / 100, _SLACK[name])
    ]
    return f"{path}: {', '.join(grown)}" if grown else ""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hypersonic.firmware.resources", description="Estimate a kernel's resources."
    )
    parser.add_argument("directory", type=Path, help="a core's directory, with core.json")
    parser.add_argument("--platform", default="u250", help="the card to compare with (default: u250)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the report in FILE")
    arguments = parser.parse_args(argv)
    try:
        platform = find_platform(arguments.platform, retired_too=True)
        with tempfile.TemporaryDirectory() as scratch:
            report = estimate(write_kernel(Core.load(arguments.directory), Path(scratch)))
    except (FirmwareError, ProjectError, ToolError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("\n".join([*report.lines(platform), ""]))
    if arguments.write:
        arguments.write.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
