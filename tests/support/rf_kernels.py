# SPDX-License-Identifier: Apache-2.0
"""Kernels around an rf core, for tests of the shell around the core: rows in beats, memory files. They need no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.row import Row
from hypersonic.sim.bench_core import bench_core_wire
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench

NAME = "rf_kernel"


class Model(NamedTuple):
    """A network in an rf core.

    reuse_factor: of every layer. whole_row_bits: rows of at most so many bits pass in one beat. weights_in: the memory that
    holds the weights of each input's layer.
    """

    x: Row
    y: Row
    reuse_factor: int
    whole_row_bits: int
    weights_in: tuple[WeightsIn, ...] = ()

    def kernel(self, directory: Path) -> Kernel:
        core = write_rf_bench(
            self.x, self.y, directory / "core", name=NAME, reuse_factor=self.reuse_factor, whole_row_bits=self.whole_row_bits,
            weights_in=self.weights_in,
        )  # fmt: skip
        return write_kernel(core, directory)

    def rows(self, count: int, seed: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """`count` random rows as bytes, and the bytes that the kernel must return for them."""
        data = np.random.default_rng(seed).integers(0, 256, count * self.x.row_bytes, dtype=np.uint8)
        return data, self.y.encode(bench_core_wire(self.x.decode(data), self.x, self.y))


#: an image, a vector and a list, each in its own beats; the result also takes several beats
SEVERAL = Model(*rf_bench_rows(((8, 6), "FP32"), ((15,), "INT8"), ((7, 6), "FP16"), n_out=6, datatype="INT16"), 12, 0)

#: the same kernel with the weights of each input in a different memory
EVERYWHERE = SEVERAL._replace(weights_in=(WeightsIn.URAM, WeightsIn.DRAM))

#: rows that enter in one beat and leave in several
WHOLE_IN = Model(*rf_bench_rows(((4, 3), "FP32"), n_out=32), 12, 300)

#: like most networks: an image in several beats in, a whole row out
WHOLE_OUT = Model(*rf_bench_rows(((16, 4), "FP32"), n_out=3), 16, 300)

#: a small network whose weights and biases are all loaded at run time
LOADED = Model(*rf_bench_rows(((15,), "INT8"), n_out=6, datatype="INT16"), 3, 0, (WeightsIn.LOADED,))
