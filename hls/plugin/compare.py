# SPDX-License-Identifier: Apache-2.0
"""Compares a model that hls4ml has converted, with any of its backends, with the trained one: `hypersonic.hls.compare`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.comparison import Answers, Arrays, Comparison, Named, compared
from hypersonic.hls.frontend.softmax.error import judged_outputs
from hypersonic.hls.model_graph import TensorType, tensor_types


def compare(hls_model: Any, predict: Callable[[Any], Any], rows: Any) -> Comparison:
    """Compare a converted and compiled model with the trained one.

    Print `.lines()` of the result, and ask its outputs for `far_because`.

    Args:
        hls_model: hls4ml's ModelGraph, after compile().
        predict: the trained model, such as Keras' `model.predict`.
        rows: as both take them, `(rows, *shape)`, or a list of such arrays for several inputs.

    Raises:
        UnsupportedLayerError: For inputs or outputs that are not fixed point.
    """
    inputs, outputs = tensor_types(hls_model, wide_outputs=True)
    given = [np.ascontiguousarray(each, np.float32) for each in (rows if isinstance(rows, list | tuple) else [rows])]
    shapes = [each.shape for each in given]
    flat = [_flat(each) for each in given]
    kept = [kind.fixed.to_float(kind.fixed.from_float(each)) for kind, each in zip(inputs, flat, strict=True)]

    def of_model(numbers: Arrays) -> Arrays:
        shaped = [part.astype(np.float32).reshape(shape) for part, shape in zip(numbers, shapes, strict=True)]
        return _arrays(predict(shaped if len(shaped) > 1 else shaped[0]), len(flat[0]))

    got = _arrays(hls_model.predict(given if len(given) > 1 else given[0]), len(flat[0]))
    judged = judged_outputs(hls_model)
    named = [Named(kind.layer, kind.fixed, judged=each) for kind, each in zip(outputs, judged, strict=True)]
    return compared("given", _named(inputs), named, flat, Answers(kept, got, got), of_model)


def _named(kinds: Sequence[TensorType]) -> list[Named]:
    return [Named(kind.layer, kind.fixed) for kind in kinds]


def _arrays(answers: Any, rows: int) -> list[NDArray[np.float64]]:
    return [_flat(np.asarray(each).reshape(rows, -1)) for each in (answers if isinstance(answers, list | tuple) else [answers])]


def _flat(numbers: NDArray[Any]) -> NDArray[np.float64]:
    return numbers.reshape(len(numbers), -1).astype(np.float64)
