# SPDX-License-Identifier: Apache-2.0
"""HttpFrame: a model's answer as an HTTP body, which is JSON followed by the outputs that are requested as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import ParameterValue
from hypersonic.server.core.inference.placing import place
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.wire.http import tensors
from hypersonic.server.wire.http.codec import BinaryOutputs
from hypersonic.server.wire.http.tensors import to_json


class FramedAnswer(NamedTuple):
    """An HTTP body.

    Attributes:
        json_bytes: the value of Inference-Header-Content-Length, None when no bytes follow the JSON.
    """

    body: bytes
    json_bytes: int | None


class HttpFrame:
    """Encodes the answer of one model version to one request."""

    def __init__(self, model: Model, binary: BinaryOutputs) -> None:
        """Create a HttpFrame.

        Args:
            binary: the outputs that are sent as bytes.
        """
        self._model = model
        self._binary = binary

    def __call__(self, request: CheckedRequest, answer: Answer) -> FramedAnswer:
        """Return the encoded answer; the outputs' bytes are copied. Raises InvalidRequestError (400) for an output that JSON
        cannot represent.
        """
        placed = place(request, answer, self._model.config)
        elsewhere = {want.name for want in request.wanted if want.region is not None}
        behind: list[Output] = []
        items: list[bytes] = []
        for output in placed.outputs:
            name = self._model.config.outputs[output.position].name
            item = _described(name, output, placed.parameters.get(output.position, {}))
            if name in elsewhere:
                items.append(to_json(item))
            elif self._binary.wants(name):
                item.setdefault("parameters", {})["binary_data_size"] = output.size_bytes
                items.append(to_json(item))
                behind.append(output)
            else:
                items.append(b'%s,"data":%s}' % (to_json(item)[:-1], tensors.decode(name, output)))
        head = b'%s,"outputs":[%s]}' % (to_json(self._head(request, answer))[:-1], b",".join(items))
        chunks = [chunk for output in behind for chunk in output.chunks]
        return FramedAnswer(b"".join((head, *chunks)), len(head) if any(output.size_bytes for output in behind) else None)

    def _head(self, request: CheckedRequest, answer: Answer) -> dict[str, Any]:
        head: dict[str, Any] = {"id": request.id} if request.id else {}
        head |= {"model_name": self._model.name, "model_version": str(self._model.version)}
        return {**head, "parameters": dict(answer.parameters)} if answer.parameters else head


def _described(name: str, output: Output, parameters: Mapping[str, ParameterValue]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "datatype": output.datatype, "shape": list(output.shape)}
    return {**described, "parameters": dict(parameters)} if parameters else described
