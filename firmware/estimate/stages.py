# SPDX-License-Identifier: Apache-2.0
"""Synthesis of an rf core, stage by stage: each module is mapped once for each set of parameters, and cached.

The core's top is mapped with its stages as black boxes. Stages that are not in the cache are mapped in parallel. Many
are mapped in one run of Yosys, because a run takes seconds before it maps the first cell, and each is flattened, because Yosys
starts ABC once for each module. Memories filled from files stay black boxes (module_tree.Rom), so no file is read.

A stage with many multipliers or lanes is mapped at two small sizes for each of AXES, and its cells are extrapolated linearly.
This neglects that an adder tree grows by a bit at each level.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hypersonic.firmware.estimate import absorbed, flip_flops
from hypersonic.firmware.estimate.cells import Cell, parse_blif
from hypersonic.firmware.estimate.module_tree import ROM, Module, Rom, merged, module_of, scaled, with_roms, without_absorbed
from hypersonic.firmware.estimate.yosys import (
    MAP,
    Placed,
    Synthesis,
    SynthesisError,
    plain,
    run,
    synthesise_around,
)
from hypersonic.firmware.pyosys import tool_version
from hypersonic.hls.cache import cache_directory, cached, content_hash
from hypersonic.hls.core import Core
from hypersonic.hls.rf.modules import is_package, packages_first, rtl_sources
from hypersonic.hls.sources import code_hash


@dataclass(frozen=True)
class Axis:
    """A parameter in which a module's size is linear, and the two values at which the module is mapped.

    Attributes:
        follows: parameters that are scaled by the same ratio.
    """

    parameter: str
    low: int
    high: int
    follows: tuple[str, ...] = ()


_MAC = (Axis("Q", 1, 2, ("N_OUT",)), Axis("P", 4, 8, ("N_IN",)))
_LANES = (Axis("LANES", 2, 4),)

#: module -> the parameters that are scaled where they are larger than `high`
AXES = {
    "rf_mac": _MAC, "rf_mac_stream": _MAC, "rf_matmul": _MAC, "rf_weights": (Axis("WIDTH", 576, 1152),),
    "rf_lanes": (Axis("WIDTH", 4, 8),), "rf_fork": (Axis("WIDTH", 8, 16),),
    **dict.fromkeys(["rf_map", "rf_table", "rf_merge", "rf_pool", "rf_global_pool", "rf_depthwise"], _LANES),
}  # fmt: skip

# uniquify gives each instance its own module. Without it, an axis_fifo that is a stage keeps its hierarchy and would remain a
# cell in other stages that contain an equal axis_fifo.
_SCRIPT = f"""\
read_verilog -sv -lib {ROM}.sv
read_verilog -sv -defer {{sources}}
read_verilog -sv batch.sv
hierarchy -check -top batch
proc
uniquify
setattr -mod -set keep_hierarchy 1 batch/c:* %M
flatten
select t:{ROM}
write_json -selected roms.json
select -clear
chformal -remove
{MAP.format(top="batch")}
tee -q -o stat.json stat -json
write_blif -noalias -param netlist.blif
"""


@dataclass(frozen=True)
class StageSynthesis:
    """A mapped stage.

    Attributes:
        module: its cells without its memories, which are `roms`.
        directory: holds the netlist.
    """

    module: Module
    roms: tuple[Rom, ...]
    cpu_seconds: float
    directory: Path

    def netlist(self) -> str:
        """The flat netlist as BLIF, in which each memory is a cell of type rf_rom."""
        return gzip.decompress((self.directory / "netlist.blif.gz").read_bytes()).decode()


@dataclass(frozen=True)
class CoreSynthesis:
    """A mapped core.

    Attributes:
        outer: its top, with the stages as black boxes.
        key: hash of everything that decides the result.
        notes: sentences for the report on the stages that are extrapolated.
    """

    top: str
    module: Module
    outer: Synthesis
    stages: Mapping[str, StageSynthesis]  # instance -> the stage, or the largest of those it was extrapolated from
    cpu_seconds: float
    key: str
    notes: tuple[str, ...]

    def cells(self, ports: Mapping[str, str]) -> Iterator[Cell]:
        """The cells of the flat netlist.

        Args:
            ports: port of the core -> the net that is connected to it.
        """
        for cell in parse_blif(self.outer.netlist(), f"{self.top}.", ports):
            if cell.name in self.stages:
                yield from parse_blif(self.stages[cell.name].netlist(), f"{self.top}.{cell.name}.", cell.ports)
            else:
                yield cell


def synthesise_rf_core(core: Core) -> CoreSynthesis:
    """Map an rf core. Raises SynthesisError for RTL that Yosys refuses, MissingToolError when Yosys is not installed."""
    modules = [source for source in core.sources if source.stem != core.top]
    (top,) = (source for source in core.sources if source.stem == core.top)
    outer, inside = synthesise_around(core.top, top, modules)
    files = {file.name for file in core.memories}
    placed = {one.name: _without_files(one, files) for one in inside}
    parts = {name: samples(one) for name, one in placed.items()}
    done = synthesise_stages({sample for one in parts.values() for sample, _ in one}, modules)
    trees = [_counted([(done[sample], weight) for sample, weight in one]) for one in parts.values()]
    known = {tree.name: tree for tree in merged(trees)}
    scaled_stages = sum(len(one) > 1 for one in parts.values())
    notes = (f"{scaled_stages} of {len(parts)} stages are extrapolated linearly from fewer multipliers or lanes",)
    return CoreSynthesis(
        core.top, module_of(core.top, 1, outer.cells, known), outer,
        {name: done[one[-1][0]] for name, one in parts.items()},
        outer.cpu_seconds + sum(stage.cpu_seconds for stage in done.values()),
        content_hash([outer.directory.name, *sorted(stage.directory.name for stage in done.values()), Path(__file__)]),
        notes if scaled_stages else (),
    )  # fmt: skip


def _without_files(placed: Placed, files: set[str]) -> Placed:
    """The instance without its name and without the names of its memory files, so that equal stages compare equal."""
    quoted = {f'"{file}"' for file in files}
    return replace(placed, name="", parameters=tuple((key, '""' if v in quoted else v) for key, v in placed.parameters))


def samples(placed: Placed) -> list[tuple[Placed, float]]:
    """The instances that are mapped in place of a stage, with their weights in the linear extrapolation, which add up to 1; the
    largest instance is last."""
    parts = [(placed, 1.0)]
    for axis in AXES.get(placed.module, ()):
        value = placed.number(axis.parameter)
        if value is None or value <= axis.high:
            continue
        share = (value - axis.low) / (axis.high - axis.low)
        both = ((axis.low, 1 - share), (axis.high, share))
        parts = [(_resized(one, axis, size), weight * part) for one, weight in parts for size, part in both]
    return parts


def _resized(placed: Placed, axis: Axis, size: int) -> Placed:
    value = placed.number(axis.parameter) or 1
    sizes = {axis.parameter: size} | {name: (placed.number(name) or 1) // value * size for name in axis.follows}
    return replace(
        placed, parameters=tuple((key, f"32'sb{sizes[key]:032b}" if key in sizes else v) for key, v in placed.parameters)
    )


def _counted(parts: Sequence[tuple[StageSynthesis, float]]) -> Module:
    """The stage with its cells and memories. The width of a memory's words is extrapolated; its block RAMs follow from it."""
    tree = scaled([(stage.module, weight) for stage, weight in parts])
    return with_roms(tree, _scaled_roms(parts))


def _scaled_roms(parts: Sequence[tuple[StageSynthesis, float]]) -> list[Rom]:
    """The extrapolated memories: wider words if all samples have the same number of memories, otherwise more memories."""
    largest = parts[-1][0].roms
    count = round(sum(len(stage.roms) * weight for stage, weight in parts))
    if any(len(stage.roms) != len(largest) for stage, _ in parts):
        return [largest[number % len(largest)] for number in range(count)]
    widths = [round(sum(stage.roms[number].width * weight for stage, weight in parts)) for number in range(len(largest))]
    return [replace(rom, width=width) for rom, width in zip(largest, widths, strict=True)]


def synthesise_stages(stages: Iterable[Placed], modules: Sequence[Path]) -> dict[Placed, StageSynthesis]:
    """Map each stage that is not in the cache.

    Raises like synthesise_rf_core.

    Args:
        modules: their files, one module in each; packages are found by the modules' lists.
    """
    needed = _needed(modules)
    # hashed once, so that a source that changes meanwhile does not get an old result stored under its new hash
    keys = {stage: content_hash([tool_version(), _SCRIPT, stage.text(), *needed[stage.module]]) for stage in stages}
    missing = [stage for stage in keys if not (cache_directory() / "stage" / content_hash([keys[stage]])).is_dir()]
    missing.sort(key=lambda stage: (-_weight(stage), stage.text()))
    batches = [batch for number in range(2) if (batch := missing[number::2])]
    with ThreadPoolExecutor(2) as pool:
        mapped = dict(pair for each in pool.map(lambda batch: _run(batch, needed), batches) for pair in each.items())
    return {stage: _read(stage, cached("stage", [key], partial(_keep, mapped.get(stage)))) for stage, key in keys.items()}


def _needed(modules: Iterable[Path]) -> dict[str, tuple[Path, ...]]:
    """module -> the files of it, of the modules inside it, and of the memories (rf_rom), packages first."""
    lists = {file.stem: {*rtl_sources(file.stem), *rtl_sources(ROM)} for file in modules if not is_package(file)}
    return {name: tuple(packages_first(sorted(files, key=lambda file: file.stem))) for name, files in lists.items()}


def _weight(stage: Placed) -> int:
    return (stage.number("P") or 1) * (stage.number("Q") or 1) + (stage.number("LANES") or 1)


#: the contents of stage.json and the netlist of a stage
_Mapped = tuple[dict[str, Any], str]


def _run(batch: Sequence[Placed], needed: Mapping[str, tuple[Path, ...]]) -> dict[Placed, _Mapped]:
    """Map stages in one run of Yosys, in a directory of its own inside the cache (see yosys.py)."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".stages-", dir=cache_directory()))
    try:
        every = dict.fromkeys(file for stage in batch for file in needed[stage.module])
        sources = packages_first(every)
        for source in sources:
            shutil.copyfile(source, scratch / source.name)
        lines = [f"  (* keep *) {stage.text()} s{number} ();" for number, stage in enumerate(batch)]
        (scratch / "batch.sv").write_text("\n".join(["module batch;", *lines, "endmodule", ""]))
        names = " ".join(source.name for source in sources if source.stem != ROM)
        (scratch / "script.ys").write_text(_SCRIPT.format(sources=names))
        seconds = run("script.ys", scratch)
        return _split(batch, scratch, seconds / len(batch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _split(batch: Sequence[Placed], scratch: Path, seconds: float) -> dict[Placed, _Mapped]:
    counts, roms = (json.loads((scratch / f"{name}.json").read_text())["modules"] for name in ("stat", "roms"))
    cells = {plain(name): one["num_cells_by_type"] for name, one in counts.items()}
    shapes = {
        plain(name): [tuple(int(rom["parameters"][key], 2) for key in ("WIDTH", "DEPTH")) for rom in one["cells"].values()]
        for name, one in roms.items()
    }
    netlists = {text.split(maxsplit=1)[0]: text for text in (scratch / "netlist.blif").read_text().split("\n.model ")[1:]}
    mapped: dict[Placed, _Mapped] = {}
    for number, stage in enumerate(batch):
        name = f"batch.s{number}"  # as uniquify names it
        inside = {plain(cell): count for cell, count in cells[name].items()}
        mapped[stage] = ({"cells": inside, "roms": shapes.get(name, []), "seconds": seconds}, netlists[name])
    return mapped


def _keep(mapped: _Mapped | None, place: Path) -> None:
    if mapped is None:
        raise SynthesisError(f"{place} was removed from the cache during the estimate; estimate again")
    value, netlist = mapped
    (place / "stage.json").write_text(json.dumps(value))
    (place / "netlist.blif.gz").write_bytes(gzip.compress(f".model {netlist}".encode(), compresslevel=1, mtime=0))


def _read(stage: Placed, place: Path) -> StageSynthesis:
    value = json.loads((place / "stage.json").read_text())
    roms = tuple(Rom(int(width), int(depth)) for width, depth in value["roms"])
    module = module_of(stage.module, 1, {stage.module: value["cells"]})
    mapped = StageSynthesis(module, roms, value["seconds"], place)
    return replace(mapped, module=without_absorbed(module, _absorbed(mapped)))


def _absorbed(stage: StageSynthesis) -> int:
    """The flip-flops of a stage that its multipliers and block RAMs absorb."""

    def count(directory: Path) -> None:
        (directory / "ffs.json").write_text(json.dumps(absorbed.absorb(parse_blif(stage.netlist()))[1]))

    codes = [code_hash(Path(file)) for file in (absorbed.__file__, flip_flops.__file__)]
    kept = cached("absorbed", [stage.directory.name, *codes], count)
    return int(json.loads((kept / "ffs.json").read_text()))
