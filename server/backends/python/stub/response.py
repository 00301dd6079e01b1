# SPDX-License-Identifier: Apache-2.0
"""InferenceResponse, and the sender by which a model may answer at any time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hypersonic.server.backends.python.stub.calls import PROCESS
from hypersonic.server.backends.python.stub.errors import TritonError, TritonModelException
from hypersonic.server.backends.python.stub.tensor import Tensor

RESPONSE_COMPLETE_FINAL = 1
ABANDONED = "the model dropped the request without a final response"
ParameterValue = bool | int | float | str


def checked_parameters(parameters: object) -> dict[str, ParameterValue]:
    """Return the parameters.

    Raises TritonModelException, with Triton's text, unless they map text to bool, int, float or text.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise TritonModelException(f"parameters must be a dict, got {type(parameters)}")
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(name)}")
        if not isinstance(value, bool | int | float | str):
            raise TritonModelException(f"Expect parameters values to have type bool/int/str, found type {type(value)}")
    return dict(parameters)


class InferenceResponse:
    """Output tensors, or an error."""

    __slots__ = ("_error", "_parameters", "_tensors")

    def __init__(
        self,
        output_tensors: Sequence[Tensor] = (),
        error: TritonError | None = None,
        parameters: Mapping[str, ParameterValue] | None = None,
    ) -> None:
        """Raise TypeError for a wrong list of tensors or a wrong error, TritonModelException for wrong parameters."""
        if not isinstance(output_tensors, list | tuple):
            raise TypeError(f"InferenceResponse: output_tensors must be a list of Tensor, got {type(output_tensors)}")
        for tensor in output_tensors:
            if tensor is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(tensor, Tensor):
                raise TypeError(f"InferenceResponse: output_tensors must be a list of Tensor, found type {type(tensor)}")
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"InferenceResponse: error must be a TritonError, got {type(error)}")
        self._tensors = list(output_tensors)
        self._error = error
        self._parameters = checked_parameters(parameters) if parameters else {}

    def output_tensors(self) -> list[Tensor]:
        """Return the tensors as given."""
        return self._tensors

    def has_error(self) -> bool:
        """Return whether the response is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """Return the error, None if there is none."""
        return self._error

    def parameters(self) -> str:
        """Return the parameters as JSON text."""
        return json.dumps(self._parameters)

    @property
    def parameter_values(self) -> dict[str, ParameterValue]:
        """The parameters as a dict."""
        return self._parameters


#: sends (response or None, final)
Deliver = Callable[[InferenceResponse | None, bool], None]


class InferenceResponseSender:
    """Answers one request, from any thread, until a response with the final flag.

    If the model drops the sender before that, the request ends, since nothing else could answer it.
    """

    def __init__(self, key: int, deliver: Deliver, *, decoupled: bool) -> None:
        self._key = key
        self._deliver = deliver
        self._decoupled = decoupled
        self._lock = threading.Lock()
        self._responses = 0
        self.closed = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Send a response.

        Args:
            flags: 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL.

        Raises:
            TritonModelException: With Triton's texts.
        """
        with self._lock:
            self._check(response, flags)
            final = flags == RESPONSE_COMPLETE_FINAL
            self._deliver(response, final)
            self._responses += response is not None
            self.closed = final

    def _check(self, response: InferenceResponse | None, flags: int) -> None:
        if flags not in (0, RESPONSE_COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if self.closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if response is None and not flags:
            raise TritonModelException("Inference Response object must be provided when the response flags is set to zero.")
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError(f"send: response must be an InferenceResponse, got {type(response)}")
        if response is not None and self._responses and not self._decoupled:
            raise TritonModelException("Unable to send response. Non-decoupled model cannot send more than one response.")

    def is_cancelled(self) -> bool:
        """Return whether the client no longer waits for answers."""
        return is_cancelled(self._key)

    def close(self, error: TritonError | None) -> None:
        """End the request from outside, unless it has ended."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._deliver(None if error is None else InferenceResponse(error=error), True)

    def __del__(self) -> None:
        if not self.closed and PROCESS.calls is not None:
            # on another thread: the garbage collector may run while this thread holds a lock
            self.closed = True
            PROCESS.calls.later(partial(self._deliver, InferenceResponse(error=TritonError(ABANDONED)), True))


def is_cancelled(key: int) -> bool:
    """Ask the server whether a request is cancelled. Raises TritonModelException when the server is gone."""
    if PROCESS.calls is None or key < 0:
        return False
    message, _ = PROCESS.calls.ask(["cancelled", 0, key]).only()
    return bool(message[2])
