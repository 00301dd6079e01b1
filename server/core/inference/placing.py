# SPDX-License-Identifier: Apache-2.0
"""Outputs in the form a request asks for: the best classes instead of the tensor, or shared memory instead of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.parameters import ParameterValue
from hypersonic.server.core.inference.request import CheckedRequest


class Placed(NamedTuple):
    """Outputs in the order of the answer.

    Attributes:
        parameters: those of outputs in shared memory, by position.
    """

    outputs: tuple[Output, ...]
    parameters: Mapping[int, Mapping[str, ParameterValue]]


def place(request: CheckedRequest, answer: Answer, config: ModelConfig) -> Placed:
    """Return the requested outputs; those in shared memory are written there and are empty here. Raises ServerError."""
    outputs = answer.asked(request.outputs)
    if not request.wanted:
        return Placed(outputs, {})
    wanted = {config.output_names.index(want.name): want for want in request.wanted}
    parameters: dict[int, Mapping[str, ParameterValue]] = {}
    placed: list[Output] = []
    for output in outputs:
        want = wanted[output.position]
        if want.classification:
            from hypersonic.server.core.inference.classification import classify

            output = classify(output, want.classification, config)  # noqa: PLW2901
        elif want.region is not None:
            parameters[output.position] = want.region.write(config.outputs[output.position].name, output)
            output = output._replace(chunks=(), size_bytes=0)  # noqa: PLW2901
        placed.append(output)
    return Placed(tuple(placed), parameters)
