# SPDX-License-Identifier: Apache-2.0
"""hls4ml's C++ of a small network, compiled and called with raw integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.fixed import Overflow
from hypersonic.hls.network.base import Network
from hypersonic.hls.project import HlsProject


def golden(path: Path, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """path: the project. x_raw: (rows, elements of all inputs) -> (rows, elements of all outputs)."""
    project = HlsProject.load(path)  # -O0 where numbers are few: most of the time goes into the compiler
    return Csim(compile_csim(project, optimisation="-O0"), project).predict_raw(x_raw)


def random_rows(network: Network, count: int, seed: int) -> NDArray[np.int64]:
    """Half of them anywhere in the range, half near zero, and both ends."""
    rng, parts = np.random.default_rng(seed), []
    for tensor in network.inputs:
        low, high = tensor.precision.min_raw, tensor.precision.max_raw
        low += tensor.precision.overflow is Overflow.SAT_SYM  # which the type cannot hold
        x = rng.integers(low, high, (count, tensor.size), endpoint=True)
        x[count // 2 :] >>= rng.integers(0, tensor.precision.width, (count - count // 2, 1))
        x[0], x[1] = low, high
        parts.append(x)
    return np.concatenate(parts, axis=1)
