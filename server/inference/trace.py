# SPDX-License-Identifier: Apache-2.0
"""What a trace is to those who do the work: models, ensembles and models that ask other models. tracing/trace.py has the real
one; a call that belongs to a sampled request carries it as its attribute `trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.inference.request import CheckedRequest, Frame, InputTensor
from hypersonic.server.statistics.times import RunTimes


class StepTrace(Protocol):
    """Of one request to one model; server/scheduling/model.py calls end() when it is completed."""

    def step(self, model: str, arrived_ns: int) -> StepTrace:
        """The trace of a request that this one needs: an ensemble's step, or one model's request to another."""

    def received(self, tensors: Sequence[InputTensor]) -> None:
        """The request's inputs; does nothing unless tensors are traced."""

    def framing(self, frame: Frame, config: ModelConfig) -> Frame:
        """The frame, noting what it frames where tensors are traced."""

    def end(
        self,
        version: int,
        request_id: str,
        arrived_ns: int,
        *,
        enqueued_ns: int = 0,
        times: RunTimes | None = None,
        error: Exception | None = None,
    ) -> None:
        """It is answered."""


def find_trace(call: object) -> StepTrace | None:
    """The trace of the request that came by this call, if it is sampled."""
    trace: StepTrace | None = getattr(call, "trace", None)
    return trace


def list_inputs(config: ModelConfig, request: CheckedRequest) -> list[InputTensor]:
    """A checked request's inputs by their names, without those that were left out."""
    rows = zip(config.inputs, request.tensors, request.shapes, strict=True)
    return [InputTensor(spec.name, spec.datatype, shape, data) for spec, data, shape in rows if data is not None]
