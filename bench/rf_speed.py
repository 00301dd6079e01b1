# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of Verilated rf cores with that of hls4ml's C++ on the same rows, in CPU time of one thread.

    python -m bench.rf_speed [--model facile=16000 ...] [--dense 1024 ...]

A model's line has the CPU microseconds per row of csim and of the Verilated core, and their ratio (above 1: the core is
faster). All integers are compared first. facile is also measured as hls4ml itself compiles it (build_lib.sh), with one call per
row; csim is the same C++ without a `volatile`. A dense layer's line has the million multiply-accumulates per second of CPU
time, for a square layer of that size.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.build import build_project
from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.fixed import Constants, FixedPoint
from hypersonic.hls.network.base import Network, Tensor
from hypersonic.hls.network.layers.dense import Dense
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.rtl.simulate import RtlCore
from hypersonic.hls.spec import TensorSpec

#: makes a type from its width and its number of fraction bits
fixed_point = FixedPoint.with_fraction

#: the number of multipliers of the dense layers, which determines the reuse factor
_MULTIPLIERS = 512
_BITS = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Print the lines; return 1 if an integer differs from csim's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", metavar="NAME=ROWS", help="a zoo name (default: facile and facile_v2)")
    parser.add_argument("--dense", type=int, action="append", metavar="SIZE", help="a square layer (default: 512 and 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, of which the fastest counts (default: 3)")
    asked = parser.parse_args(argv)
    for model in asked.model or ["facile=16000", "facile_v2=2000"]:
        name, _, rows = model.partition("=")
        if not _model(name, int(rows or 1000), asked.rounds):
            return 1
    for size in asked.dense or [512, 1024]:
        _dense(size, asked.rounds)
    return 0


def _model(name: str, rows: int, rounds: int) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        project, core = build_project(name, Path(scratch) / "project", core="rf")
        csim = Csim(compile_csim(project), project)
        x = _raw(project.inputs, rows)
        if core is None:
            return False
        with RtlCore(core) as rtl:
            if (wrong := np.argwhere(rtl.predict_raw(x) != csim.predict_raw(x))).size:
                sys.stderr.write(f"{name}: the core differs from csim, first in row {wrong[0][0]}\n")
                return False
            cpp = min(_seconds(lambda: csim.predict_raw(x)) for _ in range(rounds))
            verilated = min(_seconds(lambda: rtl.predict_raw(x)) for _ in range(rounds))
        each, own = 1e6 / rows, ""
        if name == "facile":
            seconds = _seconds_of_hls4ml(project, Path(scratch) / "own", x)
            own = f"   hls4ml's own build {seconds * each:6.2f} us, / rf {seconds / verilated:6.2f}"
        sys.stdout.write(
            f"{name:<12} {rows:>7,} rows, all equal   csim {cpp * each:9.2f} us   rf, {core.ii} clocks per row "
            f"{verilated * each:9.2f} us   csim / rf {cpp / verilated:6.2f}{own}\n"
        )
    return True


def _seconds_of_hls4ml(project: HlsProject, directory: Path, x_raw: NDArray[np.int64]) -> float:
    """CPU seconds of hls4ml's own library for the rows, called as its predict() does: with floats, row by row."""
    shutil.copytree(project.hls, directory)
    subprocess.run(["bash", "build_lib.sh"], cwd=directory, check=True)
    (library,) = (directory / "firmware").glob("*.so")
    function = getattr(ctypes.CDLL(str(library)), f"{project.name}_float")
    (source,), (sink,) = project.inputs.tensors, project.outputs.tensors
    rows = np.ascontiguousarray(source.fixed.to_float(x_raw).astype(np.float32))
    y = np.zeros(sink.size, dtype=np.float32)
    pointers = [ctypes.c_void_p(row.ctypes.data) for row in rows]
    into = ctypes.c_void_p(y.ctypes.data)

    def predict() -> None:
        for pointer in pointers:
            function(pointer, into)

    return _seconds(predict)


def _dense(size: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        core = dense_core(size, Path(scratch))
        rows = max(2, 100_000_000 // (size * size))
        x = _raw(core.inputs, rows)
        with RtlCore(core) as rtl:
            seconds = min(_seconds(lambda: rtl.predict_raw(x)) for _ in range(rounds))
    rate = rows * size * size / seconds / 1e6
    sys.stdout.write(f"dense {size} x {size}, {_BITS} bits, {_MULTIPLIERS} multipliers: {rate:,.0f} M multiply-accumulates/s\n")


def dense_core(size: int, directory: Path) -> Core:
    """Write the rf core of a square dense layer with random weights into `directory`."""
    rng, fixed = np.random.default_rng(size), FixedPoint(_BITS, 4)
    narrow, wide = fixed_point(_BITS, _BITS - 4, signed=True), fixed_point(2 * _BITS + size.bit_length(), 8, signed=True)
    x, y = Tensor("x", (size,), narrow), Tensor("y", (size,), narrow)
    weight = Constants(rng.integers(-128, 128, (size, size)), 4)
    reuse = size * size // _MULTIPLIERS
    layer = Dense("dense", x, y, weight, Constants(np.zeros(size, dtype=np.int64), 8), wide, reuse, reuse)
    row_x, row_y = (Row((TensorSpec(name, (size,), fixed),)) for name in ("x", "y"))
    network = Network(f"dense_{size}", (x,), (y,), (layer,))
    return write_rf_core(network, f"dense_{size}", row_x, row_y, directory)[0]


def _raw(row: Row, rows: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    limits = (
        (-1 << (t.fixed.width - 1), 1 << (t.fixed.width - 1)) if t.fixed.signed else (0, 1 << t.fixed.width)
        for t in row.tensors
    )
    parts = [rng.integers(*limit, (rows, tensor.size)) for limit, tensor in zip(limits, row.tensors, strict=True)]
    return np.concatenate(parts, axis=1)


def _seconds(work: Callable[[], object]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


if __name__ == "__main__":
    raise SystemExit(main())
