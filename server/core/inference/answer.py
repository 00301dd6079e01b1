# SPDX-License-Identifier: Apache-2.0
"""A model's answer, before a front end frames it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypersonic.server.core.inference.parameters import ParameterValue

NO_PARAMETERS: Mapping[str, ParameterValue] = {}


class Output(NamedTuple):
    """One output tensor.

    Attributes:
        position: the index of the output in the configuration.
        shape: with the batch dimension.
        chunks: the bytes, in C order and little endian, in any number of pieces.
        size_bytes: the total length of the chunks.
    """

    position: int
    datatype: str
    shape: tuple[int, ...]
    chunks: Sequence[bytes | memoryview]
    size_bytes: int


class Answer(NamedTuple):
    """One response of a model: outputs in any order, possibly not all of them, and the parameters that the model added.

    Attributes:
        fresh: True if the answer owns its memory, so that it may be kept; otherwise the memory is valid until the slot's next
            run.
    """

    outputs: tuple[Output, ...]
    parameters: Mapping[str, ParameterValue] = NO_PARAMETERS
    fresh: bool = False

    def asked(self, positions: Sequence[int]) -> tuple[Output, ...]:
        """Return the outputs at these positions, in this order, without those that the model did not return."""
        if [output.position for output in self.outputs] == list(positions):
            return self.outputs
        by_position = {output.position: output for output in self.outputs}
        return tuple(by_position[position] for position in positions if position in by_position)
