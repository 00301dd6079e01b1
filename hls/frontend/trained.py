# SPDX-License-Identifier: Apache-2.0
"""A trained model as the conversion sees it, whatever wrote the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tensor:
    """An input or output of the model. name: the model's own word. layer: hls4ml's, whose result it is. shape: of one row."""

    name: str
    layer: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of one row."""
        return prod(self.shape)


@dataclass(frozen=True)
class TrainedModel:
    """inputs, outputs: in the model's order. config: hls4ml's, granularity "name".

    predict: (rows, *shape) float32 for each input -> (rows, size) float64 for each output, by the framework that trained it.
    linear: (layer, the layer before it) for every quantiser that is no layer of arithmetic of its own.
    branching: the same where that layer's numbers have other readers too, and hls4ml may drop the quantiser.
    fused: (normalisation, the dense layer before it) for every pair that hls4ml may make one layer of.
    parameters: how many numbers were trained (and kept, as a batch norm's statistics are); -1: the format does not tell.
    names: the model's name of a layer -> hls4ml's, where they differ.
    notes: what was done to the model before hls4ml reads it, in lines for the report.
    convert: (config, directory, project name, part, io_type) -> hls4ml's ModelGraph, after its optimisers, inputs and outputs
    in the model's order.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    config: dict[str, Any]
    predict: Callable[[Sequence[NDArray[np.float32]]], tuple[NDArray[np.float64], ...]]
    convert: Callable[[dict[str, Any], Path, str, str, str], Any]
    linear: tuple[tuple[str, str], ...] = ()
    branching: tuple[tuple[str, str], ...] = ()
    fused: tuple[tuple[str, str], ...] = ()
    parameters: int = -1
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
