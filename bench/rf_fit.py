# SPDX-License-Identifier: Apache-2.0
"""Prints the designs that `hypersonic build --fit` chooses for the zoo's models, as the table of docs/rf-fit.md.

It converts the models and simulates nothing. With --dies, the plan over the dies follows, for units over several.

python -m bench.rf_fit [MODEL ...] [--card u250] [--fill 80] [--dies]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersonic.building.fit.card import FILL_PERCENT, FitOptions
from hypersonic.hls.build import build_project
from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.resources import LABELS
from hypersonic.hls.rf.fit.design import Fit
from hypersonic.hls.rf.fit.exchange import fit_from_json
from hypersonic.hls.rf.fit.text import die_lines

_MODELS = ("jets", "facile_v2", "resnet8", "deepcalo", "emtrk", "deepmet", "deepclean", "resnet50")
_COLUMNS = (
    "network",
    "clocks a row",
    "units",
    "inferences/s",
    "limited by",
    "fullest",
    f"layers with weights in {', '.join(WeightsIn)}",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=_MODELS, metavar="MODEL", help="a zoo name")
    parser.add_argument("--card", default="u250", help="card to fill (default: u250)")
    parser.add_argument(
        "--fill", type=int, default=FILL_PERCENT, metavar="PERCENT", help="most of the card to fill, in per cent (default: 80)"
    )
    parser.add_argument("--dies", action="store_true", help="print the stages of units over several dies, too")
    asked = parser.parse_args(argv)
    card = FitOptions(asked.card, asked.fill).as_json()
    sys.stdout.write(f"{_line(_COLUMNS)}{_line(['---'] * len(_COLUMNS))}")
    plans = list[str]()
    for model in asked.models:
        with tempfile.TemporaryDirectory() as scratch:
            project, _ = build_project(model, Path(scratch) / "project", core="rf", card=card)
        best = fit_from_json(project.report["fit"])
        sys.stdout.write(_line(_cells(model, best, project.report)))
        sys.stdout.flush()
        plans += [
            "",
            f"{model}, {best.latency_cycles:,} clocks from a row to its result:",
            *die_lines(best),
        ] * best.chosen.design.spans
    sys.stdout.write("\n".join([*plans, ""]) if asked.dies else "")
    return 0


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cells(model: str, best: Fit, report: Mapping[str, Any]) -> list[str]:
    point, places = best.chosen, [layer.weights_in for layer in best.layers]
    if report["core"]["ii"] != point.design.interval:
        raise SystemExit(f"{model}: the plan has {report['core']['ii']} clocks per row, the search {point.design.interval}")
    return [
        model,
        f"{point.design.interval:,}",
        f"{point.units}, over several dies" if point.design.spans else str(point.units),
        f"{point.rate_hz:,.0f}",
        point.bound,
        f"{LABELS[point.kind]} {point.fullest:.0%}",
        ", ".join(str(places.count(place)) for place in WeightsIn),
    ]


if __name__ == "__main__":
    sys.exit(main())
