# SPDX-License-Identifier: Apache-2.0
"""Routes designs on an ECP5 and keeps the ledger:

python -m hypersonic.sim.timing [DESIGN ..] [--group GROUP] [--seeds N ..] [--changed] [--no-write] [--path] [--rank]

Without a design, all of them. --changed leaves out those whose row in the ledger is of the present RTL and has these seeds.
--rank prints afterwards how the delay model ranks all designs of the ledger, and the delays of the router's wires by fan-out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from hypersonic.firmware.errors import FirmwareError
from hypersonic.firmware.pyosys import tool_version
from hypersonic.firmware.yowasp import NEXTPNR_ECP5
from hypersonic.hls.errors import ToolError
from hypersonic.sim.timing import ledger
from hypersonic.sim.timing.designs import GROUPS, Design, designs, find
from hypersonic.sim.timing.ledger import PROXY, SEEDS, Row
from hypersonic.sim.timing.rank import LEAST_CORRELATION, ranked, spearman, wire_curve
from hypersonic.sim.timing.results import Routed
from hypersonic.sim.timing.route import design_hash, mapped, routed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each design that was asked for. Returns 1 when one could not be routed."""
    given = _parser().parse_args(arguments)
    try:
        chosen = [find(name) for name in given.designs] or [one for one in designs() if given.group in {None, one.group}]
    except FirmwareError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    failed = False
    for design in chosen:
        if given.changed and is_current(design, given.seeds):
            continue
        try:
            print_row(design, given.seeds, write=given.write, path=given.path)
        except (FirmwareError, ToolError) as error:
            failed = True
            sys.stderr.write(f"{design.name}: {error}\n")
    if given.rank:
        sys.stdout.writelines(rank_lines())
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hypersonic.sim.timing", description="Route modules on an ECP5.")
    parser.add_argument("designs", nargs="*", metavar="DESIGN", help="names of sim/timing/modules.toml (default: all)")
    parser.add_argument("--group", choices=GROUPS, help="all designs of one group")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), metavar="N", help="seeds (default: 1 2 3)")
    parser.add_argument("--changed", action="store_true", help="leave out designs whose row is up to date")
    parser.add_argument("--no-write", dest="write", action="store_false", help="print, and do not change the ledger")
    parser.add_argument("--path", action="store_true", help="print the longest path of the first seed too")
    parser.add_argument("--rank", action="store_true", help="compare the delay model with the ledger")
    return parser


def is_current(design: Design, seeds: Iterable[int]) -> bool:
    """Whether the ledger's row is of the present RTL and has these seeds."""
    row = ledger.read().get(design.name)
    return row is not None and row.key == design_hash(design) and set(seeds) <= row.mhz.keys()


def print_row(design: Design, seeds: Sequence[int], *, write: bool, path: bool) -> None:
    """Route a design with these seeds, print its row and put it into the ledger, where other seeds of the same RTL stay."""
    key, (counts, _) = design_hash(design), mapped(design)
    results = {seed: routed(design, seed) for seed in seeds}
    rows = ledger.read()
    before = rows.get(design.name)
    known = before.mhz if before and before.key == key else {}
    mhz = {**known, **{seed: round(result.mhz, 1) for seed, result in results.items()}}
    row = Row(design.group, key, counts, dict(sorted(mhz.items())))
    earlier = f", before {before.median_mhz:.1f} MHz" if before and before.key != key else ""
    sys.stdout.write(f"{row.line(design.name)}{earlier}\n")
    if path:
        sys.stdout.writelines(path_lines(results[seeds[0]]))
    sys.stdout.flush()
    if write:
        tools = {"pyosys": tool_version(), NEXTPNR_ECP5.wheel: NEXTPNR_ECP5.versions[0]}
        places = {one.name: place for place, one in enumerate(designs())}
        ledger.write({**rows, design.name: row}, places, tools)


def rank_lines() -> Iterable[str]:
    """How the delay model ranks the designs whose row is up to date, and the router's wires."""
    rows, known = ledger.read(), designs()
    found = list(ranked(rows, known))
    for name, model_ns, proxy_ns in sorted(found, key=lambda each: each[2], reverse=True):
        yield f"{name:26} model {model_ns:5.2f} ns, router {proxy_ns:5.2f} ns ({PROXY})\n"
    if len(found) > 1:
        value = spearman([model_ns for _, model_ns, _ in found], [proxy_ns for *_, proxy_ns in found])
        yield f"rank correlation of model and router over {len(found)} designs: {value:.2f}, wanted {LEAST_CORRELATION}\n"
    named = {name for name, *_ in found}
    if lacking := [design.name for design in known if design.name not in named]:
        yield f"without a row of their present RTL: {', '.join(lacking)}\n"
    if few := sorted(name for name in named if rows[name].mhz.keys() < set(SEEDS)):
        yield f"with fewer than {len(SEEDS)} seeds: {', '.join(few)}\n"
    curve = wire_curve(routed(one, min(rows[one.name].mhz)) for one in known if one.name in named)
    for fan_out, (nets, ns) in curve.items():
        yield f"wires to {fan_out:5,} inputs or fewer: {ns:.2f} ns to the slowest, mean of {nets:,} nets ({PROXY})\n"


def path_lines(result: Routed) -> Iterable[str]:
    """The pieces of the longest path that take time, a line for each."""
    for step in result.path:
        if step.ns:
            net = f" {step.net} (fan-out {step.fan_out:,})" if step.net else ""
            yield f"  {step.ns:6.3f} ns {step.kind}{net}\n"


if __name__ == "__main__":
    raise SystemExit(main())
