# SPDX-License-Identifier: Apache-2.0
"""GrpcFrame: a model's answers as serialized ModelInferResponse messages."""

from __future__ import annotations

from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.placing import place
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.wire.grpc.messages import ResponseFrame


class GrpcFrame:
    """Serializes the answers of one model version. There is one for each version, made at its first request."""

    def __init__(self, model: Model) -> None:
        """Encode the parts that all answers of `model` have in common."""
        self._config = model.config
        outputs = [(output.name, output.datatype) for output in model.config.outputs]
        self._wire = ResponseFrame.of(model.name, str(model.version), outputs)

    def __call__(self, request: CheckedRequest, answer: Answer) -> bytes:
        """Return the serialized ModelInferResponse. Raises InvalidRequestError for one that would exceed 2 GiB."""
        return self._fill(request, answer, streamed=False)

    def streamed(self, request: CheckedRequest, answer: Answer) -> bytes:
        """Return the same response inside a serialized ModelStreamInferResponse."""
        return self._fill(request, answer, streamed=True)

    def _fill(self, request: CheckedRequest, answer: Answer, *, streamed: bool) -> bytes:
        if not request.wanted:
            return self._wire.fill(request.id, answer.asked(request.outputs), answer.parameters, streamed=streamed)
        placed = place(request, answer, self._config)
        return self._wire.fill(request.id, placed.outputs, answer.parameters, placed.parameters, streamed=streamed)
