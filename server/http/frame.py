# SPDX-License-Identifier: Apache-2.0
"""A model's answer as an HTTP body: JSON, and behind it the outputs that are wanted as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hypersonic.server.answer import Answer, Output
from hypersonic.server.http import tensors
from hypersonic.server.http.codec import BinaryOutputs
from hypersonic.server.model import Model
from hypersonic.server.placing import place
from hypersonic.server.request import CheckedRequest, ParameterValue


class FramedAnswer(NamedTuple):
    """json_bytes: Inference-Header-Content-Length, None when the body is nothing but JSON."""

    body: bytes
    json_bytes: int | None


class HttpFrame:
    """Answers of one model version to one request."""

    def __init__(self, model: Model, binary: BinaryOutputs) -> None:
        self._model = model
        self._binary = binary

    def __call__(self, request: CheckedRequest, answer: Answer) -> FramedAnswer:
        """Copies what it keeps. Raises InvalidRequestError for an output that JSON cannot carry."""
        placed = place(request, answer, self._model.config)
        elsewhere = {want.name for want in request.wanted if want.region is not None}
        document: dict[str, Any] = {"id": request.id} if request.id else {}
        document |= {"model_name": self._model.name, "model_version": str(self._model.version)}
        if answer.parameters:
            document["parameters"] = dict(answer.parameters)
        pieces: list[bytes | memoryview] = []
        behind = False
        outputs: list[dict[str, Any]] = []
        for output in placed.outputs:
            name = self._model.config.outputs[output.position].name
            described = _described(name, output, placed.parameters.get(output.position, {}))
            outputs.append(described)
            if name in elsewhere:
                continue
            if name in self._binary:
                behind = True
                described.setdefault("parameters", {})["binary_data_size"] = output.size_bytes
                pieces.extend(output.chunks)
            else:
                described["data"] = tensors.decode(name, output)
        document["outputs"] = outputs
        head = to_json(document)
        return FramedAnswer(b"".join((head, *pieces)), len(head) if behind else None)


def _described(name: str, output: Output, parameters: Mapping[str, ParameterValue]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "datatype": output.datatype, "shape": list(output.shape)}
    return {**described, "parameters": dict(parameters)} if parameters else described


def to_json(value: Any) -> bytes:
    """As Triton writes it: no blanks, UTF-8, NaN and Infinity where floats are that."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
