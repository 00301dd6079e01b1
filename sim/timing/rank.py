# SPDX-License-Identifier: Apache-2.0
"""Whether the delay model (firmware/estimate/logic_path.py) ranks the designs as the router does, and the router's wires.

Both see the same wrapper: the model on the cells of UltraScale+ that Yosys maps it to, the router on those of the ECP5.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import correlation

from hypersonic.firmware.estimate.cells import parse_blif
from hypersonic.firmware.estimate.logic_path import LogicPath, longest_paths
from hypersonic.firmware.estimate.yosys import synthesise
from hypersonic.sim.timing.designs import TOP, Design
from hypersonic.sim.timing.ledger import Row
from hypersonic.sim.timing.results import Routed
from hypersonic.sim.timing.route import design_hash, wrapper

#: the least rank correlation of the model with the ledger
LEAST_CORRELATION = 0.8


def model_path(design: Design) -> LogicPath:
    """The model's longest path of a design in its wrapper. Raises SynthesisError."""
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch) / "wrapper.sv"
        top.write_text(wrapper(design))
        memories = [Path(scratch) / name for name, _ in design.memories]
        for file, (_, text) in zip(memories, design.memories, strict=True):
            file.write_text(text)
        sources = [file for file in design.sources if file.suffix != ".svh"]
        includes = [file for file in design.sources if file.suffix == ".svh"]
        return longest_paths(parse_blif(synthesise(TOP, [*includes, *sources, top, *memories]).netlist()), most=1)[0]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The rank correlation of two lists of at least two numbers, of which equal ones share their mean rank."""
    return correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(other < value for other in values) + sum(other == value for other in values) / 2 for value in values]


def ranked(rows: Mapping[str, Row], all_designs: Iterable[Design]) -> Iterator[tuple[str, float, float]]:
    """(design, ns by the model, ns of the proxy's clock) of each design whose row is up to date. Raises SynthesisError."""
    for design in all_designs:
        row = rows.get(design.name)
        if row and row.key == design_hash(design):
            yield design.name, model_path(design).estimated_ns, 1000 / row.median_mhz


def wire_curve(results: Iterable[Routed]) -> dict[int, tuple[int, float]]:
    """Fan-out, rounded up to a power of two -> (number of nets, mean of their slowest sinks' delay in ns), over all results."""
    sums: dict[int, tuple[int, float]] = {}
    for result in results:
        for loads, nets, ns in result.wires:
            place = 1 << (loads - 1).bit_length()
            count, total = sums.get(place, (0, 0.0))
            sums[place] = count + nets, total + nets * ns
    return {place: (count, total / count) for place, (count, total) in sorted(sums.items())}
