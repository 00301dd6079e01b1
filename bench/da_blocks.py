# SPDX-License-Identifier: Apache-2.0
"""The time that da4ml takes to factor a matrix of constants, and the adders it finds, by block size.

python -m bench.da_blocks [--inputs 200] [--outputs 100] [--bits 16] [BLOCK ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from hypersonic.hls.da.cmvm import BLOCK, factored
from hypersonic.hls.da.graph import Add, AdderGraph

_INPUT = -(1 << 17), (1 << 17) - 1


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each block size, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "blocks", nargs="*", type=int, default=[16, 32, BLOCK, 100], metavar="BLOCK", help="most rows and columns of a block"
    )
    parser.add_argument("--inputs", type=int, default=200, help="rows of the matrix (default: 200)")
    parser.add_argument("--outputs", type=int, default=100, help="columns of the matrix (default: 100)")
    parser.add_argument("--bits", type=int, default=16, help="bits of a weight, uniformly distributed (default: 16)")
    asked = parser.parse_args(argv)
    high = 1 << (asked.bits - 1)
    weight = np.random.default_rng(1).integers(-high, high, (asked.inputs, asked.outputs))
    sys.stdout.write("| block | seconds of processor time | adders |\n| --- | --- | --- |\n")
    for block in sorted(asked.blocks):
        graph = AdderGraph()
        x = [graph.input(i, *_INPUT) for i in range(asked.inputs)]
        begin = time.process_time()
        factored(graph, "dense", x, weight, block)
        adders = sum(isinstance(node.operation, Add) for node in graph.nodes)
        sys.stdout.write(f"| {block} | {time.process_time() - begin:.1f} | {adders:,} |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
