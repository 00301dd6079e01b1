# SPDX-License-Identifier: Apache-2.0
"""The check of the answers from a model's process: every position, shape, length and offset.

The process runs the operator's code, but if it has been compromised it must not reach the server's memory this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import NO_PARAMETERS, Answer, Output
from hypersonic.server.core.inference.parameters import ParameterValue
from hypersonic.server.errors import (
    AlreadyExistsError,
    BackendError,
    CancelledError,
    FailureReason,
    InvalidRequestError,
    NotFoundError,
    ServerError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)

_MOST_DIMS = 64


class _Cancelled(CancelledError):  # noqa: N818
    def __init__(self, text: str) -> None:
        super().__init__()
        self.args = (text,)


_KINDS: Mapping[int, type[ServerError]] = {
    0: UnknownError, 1: BackendError, 2: NotFoundError, 3: InvalidRequestError, 4: UnavailableError, 5: UnsupportedError,
    6: AlreadyExistsError, 7: _Cancelled,
}  # fmt: skip
#: subclasses that count as failures of the model (reason BACKEND)
_MODEL_ERRORS: Mapping[int, type[ServerError]] = {
    code: type(kind.__name__, (kind,), {"reason": FailureReason.BACKEND}) for code, kind in _KINDS.items()
}


def model_error(code: Any, text: Any) -> ServerError:
    """Return the error that a model gave as a TritonError.

    Args:
        code: TRITONSERVER_Error_Code.

    Raises:
        ValueError: For an invalid code or text.
    """
    if not isinstance(text, str) or not isinstance(code, int) or code not in _MODEL_ERRORS:
        raise ValueError(f"not an error: {code!r}, {text!r}")
    return _MODEL_ERRORS[code](printable(text))


def printable(text: str) -> str:
    """Return text that can be sent as UTF-8; characters that cannot be encoded become question marks."""
    return text.encode(errors="replace").decode()


def answer_of(fields: Any, config: ModelConfig, memory: memoryview) -> Answer:
    """Read [outputs, parameters], whose outputs are in `memory`. Raises ValueError, TypeError, LookupError."""
    outputs, parameters = fields
    return Answer(tuple(_output(output, config, memory) for output in outputs), parameters_of(parameters))


def packed_answer(outputs: Any, parameters: Any, config: ModelConfig, payload: memoryview) -> Answer:
    """Read an answer whose outputs are one after another in `payload`. Raises as answer_of() does."""
    at = 0
    placed = []
    for position, datatype, shape, size_bytes in outputs:
        placed.append([position, datatype, shape, at, size_bytes])
        at += size_bytes
    return answer_of([placed, parameters], config, payload)


def parameters_of(parameters: Any) -> Mapping[str, ParameterValue]:
    """Return response parameters. Raises ValueError unless they map text to bool, int, float or text."""
    if not parameters:
        return NO_PARAMETERS
    if not isinstance(parameters, dict) or not all(isinstance(v, bool | int | float | str) for v in parameters.values()):
        raise ValueError("response parameters")
    return {printable(name): printable(v) if isinstance(v, str) else v for name, v in parameters.items()}


def _output(fields: Sequence[Any], config: ModelConfig, memory: memoryview) -> Output:
    position, datatype, shape, offset, size_bytes = fields
    if not all(isinstance(n, int) and n >= 0 for n in (position, offset, size_bytes, *shape)) or len(shape) > _MOST_DIMS:
        raise ValueError(f"output {fields}")
    if offset + size_bytes > len(memory):
        raise ValueError(f"output {fields} in memory of {len(memory)} bytes")
    item_bytes = DATATYPES[datatype].size_bytes
    if item_bytes and size_bytes != prod(shape) * item_bytes:
        raise ValueError(f"output {fields}: not the bytes of its shape")
    return Output(
        position, datatype, _wire_shape(position, tuple(shape), config), (memory[offset : offset + size_bytes],), size_bytes
    )


def output_names(config: ModelConfig) -> list[str]:
    """Return the names of the tensors that a model may return, by position: its outputs, then the states kept by the server."""
    states = config.sequence.states if config.sequence is not None else ()
    return [*config.output_names, *(state.output_name for state in states)]


def _wire_shape(position: int, shape: tuple[int, ...], config: ModelConfig) -> tuple[int, ...]:
    if position >= len(config.outputs):
        if config.sequence is None or position >= len(config.outputs) + len(config.sequence.states):
            raise ValueError(f"output number {position}")
        return shape
    spec = config.outputs[position]
    return shape if spec.reshape is None else reshaped(shape, spec.reshape, spec.dims, config.max_batch_size > 0)


def reshaped(shape: tuple[int, ...], old: Sequence[int], new: Sequence[int], batched: bool) -> tuple[int, ...]:
    """Return a tensor's shape on the other side of config.pbtxt's `reshape`; variable dims keep their sizes and order.

    A shape that does not match `old` is returned unchanged, since the model may return any shape.
    """
    batch, dims = (shape[:1], shape[1:]) if batched else ((), shape)
    if len(dims) != len(old) or any(n not in (d, -1) and d != -1 for n, d in zip(old, dims, strict=True)):
        return shape
    variable = iter([n for n, d in zip(dims, old, strict=True) if d == -1])
    result = (*batch, *(next(variable, -1) if d == -1 else d for d in new))
    return result if prod(result) == prod(shape) else shape
