# SPDX-License-Identifier: Apache-2.0
"""A trained model as the conversion sees it, whatever wrote the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainedModel:
    """input, output: layer names. shape: of one input row. config: hls4ml's, granularity "name".

    predict: (rows, *shape) float32 -> (rows, n_out) float64, by the framework that trained it.
    linear: (layer, the layer before it) for every quantiser that is no layer of arithmetic of its own.
    convert: (config, directory, project name, part) -> hls4ml's ModelGraph, after its optimisers.
    """

    input: str
    output: str
    shape: tuple[int, ...]
    config: dict[str, Any]
    predict: Callable[[NDArray[np.float32]], NDArray[np.float64]]
    convert: Callable[[dict[str, Any], Path, str, str], Any]
    linear: tuple[tuple[str, str], ...] = ()
