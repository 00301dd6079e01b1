# SPDX-License-Identifier: Apache-2.0
"""ModelInfer: takes a serialized request and returns a serialized response (messages.py). stream.py uses parts of it too."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from hypersonic.server.core.inference.contents import to_infer_request
from hypersonic.server.core.inference.headers import check_sequence_header, forward_headers
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.request import InferRequest
from hypersonic.server.core.inference.shm import HeldRegions, SharedMemory
from hypersonic.server.core.inference.unary import Unary
from hypersonic.server.errors import CancelledError, ReplacingError, ServerError
from hypersonic.server.limits.admission import Admission, Held
from hypersonic.server.limits.message import LIMITS, Limits
from hypersonic.server.limits.threads import ThreadQuota
from hypersonic.server.wire.grpc.frame import GrpcFrame
from hypersonic.server.wire.grpc.messages import split
from hypersonic.server.wire.grpc.transport import RpcCall, text_headers
from hypersonic.server.wire.service.inference import ArrivedRequest, InferenceService


def _admit(admission: Admission, call: RpcCall, size_bytes: int) -> Held:
    """Admit a request until its call has ended, that is, until the client has read the answer or given up.

    Raises ShuttingDownError (UNAVAILABLE), BudgetError (RESOURCE_EXHAUSTED), and CancelledError when the call has already
    ended.
    """
    held = Held(admission, call.client, size_bytes, call.arrived_s)
    if not call.add_callback(held.leave):
        held.leave()
        raise CancelledError
    return held


class Servicer:
    """The handler of ModelInfer. Streams use request() and frame() too. Any thread may call the methods."""

    def __init__(
        self,
        service: InferenceService,
        *,
        regions: SharedMemory | None = None,
        header_pattern: str = "",
        sequence_header: str = "",
        threads: int = 256,
        limits: Limits = LIMITS,
    ) -> None:
        """Create a Servicer.

        Args:
            header_pattern: a regular expression, matched without regard to case; headers whose keys match it become request
                parameters. "" = none.
            sequence_header: needed by a unary request of a sequence, in lower case; "" = none.
            regions: the registered shared memory; None = requests cannot use any.
            threads: how many may wait for models at one time.
            limits: of one inference request.
        """
        self._service = service
        self._quota = ThreadQuota(threads)
        self._pattern = re.compile(header_pattern, re.IGNORECASE) if header_pattern else None
        self._sequence_header = sequence_header
        self._regions, self.limits = regions, limits
        self._frames: WeakKeyDictionary[Model, GrpcFrame] = WeakKeyDictionary()

    def request(self, message: Any, raw: Sequence[memoryview], held: Held, call: RpcCall) -> InferRequest:
        """Return the request as the models take it, with parameters from the call's headers.

        Args:
            message: a parsed ModelInferRequest without raw_input_contents.
            raw: those contents.

        Raises:
            InvalidRequestError: (INVALID_ARGUMENT).
            UnsupportedError: (UNIMPLEMENTED).
        """
        regions = HeldRegions(self._regions, held) if self._regions is not None else None
        request = to_infer_request(message, raw, regions)
        if self._pattern is None:
            return request
        headers = forward_headers(text_headers(call.metadata()), self._pattern)
        return request._replace(parameters={**headers, **request.parameters})

    def frame(self, model: Model) -> GrpcFrame:
        """Return the frame of a model version, which is made once."""
        frame = self._frames.get(model)
        if frame is None:
            frame = self._frames[model] = GrpcFrame(model)
        return frame

    def infer(self, data: bytes, call: RpcCall) -> Unary:
        """Begin the inference of a serialized ModelInferRequest.

        Returns the Unary that will hold the serialized ModelInferResponse. Raises ServerError, whose kind decides the status
        code (server/wire/status_codes.py).
        """
        arrived_ns = time.monotonic_ns()
        held = _admit(self._service.admission, call, len(data))
        message, raw = split(data, held.take, self.limits)

        def finish(answer: bytes) -> bytes:
            held.hold(len(answer))
            return answer

        name, version = message.model_name, message.model_version
        unary = Unary(finish)
        unary.request_id, unary.model_name = message.id, name
        try:
            model = self._model(name, version)
            request = self.request(message, raw, held, call)
            check_sequence_header(request, call.metadata(), self._sequence_header)
            arrived = ArrivedRequest(name, version, request, self.frame, call, arrived_ns)
            self._service.begin(arrived, model, unary, self._quota)
        except ServerError as error:
            raise unary.named(error)  # noqa: B904 - it is the same error
        return unary

    def _model(self, name: str, version: str) -> Model | None:
        """Return the model, or None for one that is being replaced: the request then waits for the replacement."""
        try:
            return self._service.repository.model(name, version, wait_s=0.0)
        except ReplacingError:
            return None
