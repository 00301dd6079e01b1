# SPDX-License-Identifier: Apache-2.0
"""Runs the user's fallback, and checks its outputs as those of a server are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.attempts.request import Request
from hypersonic.client.errors import AnswerError
from hypersonic.client.fit import check_shape, rows_of, wanted_outputs
from hypersonic.client.messages.elements import converted, from_buffer, to_buffer
from hypersonic.client.settings import Fallback
from hypersonic.client.specs import ModelSpec, TensorSpec


def run_fallback(fallback: Fallback, request: Request) -> dict[str, NDArray[Any]]:
    """Return the outputs that the user's function or local server computes: read-only, and of the model's dtypes and shapes.

    Outputs that were not asked for are dropped. If no server describes the model, the outputs are returned unchanged. Raises
    what the function raises, and AnswerError if its outputs do not fit the model.
    """
    name, inputs = request.model[0], request.inputs
    outputs: object = fallback.run(inputs) if callable(fallback.run) else fallback.run.run(name, inputs)
    try:
        return _checked(request, outputs)
    except ValueError as error:
        raise AnswerError(f"the fallback of model {name!r} returned {error}") from error


def _checked(request: Request, outputs: object) -> dict[str, NDArray[Any]]:
    """Return the outputs that are wanted, checked. Raises ValueError."""
    if not isinstance(outputs, Mapping):
        raise ValueError(f"{type(outputs).__name__}, expected a dict of arrays by output name")  # noqa: TRY004 - as below
    spec = request.spec
    if spec is None:
        return {name: _array(name, values) for name, values in outputs.items()}
    rows = rows_of(spec, request.inputs)
    wanted = wanted_outputs(spec, request.outputs, outputs)
    return {tensor.name: _output(spec, tensor, rows, outputs[tensor.name]) for tensor in wanted}


def _output(spec: ModelSpec, tensor: TensorSpec, rows: int, values: object) -> NDArray[Any]:
    """Return an output. Raises ValueError."""
    array = _array(tensor.name, values)
    check_shape(spec, tensor, rows, array.shape)
    try:
        array = converted(tensor.datatype, array.astype(object) if tensor.datatype == "BYTES" else array)
        if tensor.datatype in {"BYTES", "BF16"}:  # as if sent over the network: as bytes, and rounded
            wire = to_buffer(tensor.name, tensor.datatype, array)
            return from_buffer(tensor.name, tensor.datatype, array.shape, memoryview(bytes(wire)))
    except ValueError as error:
        raise ValueError(f"output {tensor.name!r}, which {error}") from error
    return _read_only(array)


def _array(name: str, values: object) -> NDArray[Any]:
    try:
        return _read_only(np.asarray(values))
    except ValueError as error:
        raise ValueError(f"output {name!r}, which is not an array: {error}") from error


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
