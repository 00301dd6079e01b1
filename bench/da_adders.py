# SPDX-License-Identifier: Apache-2.0
"""The adders of the da core for a zoo model's dense layers, compared with those that da4ml finds for each layer as a whole.

python -m bench.da_adders [MODEL] [--bits 8] [--core-only]

The da core splits a matrix that takes da4ml too long (hls/da/cmvm.py); da4ml's own flow does not. The options are the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.da import cmvm
from hypersonic.hls.da.cmvm import WORK, factored
from hypersonic.hls.da.graph import Add, AdderGraph
from hypersonic.hls.frontend.description import ZOO

_INPUT = -(1 << 11), (1 << 11) - 1
_WHOLE = 1 << 62  # an amount of work that no matrix exceeds


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each layer, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="facile_v2_da", help="a zoo model with an .h5 file (default: facile_v2_da)")
    parser.add_argument("--bits", type=int, default=8, help="bits of a weight, of which one is the sign (default: 8)")
    parser.add_argument("--core-only", action="store_true", help="leave out da4ml's own flow, which can take an hour")
    asked = parser.parse_args(argv)
    _say("| layer | weights | adders of the core | seconds | adders of da4ml | seconds | ratio |")
    _say("| --- | --- | --- | --- | --- | --- | --- |")
    both = 0, 0
    for name, weight in _matrices(ZOO / asked.model / f"{asked.model}.h5", asked.bits):
        ours, seconds = _adders(weight, WORK)
        whole, longer = (0, 0.0) if asked.core_only else _adders(weight, _WHOLE)
        both = both[0] + ours, both[1] + whole
        _say(
            f"| {name} | {weight.shape[0]} x {weight.shape[1]} | {ours:,} | {seconds:.1f} | {whole:,} | {longer:.1f} "
            f"| {_ratio(ours, whole)} |"
        )
    _say(f"| all | | {both[0]:,} | | {both[1]:,} | | {_ratio(*both)} |")
    return 0


def _ratio(ours: int, whole: int) -> str:
    return f"{ours / whole:.3f}" if whole else "-"


def _matrices(file: Path, bits: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The kernels (inputs, outputs) of dense layers, largest magnitude below 1, as integers of `bits` bits."""
    high = 1 << (bits - 1)
    found: list[tuple[str, NDArray[np.float64]]] = []
    with h5py.File(file) as model:
        model["model_weights"].visititems(
            lambda path, item: found.append((path, item[()])) if path.endswith("kernel:0") and item.ndim == 2 else None
        )
    for path, kernel in sorted(found):
        yield path.split("/")[0], np.clip(np.round(kernel * high), -high, high - 1).astype(np.int64)


def _adders(weight: NDArray[np.int64], work: int) -> tuple[int, float]:
    """The adders for x @ weight, and seconds of processor time."""
    graph = AdderGraph()
    x = [graph.input(i, *_INPUT) for i in range(len(weight))]
    cmvm._solution.cache_clear()  # otherwise the cached solution is returned and the time is zero
    begin = time.process_time()
    factored(graph, "dense", x, weight, work)
    return sum(isinstance(node.operation, Add) for node in graph.nodes), time.process_time() - begin


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
