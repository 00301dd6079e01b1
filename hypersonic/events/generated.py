# SPDX-License-Identifier: Apache-2.0
"""Requests of generated events for a served zoo model."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.load.rows import default_count
from hypersonic.client.specs import ModelSpec, TensorSpec

#: the datatypes in which a generator's numbers are sent unchanged; integers would need the model's fixed-point types, unless
#: the generator itself makes the integers that are sent, as for packed rows
_FLOATS = {"FP16", "BF16", "FP32", "FP64"}


def generated_requests(spec: ModelSpec, rows: int, seed: int, *, count: int = 0) -> list[dict[str, NDArray[Any]]] | None:
    """Return `count` requests with events of the zoo model of this name, arrays `(rows, *shape)` by input name.

    None if the zoo has no generator for the model, the compiler side is not installed, or the server's inputs are not the
    generator's.

    Args:
        rows: 0 for those of the model's task, but no more than the model takes.
        count: 0 for as many as random_requests() makes.
    """
    try:
        from hypersonic.hls.zoo.task import NoTaskError, task_of
    except ImportError:
        return None
    try:
        task = task_of(spec.name)
        rows = rows or max(1, min(task.event_rows, spec.max_batch_size))
        count = count or default_count(spec, rows)
        sample = task.sample(rows * count, seed)
    except (NoTaskError, ImportError):
        return None
    sizes = [x.shape[1] for x in sample.inputs]
    fit = sizes == [prod(tensor.shape) for tensor in spec.inputs] and bool(spec.max_batch_size)
    if not fit or not all(map(_sends, spec.inputs, sample.inputs)):
        return None
    order = np.arange(rows * count) % sample.rows  # a generator may make fewer rows
    arrays = {
        tensor.name: x[order].reshape(count, rows, *tensor.shape).astype(tensor.dtype)
        for tensor, x in zip(spec.inputs, sample.inputs, strict=True)
    }
    return [{name: array[place] for name, array in arrays.items()} for place in range(count)]


def _sends(tensor: TensorSpec, x: NDArray[Any]) -> bool:
    """Return whether a generator's numbers can be sent to this input unchanged."""
    return tensor.datatype in _FLOATS or (x.dtype == tensor.dtype and x.dtype.kind == "u")
