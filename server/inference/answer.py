# SPDX-License-Identifier: Apache-2.0
"""What a model answers, before a front end frames it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypersonic.server.inference.parameters import ParameterValue

NO_PARAMETERS: Mapping[str, ParameterValue] = {}


class Output(NamedTuple):
    """One output tensor. position: among the configuration's outputs. shape: with the batch dimension.

    chunks: its bytes, C order, little endian, in any number of pieces; size_bytes: of all of them.
    """

    position: int
    datatype: str
    shape: tuple[int, ...]
    chunks: Sequence[bytes | memoryview]
    size_bytes: int


class Answer(NamedTuple):
    """One response of a model: outputs in any order, perhaps not all of them; parameters as a model may add them.

    fresh: its memory is the answer's own, so that it may be kept; otherwise it is good until the slot's next run.
    """

    outputs: tuple[Output, ...]
    parameters: Mapping[str, ParameterValue] = NO_PARAMETERS
    fresh: bool = False

    def asked(self, positions: Sequence[int]) -> tuple[Output, ...]:
        """The outputs at these positions, in this order; what the model did not answer is left out."""
        if len(self.outputs) == len(positions) and all(o.position == p for o, p in zip(self.outputs, positions, strict=True)):
            return self.outputs
        by_position = {output.position: output for output in self.outputs}
        return tuple(by_position[position] for position in positions if position in by_position)
