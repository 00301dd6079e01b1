# SPDX-License-Identifier: Apache-2.0
"""Checks that outputs fit the model and the request: those of a server's answer, and those of a fallback."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hypersonic.client.errors import AnswerError
from hypersonic.client.messages.response import Answer
from hypersonic.client.settings import Arrays
from hypersonic.client.specs import ModelSpec, TensorSpec


def rows_of(spec: ModelSpec, inputs: Arrays) -> int:
    """Return the number of rows of a request; 0 for a model without batches."""
    return len(next(iter(inputs.values()))) if spec.max_batch_size and inputs else 0


def wanted_outputs(spec: ModelSpec, names: Collection[str], got: Collection[str]) -> list[TensorSpec]:
    """Return the outputs that were asked for, in that order; all of them in the model's order.

    Raises ValueError if one is missing.

    Args:
        names: of the outputs that were asked for; () is all of them.
        got: the names of the outputs that there are.
    """
    known = {tensor.name: tensor for tensor in spec.outputs}
    wanted = [known[name] for name in names or known if name in known]
    if missing := [tensor.name for tensor in wanted if tensor.name not in got]:
        expected = ", ".join(map(repr, missing))
        has = ", ".join(map(repr, got))
        raise ValueError(f"the outputs {has}, expected {expected}" if has else f"no outputs, expected {expected}")
    return wanted


def check_shape(spec: ModelSpec, tensor: TensorSpec, rows: int | None, shape: tuple[int, ...]) -> None:
    """Raise ValueError for an output of another shape than the model's.

    Args:
        rows: of the request; None: any number.
    """
    batch = (-1 if rows is None else rows,) if spec.max_batch_size else ()
    expected = batch + tensor.shape
    if len(shape) != len(expected) or any(n not in {-1, got} for n, got in zip(expected, shape, strict=True)):
        words = str(expected).replace("-1", "any")
        raise ValueError(f"output {tensor.name!r} of shape {shape}, expected {words}")


def fitted(spec: ModelSpec, names: Collection[str], rows: int, answer: Answer) -> Answer:
    """Return a server's answer with the outputs that were asked for, and no others.

    Raises AnswerError if one is missing or is of another shape, number of rows or datatype, and for another model's answer.

    Args:
        names: of the outputs that were asked for; () is all of them.
        rows: of the request.
    """
    try:
        wanted = wanted_outputs(spec, names, answer.outputs)
        _check(spec, {tensor.name: tensor for tensor in wanted}, rows, answer)
    except ValueError as error:
        raise AnswerError(f"it has {error}") from error
    return replace(answer, outputs={tensor.name: answer.outputs[tensor.name] for tensor in wanted})


def check_id(answer: Answer, request_id: str) -> None:
    """Raise AnswerError if an answer has the id of another request."""
    if request_id and answer.id not in {"", request_id}:
        raise AnswerError(f"it has the request id {answer.id!r}, expected {request_id!r}")


def fitted_in_stream(spec: ModelSpec, answer: Answer) -> Answer:
    """Return an answer of a stream, which may have any number of rows and only some of the outputs.

    Raises AnswerError for an output that the model does not have, for one of another shape or datatype, and for another model.
    """
    known = {tensor.name: tensor for tensor in spec.outputs}
    if unknown := [name for name in answer.outputs if name not in known]:
        raise AnswerError(f"it has an output {unknown[0]!r}, expected {', '.join(map(repr, known))}")
    try:
        _check(spec, {name: known[name] for name in answer.outputs}, None, answer)
    except ValueError as error:
        raise AnswerError(f"it has {error}") from error
    return answer


def _check(spec: ModelSpec, wanted: Mapping[str, TensorSpec], rows: int | None, answer: Answer) -> None:
    """Raise ValueError for an answer of another model, and for outputs of another shape or datatype."""
    if answer.model not in {"", spec.name}:
        raise ValueError(f"the model name {answer.model!r}, expected {spec.name!r}")
    for name, tensor in wanted.items():
        check_shape(spec, tensor, rows, answer.outputs[name].shape)
        if answer.datatypes[name] != tensor.datatype:
            raise ValueError(f"output {name!r} of datatype {answer.datatypes[name]}, expected {tensor.datatype}")
