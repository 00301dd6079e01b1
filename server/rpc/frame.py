# SPDX-License-Identifier: Apache-2.0
"""GrpcFrame: a model's answers as serialized ModelInferResponse."""

from __future__ import annotations

from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.model import Model
from hypersonic.server.inference.placing import place
from hypersonic.server.inference.request import CheckedRequest
from hypersonic.server.rpc.wire import ResponseFrame


class GrpcFrame:
    """Answers of one model version as ModelInferResponse; one per version, made when it is first asked."""

    def __init__(self, model: Model) -> None:
        self._config = model.config
        outputs = [(output.name, output.datatype) for output in model.config.outputs]
        self._wire = ResponseFrame.of(model.name, str(model.version), outputs)

    def __call__(self, request: CheckedRequest, answer: Answer) -> bytes:
        return self._fill(request, answer, streamed=False)

    def streamed(self, request: CheckedRequest, answer: Answer) -> bytes:
        """Inside a ModelStreamInferResponse."""
        return self._fill(request, answer, streamed=True)

    def _fill(self, request: CheckedRequest, answer: Answer, *, streamed: bool) -> bytes:
        if not request.wanted:
            return self._wire.fill(request.id, answer.asked(request.outputs), answer.parameters, streamed=streamed)
        placed = place(request, answer, self._config)
        return self._wire.fill(request.id, placed.outputs, answer.parameters, placed.parameters, streamed=streamed)
