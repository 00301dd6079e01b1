# SPDX-License-Identifier: Apache-2.0
"""Kernels around an rf core, for tests that look at what is around it: rows in beats, memory files, no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.hls.rf.layers import WeightsIn
from hypersonic.hls.row import Row
from hypersonic.sim.bench_core import bench_core_wire
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench

NAME = "rf_kernel"


class Model(NamedTuple):
    """reuse_factor: of the network's layers; whole_row_bits: rows up to so many bits pass in one beat; weights_in: of each
    input's layer."""

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
        """So many random rows as bytes, and the bytes that must come of them."""
        data = np.random.default_rng(seed).integers(0, 256, count * self.x.row_bytes, dtype=np.uint8)
        return data, self.y.encode(bench_core_wire(self.x.decode(data), self.x, self.y))


#: an image, numbers and a list beside it, each in beats of its own; the result in beats too
SEVERAL = Model(*rf_bench_rows(((8, 6), "FP32"), ((15,), "INT8"), ((7, 6), "FP16"), n_out=6, datatype="INT16"), 12, 0)

#: the same with the weights of each input elsewhere
EVERYWHERE = SEVERAL._replace(weights_in=(WeightsIn.URAM, WeightsIn.DRAM))

#: rows that come in one beat and leave in several
WHOLE_IN = Model(*rf_bench_rows(((4, 3), "FP32"), n_out=32), 12, 300)

#: as most networks are: an image in beats, a whole row of results
WHOLE_OUT = Model(*rf_bench_rows(((16, 4), "FP32"), n_out=3), 16, 300)
