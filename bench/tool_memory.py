# SPDX-License-Identifier: Apache-2.0
"""The memory that Verilator takes for da cores of several sizes, compared with the estimate of hls/bounded/need.py.

python -m bench.tool_memory [--kernel] [NETWORK ...] [--memory 4G]

NETWORK: pool:N, an AveragePooling2D of N x N x 5 numbers; relu:N, N numbers; dense:N:L, L matrices of N x N with weights of 4
bits. --kernel measures the kernel around the core, whose rows are FP32, as for hw_emu. Verilator's figure is its largest
resident set. The last line is a fit of the constants, in the order of need.py, by least squares of the relative differences;
need.py has rounded values near it, none of them negative.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.write import keep_kernel
from hypersonic.hls import verilator
from hypersonic.hls.bounded.memory import limit_bytes
from hypersonic.hls.bounded.need import Rtl
from hypersonic.hls.core import Core
from hypersonic.hls.da.write import write_core
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.attributes import NONE
from hypersonic.hls.network.base import Network, Tensor, Window
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.network.layers.map import Map, MapFunction
from hypersonic.hls.network.layers.pool import Pool, PoolOperation
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.size import size_of
from hypersonic.hls.spec import TensorSpec

_TYPE = FixedPoint(16, 6)
NETWORKS = ("pool:8", "pool:16", "pool:24", "pool:32", "pool:48", "relu:1000", "relu:4000", "dense:32:2", "dense:64:2")
_OPTIONS = (
    "--cc", "-Wno-fatal", "--x-assign", "fast", "--noassert", "--output-split", "60000", "--output-split-cfuncs", "1000",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each network, and the fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--kernel", action="store_true", help="the kernel, not the core alone")
    parser.add_argument("--memory", default="", metavar="SIZE", help="leave out what is estimated to need more")
    asked = parser.parse_args(argv)
    limit, rows, measured = limit_bytes(asked.memory), list[Rtl](), list[int]()
    print("| network | lines | bits in | bits out | Verilator, MB | estimate, MB | factor |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in asked.networks:
        with tempfile.TemporaryDirectory() as directory:
            rtl, files, top = design(name, Path(directory), kernel=asked.kernel)
            if limit is None or rtl.needed_bytes <= limit:
                rows.append(rtl)
                measured.append(verilator_bytes(files, top, Path(directory)))
                _say(name, rtl, measured[-1])
    if len(rows) > len(_terms(rows[0])):
        terms = np.array([_terms(rtl) for rtl in rows]) / np.array(measured)[:, None]
        print("a fit:", ", ".join(f"{value:.3g}" for value in np.linalg.lstsq(terms, np.ones(len(rows)))[0]))
    return 0


def _say(name: str, rtl: Rtl, measured: int) -> None:
    bits_in, bits_out = (sum(side.bits for side in sides) for sides in (rtl.inputs, rtl.outputs))
    factor = measured / rtl.verilator_bytes
    print(
        f"| {name} | {rtl.lines:,} | {bits_in:,} | {bits_out:,} | {measured / 1e6:.0f} | {rtl.verilator_bytes / 1e6:.0f} "
        f"| {factor:.2f} |",
        flush=True,
    )


def _terms(rtl: Rtl) -> tuple[float, ...]:
    """Return the factors of the constants of need.py, in their order."""
    squares = (sum(side.elements * side.bits for side in sides) for sides in (rtl.inputs, rtl.outputs))
    return (1.0, float(rtl.lines), *map(float, squares), *([float(rtl.converters)] if rtl.converters else []))


# A process's largest resident set includes what its parent held when it forked, so a small process starts Verilator.
_MEASURE = """\
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def verilator_bytes(files: Sequence[Path], top: str, directory: Path) -> int:
    """Bytes of Verilator's largest resident set."""
    argv = ["verilator", *_OPTIONS, "--Mdir", str(directory / "obj"), "--top-module", top, *map(str, files)]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *argv], env=verilator.environment(), stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.exit(f"verilator ended with {done.returncode}")
    return int(done.stdout) << 10


def design(name: str, directory: Path, *, kernel: bool) -> tuple[Rtl, Sequence[Path], str]:
    """The size of a network's core or kernel, its files, and the top module."""
    core = write_named(name, directory)
    if not kernel:
        return size_of(name, [core], core.sources), core.sources, core.top
    around = keep_kernel(core)
    files = (*around.lint_waivers, *around.sources)
    return size_of(name, [core], around.sources, kernel=True), files, around.top


def write_named(name: str, directory: Path) -> Core:
    """Write the core of a network such as pool:8 (see the module's description) into `directory`."""
    kind, *sizes = name.split(":")
    network = _MAKERS[kind](*map(int, sizes))
    x, y = (
        Row(tuple(TensorSpec(tensor.name, (tensor.size,), tensor.precision) for tensor in tensors))
        for tensors in (network.inputs, network.outputs)
    )
    return write_core(network, kind, x, y, directory)[0]


def _pool(size: int) -> Network:
    x, y = Tensor("x", (size, size, 5), _TYPE), Tensor("pool", (size // 2, size // 2, 5), _TYPE)
    pool = Pool("pool", x, y, PoolOperation.AVERAGE, Window((2, 2), (2, 2)), FixedPoint(18, 8))
    return Network("pool", (x,), (y,), (pool,))


def _relu(size: int) -> Network:
    x, y = Tensor("x", (size,), _TYPE), Tensor("relu", (size,), _TYPE)
    return Network("relu", (x,), (y,), (Map("relu", x, y, MapFunction.RELU, NONE, NONE),))


def _dense(size: int, count: int) -> Network:
    rng = np.random.default_rng(1)

    def weights() -> NDArray[np.int64]:
        return rng.integers(-8, 8, (size, size))

    tensors = [Tensor(name, (size,), _TYPE) for name in ("x", *(f"dense_{number}" for number in range(count)))]
    zeros, accum = Constants(np.zeros(size, np.int64), 4), FixedPoint(30, 16)
    layers = tuple(Dense(y.name, x, y, Constants(weights(), 4), zeros, accum, 1, 1) for x, y in pairwise(tensors))
    return Network("dense", (tensors[0],), (tensors[-1],), layers)


_MAKERS: dict[str, Callable[..., Network]] = {"pool": _pool, "relu": _relu, "dense": _dense}

if __name__ == "__main__":
    sys.exit(main())
