# SPDX-License-Identifier: Apache-2.0
"""A trained model as the conversion needs it, independent of the framework and file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ModelTensor:
    """An input or output of the model.

    Attributes:
        name: the model's.
        layer: hls4ml's name of its layer.
        shape: of one row.
        channels_first: the model's file has the last axis of `shape` as its first one.
    """

    name: str
    layer: str
    shape: tuple[int, ...]
    channels_first: bool = False

    @property
    def size(self) -> int:
        """Elements of one row."""
        return prod(self.shape)


@dataclass(frozen=True)
class LayerFacts:
    """A layer of the model, by hls4ml's names.

    Attributes:
        name: of the layer with the weights.
        result: of the layer that gives the result, another one where hls4ml makes a layer of an activation.
        kind: the framework's class.
        weights: by hls4ml's names of weights.
        followed_by: the class of the layer that alone reads this one and to which hls4ml may give its work or its type; ""
            otherwise.
        activation: the framework's name.
        classes: the size of the result's last axis.
    """

    name: str
    result: str
    kind: str
    weights: Mapping[str, NDArray[np.float64]]
    followed_by: str = ""
    activation: str = ""
    classes: int = 1


@dataclass(frozen=True)
class TrainedModel:
    """A loaded model, with the functions that run it and convert it.

    Attributes:
        inputs, outputs: in the model's order.
        config: hls4ml's proposed configuration, granularity "name".
        predict: runs the model in its framework: `(rows, *shape)` float32 for each input -> (rows, size) float64 for each
            output.
        convert: (config, directory, project name, part, io_type) -> hls4ml's ModelGraph, after its optimisers, with inputs and
            outputs in the model's order.
        linear: (layer, the layer before it) for every quantiser that only changes the type and does no arithmetic.
        branching: the same pairs where the layer before has other readers too, so that hls4ml may drop the quantiser.
        fused: (normalisation, the dense layer before it) for every pair that hls4ml may fuse into one layer.
        parameters: the number of parameters, including statistics such as a batch norm's; -1 if the format does not contain it.
        names: hls4ml's name of a layer by the model's, where they differ.
        origins: the file's name of a layer by the model's, where a file names its nodes (see origins.py).
        notes: changes to the model before hls4ml reads it, as lines for the report.
        layers: gives the facts of each layer in the model's order; None if the front end does not know them (QONNX).
        results: rows as for predict -> each layer's result by hls4ml's name, float64 (rows, ...); None for the same front end.
            Under its name plus ":state", other numbers that have the type of the layer's result.
    """

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    config: dict[str, Any]
    predict: Callable[[Sequence[NDArray[np.float32]]], tuple[NDArray[np.float64], ...]]
    convert: Callable[[dict[str, Any], Path, str, str, str], Any]
    linear: tuple[tuple[str, str], ...] = ()
    branching: tuple[tuple[str, str], ...] = ()
    fused: tuple[tuple[str, str], ...] = ()
    parameters: int = -1
    names: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    layers: Callable[[], tuple[LayerFacts, ...]] | None = None
    results: Callable[[Sequence[NDArray[np.float32]]], dict[str, NDArray[np.float64]]] | None = None
