# SPDX-License-Identifier: Apache-2.0
"""The ledger: a JSON file with what each design takes and, for each seed, what its routing gave."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hypersonic.sim.timing.designs import Design
from hypersonic.sim.timing.results import Counts

LEDGER = Path(__file__).with_name("ledger.json")

#: the seeds of a full row, and that of the comparison in CI
SEEDS = (1, 2, 3)
COMPARED_SEED = 1

#: the smallest share of the ledger's clock that a changed module may have
LEAST_SHARE = 0.9

#: ends each line that shows a clock
PROXY = "ECP5, a proxy: ranking and growth, no frequency on UltraScale+"


@dataclass(frozen=True)
class Row:
    """A design's figures.

    Attributes:
        key: design_hash of what was routed.
        mhz: seed -> clock of the proxy; without an entry for a seed that was not routed.
    """

    group: str
    key: str
    counts: Counts
    mhz: Mapping[int, float]

    @property
    def median_mhz(self) -> float:
        """The median over the seeds that were routed."""
        return statistics.median(self.mhz.values())

    def line(self, name: str) -> str:
        """The row as text, which says how many seeds stand behind the clock."""
        counts = self.counts
        seeds = "" if len(self.mhz) == len(SEEDS) else f" ({len(self.mhz)} of {len(SEEDS)} seeds)"
        return (
            f"{name:26} {self.median_mhz:6.1f} MHz{seeds}, {counts.luts:,} LUTs, {counts.ffs:,} FFs, {counts.block_rams} block "
            f"RAMs, {counts.multipliers} multipliers, largest fan-out {counts.largest_fan_out:,} ({PROXY})"
        )


def read(file: Path = LEDGER) -> dict[str, Row]:
    """The rows by design. Empty when the file does not exist."""
    kept = json.loads(file.read_text())["designs"] if file.is_file() else {}
    return {
        name: Row(row["group"], row["key"], Counts(**row["counts"]), {int(seed): mhz for seed, mhz in row["mhz"].items()})
        for name, row in kept.items()
    }


def write(rows: Mapping[str, Row], order: Mapping[str, int], tools: Mapping[str, str], file: Path = LEDGER) -> None:
    """Write the rows, one a line.

    Args:
        order: design -> its place; rows of designs that are not in it are dropped.
        tools: name -> version, of the tools of the last row.
    """
    kept = {name: rows[name] for name in sorted(rows.keys() & order.keys(), key=order.__getitem__)}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(row))}" for name, row in kept.items())
    file.write_text(f'{{\n "tools": {json.dumps(dict(tools))},\n "designs": {{\n{lines}\n }}\n}}\n')


def slower(design: Design, row: Row, mhz: float) -> str:
    """The complaint about a design whose clock with COMPARED_SEED has fallen too far; empty if it has not."""
    before = row.mhz.get(COMPARED_SEED)
    if before is None or mhz >= LEAST_SHARE * before:
        return ""
    return (
        f"{design.name}: {mhz:.1f} MHz with seed {COMPARED_SEED}, expected at least {LEAST_SHARE:.0%} of the ledger's "
        f"{before:.1f} MHz ({PROXY}); make it as fast as it was, or, if it has to be slower, update its row with "
        f"python -m hypersonic.sim.timing {design.name}"
    )
