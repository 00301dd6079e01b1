# SPDX-License-Identifier: Apache-2.0
"""The tensors that sequence batching adds to a request: controls (START, END, READY, CORRID) and implicit states."""

from __future__ import annotations

from math import prod

import numpy as np

from hypersonic.server.core.config.schema import ModelConfig, SequenceControl
from hypersonic.server.core.datatype import DATATYPES
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.parameters import SequenceMark
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest, InputTensor
from hypersonic.server.core.inference.strings import pack_strings
from hypersonic.server.errors import BackendError, InvalidRequestError


class SequenceTensors:
    """The controls and states of one model, created once at load. Called under the batcher's lock."""

    def __init__(self, config: ModelConfig) -> None:
        assert config.sequence is not None
        self._controls = config.sequence.controls
        self._states = config.sequence.states
        self._outputs = len(config.outputs)
        #: the batch dimension in front of a control's or a state's own dims
        self._batch = (1,) if config.max_batch_size else ()
        self._initial = tuple(
            bytes(prod(state.dims) * DATATYPES[state.datatype].size_bytes) if -1 not in state.dims else b""
            for state in self._states
        )

    @property
    def stateful(self) -> bool:
        """True if the server keeps states for this model's sequences."""
        return bool(self._states)

    def check(self, sequence_id: int | str) -> None:
        """Raise InvalidRequestError (INVALID_ARGUMENT) for a correlation ID that the model's CORRID control cannot hold."""
        for control in self._controls:
            if control.kind == "CORRID":
                _corrid(control, sequence_id)

    def attach(self, request: CheckedRequest, state: tuple[bytes, ...]) -> CheckedRequest:
        """Return the request with its controls and states added; an empty `state` means the initial one."""
        mark = request.sequence or SequenceMark(0, start=False, end=False)
        extra = [self._control(control, mark, ready=True) for control in self._controls]
        for kept, tensor in zip(state or self._initial, self._states, strict=True):
            extra.append(InputTensor(tensor.input_name, tensor.datatype, (*self._batch, *tensor.dims), memoryview(kept)))
        return request._replace(extra=tuple(extra))

    def null(self, beside: PendingRequest) -> PendingRequest:
        """Return a request for an empty slot, shaped like one that shares the run; its answer is discarded."""
        request = beside.request
        mark = SequenceMark(0, start=False, end=False)
        tensors = tuple(None if tensor is None else memoryview(bytes(len(tensor))) for tensor in request.tensors)
        request = self.attach(request._replace(id="", tensors=tensors, sequence=None, wanted=()), ())
        extra = tuple(self._control(control, mark, ready=False) for control in self._controls)
        pending = PendingRequest(request._replace(extra=extra + request.extra[len(extra) :]), lambda *_: None, 0)
        pending.null = True
        return pending

    def _control(self, control: SequenceControl, mark: SequenceMark, *, ready: bool) -> InputTensor:
        if control.kind == "CORRID":
            data = _corrid(control, mark.id)
        else:
            value = {"START": mark.start, "END": mark.end, "READY": ready}[control.kind]
            assert control.false_true is not None  # checked when the configuration was read
            data = np.array(control.false_true[value], DATATYPES[control.datatype].numpy).tobytes()
        return InputTensor(control.input_name, control.datatype, (*self._batch, 1), memoryview(data))

    def state_of(self, answer: Answer) -> tuple[bytes, ...]:
        """Return the states that follow the model's outputs in an answer. Raises BackendError if one is missing."""
        states = {output.position - self._outputs: output for output in answer.outputs if output.position >= self._outputs}
        if len(states) != len(self._states):
            names = [state.output_name for index, state in enumerate(self._states) if index not in states]
            raise BackendError(f"the model did not answer its state output(s) {names}")
        return tuple(b"".join(states[index].chunks) for index in range(len(self._states)))


def _corrid(control: SequenceControl, sequence_id: int | str) -> bytes:
    """Return the correlation ID as the control's element. Raises InvalidRequestError if it does not fit the datatype."""
    if control.datatype == "BYTES":
        return pack_strings([str(sequence_id)])
    if isinstance(sequence_id, str):
        raise InvalidRequestError(
            f"sequence_id is the string '{sequence_id}', but the model's control input '{control.input_name}' takes "
            f"{control.datatype}: send an integer, or make the control TYPE_STRING"
        )
    limits = np.iinfo(DATATYPES[control.datatype].numpy)
    if not limits.min <= sequence_id <= limits.max:
        raise InvalidRequestError(
            f"sequence_id {sequence_id} does not fit control input '{control.input_name}', {control.datatype}"
        )
    return np.array(sequence_id, DATATYPES[control.datatype].numpy).tobytes()
