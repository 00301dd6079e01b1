# SPDX-License-Identifier: Apache-2.0
"""The cost of turning columns into rows, and the speed of reading files, on one core.

    python -m bench.columns [--rows 16000] [--events 20] [--rounds 200] [--kind ttree ...]

The first table is for FACILE's 18 features: the time, and its ratio to `numpy.copyto` of the same bytes in the same run. The
second one is for generated files with FACILE's columns: decompression, columns to rows, and both together.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from hypersonic.client.columns import Chunk, Column, ColumnMapping, open_source, parse_mapping, read_mapping
from hypersonic.client.columns.opening import SUFFIXES
from hypersonic.client.columns.rows import make_rows
from hypersonic.events.hcal_file import write_events

_FLOAT = np.dtype(np.float32)
_FEATURES = 18


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16_000, help="rows of the first table (default: 16000)")
    parser.add_argument("--events", type=int, default=20, help="events of each file (default: 20)")
    parser.add_argument("--rounds", type=int, default=200, help="number of rounds, of which the fastest counts (default: 200)")
    parser.add_argument("--kind", action="append", choices=list(SUFFIXES), help="a kind of file (default: all)")
    asked = parser.parse_args(argv)
    _rows(asked.rows, asked.rounds)
    _files(asked.kind or list(SUFFIXES), asked.events)
    return 0


def _rows(rows: int, rounds: int) -> None:
    rng = np.random.default_rng(1)
    names = ["ieta", "iphi", "hypersonic_gain", *(f"fc{i}" for i in range(8)), "depth", "valid"]
    values = {name: rng.random(rows, np.float32) for name in names}
    values |= {name: rng.integers(1, 8, rows).astype(np.int32) for name in ("ieta", "iphi", "depth")}
    values["valid"] = np.ones(rows, np.bool_)
    values["rows"] = rng.random((rows, _FEATURES), np.float32)
    counts = np.array([rows], np.int64)
    chunk = Chunk(0, 1, {f"DigiHB_{name}": Column(each, counts) for name, each in values.items()})
    plain = "{collection: DigiHB, features: [ieta, iphi, hypersonic_gain, fc0..fc7, {one_hot: depth, values: 1..7}]}"
    block = f"{{collection: DigiHB, features: [{{block: rows, width: {_FEATURES}}}]}}"
    cases: dict[str, ColumnMapping] = {
        "column by column": parse_mapping(plain),
        "the same, filtered and checked for NaN": read_mapping("facile"),
        "one block": parse_mapping(block),
    }
    into, source = np.empty((rows, _FEATURES), np.float32), values["rows"]
    copies = [lambda: np.copyto(into, source)]
    made = [lambda mapping=mapping: make_rows(mapping, chunk, _FLOAT, "") for mapping in cases.values()]
    copy, *times = _fastest([*copies, *made], rounds)
    sys.stdout.write(f"| {rows:,} rows of {_FEATURES} FP32 | us | / numpy.copyto |\n| --- | --- | --- |\n")
    for name, seconds in zip(["numpy.copyto", *cases], [copy, *times], strict=True):
        sys.stdout.write(f"| {name} | {seconds * 1e6:.0f} | {seconds / copy:.2f} |\n")


def _fastest(functions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Seconds of each function's fastest call. They take turns, so that all see the same machine."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for place, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            best[place] = min(best[place], time.perf_counter() - begin)
    return best


def _files(kinds: Sequence[str], events: int) -> None:
    mapping = read_mapping("facile")
    sys.stdout.write("\n| file | MB | rows | read, rows/s | to rows, rows/s | both, MB of rows/s |\n|" + " --- |" * 6 + "\n")
    with tempfile.TemporaryDirectory() as scratch:
        for kind in kinds:
            path = Path(scratch) / f"events{SUFFIXES[kind]}"
            rows = write_events(path, events=events, seed=1, kind=kind)
            read, convert = _reading(path, mapping)
            both = rows * _FEATURES * 4 / (read + convert) / 1e6
            size = path.stat().st_size / 1e6
            sys.stdout.write(f"| {kind} | {size:.1f} | {rows:,} | {rows / read:,.0f} | {rows / convert:,.0f} | {both:,.0f} |\n")
            sys.stdout.flush()
            path.unlink()


def _reading(path: Path, mapping: ColumnMapping) -> tuple[float, float]:
    """Seconds of reading a file and of making its rows; the fastest of three times each."""
    read, convert = [], []
    for _ in range(3):
        with closing(open_source(path)) as source:
            begin = time.perf_counter()
            chunks = list(source.chunks(mapping.columns, 64 << 20))
            read.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            for chunk in chunks:
                make_rows(mapping, chunk, _FLOAT, "")
            convert.append(time.perf_counter() - begin)
    return min(read), min(convert)


if __name__ == "__main__":
    sys.exit(main())
