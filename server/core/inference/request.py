# SPDX-License-Identifier: Apache-2.0
"""A request of any front end: as sent, and as checked against its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.parameters import ParameterValue, SequenceMark


class InputTensor(NamedTuple):
    """One input as sent.

    Attributes:
        shape: with the batch dimension, unchecked.
        data: its bytes, in C order and little endian.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview


class OutputRegion(Protocol):
    """Part of a shared memory region that a client registered."""

    def write(self, name: str, output: Output) -> Mapping[str, ParameterValue]:
        """Write the output of this name there and return the parameters that the answer carries for it.

        Raises SharedMemoryError (INTERNAL).
        """


class WantedOutput(NamedTuple):
    """A requested output.

    Attributes:
        classification: the number of best classes to return instead of the tensor, 0 for the tensor.
        region: the shared memory to write it to, None for the answer.
    """

    name: str
    classification: int = 0
    region: OutputRegion | None = None

    @property
    def plain(self) -> bool:
        """True if the tensor itself is returned in the answer."""
        return not self.classification and self.region is None


_NO_PARAMETERS: Mapping[str, ParameterValue] = {}


class InferRequest(NamedTuple):
    """A request as sent, not yet matched to its model.

    Attributes:
        outputs: the requested outputs, empty for all.
        timeout_us: 0 = none.
        priority: 1 is the highest, 0 = the model's default.
        parameters: without the reserved ones.
    """

    id: str
    inputs: tuple[InputTensor, ...]
    outputs: tuple[WantedOutput, ...] = ()
    timeout_us: int = 0
    priority: int = 0
    sequence: SequenceMark | None = None
    parameters: Mapping[str, ParameterValue] = _NO_PARAMETERS


class CheckedRequest(NamedTuple):
    """A request that matches its model.

    Attributes:
        rows: its batch size (1 for a model without a batch dimension).
        tensors: the bytes of each input, in the order of the configuration, None for an optional input left out; where no
            dimension varies, row r of input i starts at byte r * len(tensors[i]) // rows.
        shapes: as sent, with the batch dimension.
        outputs: indices into the configuration's outputs, in the order of the answer.
        wanted: the outputs as requested, empty if all are plain tensors.
        group: requests of different groups cannot share a run; None if all can.
        extra: inputs that the scheduler adds, by name (sequence controls and states).
    """

    id: str
    rows: int
    tensors: tuple[memoryview | None, ...]
    shapes: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    wanted: tuple[WantedOutput, ...] = ()
    timeout_us: int = 0
    priority: int = 0
    sequence: SequenceMark | None = None
    parameters: Mapping[str, ParameterValue] = _NO_PARAMETERS
    group: tuple[tuple[int, ...] | None, ...] | None = None
    extra: tuple[InputTensor, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The total length of the input tensors, without `extra`."""
        return sum(map(len, filter(None, self.tensors)))


#: (request, answer) -> the front end's message; called on the thread that ran the batch, and must copy what it keeps
Frame = Callable[[CheckedRequest, Answer], Any]
