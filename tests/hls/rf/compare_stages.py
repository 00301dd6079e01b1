# SPDX-License-Identifier: Apache-2.0
"""Costs by the rules of hls/rf/stages/ beside what Yosys made of the same stages (stages.jsonl, by measure_stages.py).

`python -m tests.hls.rf.compare_stages` prints the table of docs/rf-fit.md. Memories that files fill are left out of both.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf import cost
from hypersonic.hls.rf.registry import stage_cost
from hypersonic.hls.rf.stage import Stage, Stream, Timing
from hypersonic.hls.rf.stages import softmax

MEASURED = [json.loads(line) for line in (Path(__file__).parent / "stages.jsonl").read_text().splitlines()]


def predicted(line: Mapping[str, Any]) -> Amounts:
    """The cost of a measured stage by the rules."""
    inputs, outputs = [
        tuple(
            Stream(f"{side}{at}", FixedPoint.with_fraction(width, 2), lanes, beats)
            for at, (lanes, width, beats) in enumerate(line[side])
        )
        for side in ("inputs", "outputs")
    ]
    stage = Stage("s", line["module"], "s", line["parameters"], inputs, outputs, Timing((), 0, 0, 0))
    # rf_table and rf_softmax know their memories by parameters
    with patch.object(cost, "rom_cost", _nothing), patch.object(softmax, "rom_cost", _nothing):
        return stage_cost(stage)


def _nothing(_words: int, _width: int) -> Amounts:
    return NOTHING


def table() -> Iterator[str]:
    """A row for each module, and one for all, in Markdown."""
    by_module = defaultdict[str, list[tuple[Amounts, Amounts]]](list)
    for line in MEASURED:
        by_module[line["module"]].append((predicted(line), Amounts(**line["taken"])))
    yield "| module | stages | rule : Yosys, LUT | FF | DSP48E2 |"
    yield "|---|---|---|---|---|"
    for module, pairs in sorted(by_module.items()):
        equal = "equal" if all(rule.dsp == taken.dsp for rule, taken in pairs) else "differs"
        yield f"| `{module}` | {len(pairs)} | {_range(pairs, 'lut')} | {_range(pairs, 'ff')} | {equal} |"
    whole = [pair for pairs in by_module.values() for pair in pairs]
    rule, taken = (sum(side, NOTHING) for side in zip(*whole, strict=True))
    yield f"| all | {len(whole)} | {rule.lut / taken.lut:.2f} | {rule.ff / taken.ff:.2f} | {rule.dsp:.0f} : {taken.dsp:.0f} |"


def _range(pairs: list[tuple[Amounts, Amounts]], kind: str) -> str:
    ratios = [getattr(rule, kind) / getattr(taken, kind) for rule, taken in pairs if getattr(taken, kind)]
    least, most = (f"{bound(ratios, default=1):.2f}" for bound in (min, max))
    return least if least == most else f"{least} to {most}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
