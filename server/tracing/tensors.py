# SPDX-License-Identifier: Apache-2.0
"""Trace level TENSORS: a request's inputs and outputs as text, as Triton's trace file has them, within bounds.

    {"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"x","data":"0,1.5","shape":"1,2","dtype":"FP32"}}

Triton writes every tensor completely. Here a tensor's text is limited to MOST_ELEMENTS elements and MOST_CHARACTERS characters;
"truncated" is true if it was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.datatype import DATATYPES
from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.request import CheckedRequest, Frame, InputTensor
from hypersonic.server.inference.strings import walk_strings

INPUT, OUTPUT = "TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT"
#: the limits of one tensor's text
MOST_ELEMENTS, MOST_CHARACTERS = 4096, 1 << 16
_HEAD_BYTES = 4 * MOST_CHARACTERS + 8 * (MOST_ELEMENTS + 2)
#: the most tensors of one request; an ensemble's step counts as a request of its own
MOST_TENSORS = 256


class TracedTensor(NamedTuple):
    """A tensor as text. data: its elements, separated by commas. truncated: True if there are more elements."""

    activity: str
    name: str
    data: str
    shape: tuple[int, ...]
    datatype: str
    truncated: bool

    def entry(self) -> Mapping[str, Any]:
        """Return the object for the trace file, without the id."""
        tensor: dict[str, Any] = {
            "name": self.name, "data": self.data, "shape": ",".join(map(str, self.shape)), "dtype": self.datatype
        }  # fmt: skip
        return {"activity": self.activity, "tensor": {**tensor, "truncated": True} if self.truncated else tensor}


class TensorLog:
    """The tensors of a request so far, at most MOST_TENSORS. Used by one thread at a time, the one that has the request."""

    def __init__(self) -> None:
        self.tensors: list[TracedTensor] = []

    def received(self, tensors: Iterable[InputTensor]) -> None:
        """Record the inputs.

        A request that is repeated because its version was unloaded calls this again; the last call counts.
        """
        self.tensors = [traced(INPUT, *tensor) for tensor in islice(tensors, MOST_TENSORS)]

    def framing(self, frame: Frame, config: ModelConfig) -> Frame:
        """Return a frame function that also records each answer's outputs."""

        def noting(request: CheckedRequest, answer: Answer) -> Any:
            for output in answer.asked(request.outputs)[: MOST_TENSORS - len(self.tensors)]:
                name = config.outputs[output.position].name
                self.tensors.append(traced(OUTPUT, name, output.datatype, output.shape, _head(output.chunks)))
            return frame(request, answer)

        return noting


def traced(activity: str, name: str, datatype: str, shape: Sequence[int], data: bytes | memoryview) -> TracedTensor:
    """Convert a tensor to text.

    data: little endian. It has not been checked yet, so trailing bytes that are not a whole element are left out.
    """
    known = DATATYPES.get(datatype)
    if known is None:
        return TracedTensor(activity, name, "", tuple(shape), datatype, truncated=len(data) > 0)
    elements = _strings(data) if not known.size_bytes else _numbers(data, datatype)
    texts, truncated = _bounded(elements)
    return TracedTensor(activity, name, ",".join(texts), tuple(shape), datatype, truncated)


def _head(chunks: Iterable[bytes | memoryview]) -> bytes:
    """Return the beginning of the bytes: more than traced() shows."""
    head = bytearray()
    for chunk in chunks:
        head += chunk[: _HEAD_BYTES - len(head)]
    return bytes(head)


def _bounded(elements: Iterator[str]) -> tuple[list[str], bool]:
    texts: list[str] = []
    left = MOST_CHARACTERS
    for text in islice(elements, MOST_ELEMENTS):
        if len(text) > left:
            return texts, True
        left -= len(text) + 1
        texts.append(text)
    return texts, next(elements, None) is not None


def _numbers(data: bytes | memoryview, datatype: str) -> Iterator[str]:
    """Iterate over the shortest text of each number; a whole number has no decimal point, as in C++."""
    known = DATATYPES[datatype]
    whole = memoryview(data)[: len(data) // known.size_bytes * known.size_bytes]
    array: NDArray[Any] = np.frombuffer(whole, known.numpy)[: MOST_ELEMENTS + 1]
    if datatype == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    as_text: Callable[[Any], str] = (lambda value: str(int(value))) if datatype == "BOOL" else str
    return (as_text(value).removesuffix(".0") for value in array)


def _strings(data: bytes | memoryview) -> Iterator[str]:
    """Iterate over the strings in quotes; bytes that are not UTF-8 appear as \\xff."""
    view = memoryview(data)
    for start, stop in walk_strings(view):
        if start > len(view):
            return
        text = bytes(view[start : min(stop, start + MOST_CHARACTERS)]).decode(errors="backslashreplace")
        yield f'"{text}"'
