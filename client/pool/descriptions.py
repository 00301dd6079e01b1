# SPDX-License-Identifier: Apache-2.0
"""The descriptions of the models that a client uses, and the checks of whether a server still has them.

A server's description of a model is requested again, without waiting, after a wrong answer, INVALID_ARGUMENT, NOT_FOUND, and a
time in which the server was not there: it may have another model by now. A server whose description does not fit that of the
others gets no requests for the model. When no other server is left, its description becomes the client's.
"""

from __future__ import annotations

import logging
import threading
import time

from tritonclient.grpc import service_pb2

from hypersonic.client.codes import Code
from hypersonic.client.errors import AnswerError, CallError
from hypersonic.client.pool.member import Member, Wanted
from hypersonic.client.pool.servers import Pool
from hypersonic.client.pool.timer import Timer
from hypersonic.client.specs import ModelSpec, read_spec

_LOG = logging.getLogger(__name__)
#: the least time between two requests for the same description from the same server, in seconds
_AGAIN_S = 1.0


def description_requests(model: Wanted) -> dict[str, bytes]:
    """Return the calls that describe a model: method -> request."""
    name, version = model
    return {
        "ModelMetadata": service_pb2.ModelMetadataRequest(name=name, version=version).SerializeToString(),
        "ModelConfig": service_pb2.ModelConfigRequest(name=name, version=version).SerializeToString(),
    }


class Descriptions:
    """The descriptions in use. Any thread may use it; nothing here waits."""

    def __init__(self, pool: Pool, timer: Timer) -> None:
        self._pool, self._timer = pool, timer
        self._lock = threading.Lock()
        self._specs: dict[Wanted, ModelSpec] = {}
        self._asked: dict[tuple[Member, Wanted], float] = {}
        pool.on_return = self._returned

    def get(self, model: Wanted) -> ModelSpec | None:
        """Return the description in use; None if none is known."""
        return self._specs.get(model)

    def keep(self, model: Wanted, spec: ModelSpec) -> None:
        """Use a description from now on."""
        with self._lock:
            self._specs[model] = spec

    def refute(self, member: Member, name: str, why: str) -> None:
        """Leave a server out for a model, until its description has been checked."""
        pause_s = self._pool.refute(member, name, why)
        if pause_s:
            self._timer.after(pause_s, lambda: self._check(member, name))

    def ask_again(self, member: Member, name: str) -> None:
        """Ask a server for the descriptions in use of a model again, at most once a second."""
        for model in self._of(name):
            key, now = (member, model), time.monotonic()
            with self._lock:
                due = now - self._asked.get(key, -_AGAIN_S) >= _AGAIN_S
                if due:
                    self._asked[key] = now
            if due:
                self._ask(member, model)

    def _returned(self, member: Member) -> None:
        for name in {name for name, _ in self._known()}:
            self.ask_again(member, name)

    def _known(self) -> tuple[Wanted, ...]:
        with self._lock:
            return tuple(self._specs)

    def _of(self, name: str) -> list[Wanted]:
        return [model for model in self._known() if model[0] == name]

    def _check(self, member: Member, name: str) -> None:
        """Ask a server that was left out for a model for all descriptions of it that are in use."""
        for model in self._of(name):
            self._ask(member, model)

    def _ask(self, member: Member, model: Wanted) -> None:
        """Ask a server for a description, and compare the answer with the one in use."""
        said: list[bytes] = []
        calls = iter(description_requests(model).items())

        def go_on(outcome: bytes | CallError | None = None) -> None:
            if isinstance(outcome, CallError):
                self._unanswered(member, model, outcome)
                return
            if outcome is not None:
                said.append(outcome)
            if (call := next(calls, None)) is not None:
                self._pool.ask(member, *call, go_on)
                return
            try:
                self._compare(member, model, read_spec(member.name, *model, *said))
            except AnswerError as error:
                self._differs(member, model[0], str(error))

        go_on()

    def _unanswered(self, member: Member, model: Wanted, error: CallError) -> None:
        if error.code == Code.NOT_FOUND:
            self._pool.lacks(member, model)
        if model[0] in member.refuted:
            self._differs(member, model[0], member.refuted.get(model[0], error.text))

    def _compare(self, member: Member, model: Wanted, spec: ModelSpec) -> None:
        known = self._specs.get(model)
        if known is None or fits(known, spec):
            self._pool.admit(member, model[0])
        elif self._pool.others_for(member, model):
            self._differs(member, model[0], "its description of the model differs from that of the other servers")
        else:
            _LOG.warning("model %r has changed: %s describes other tensors or limits than before", model[0], member.name)
            self.keep(model, spec)
            self._pool.admit(member, model[0])

    def _differs(self, member: Member, name: str, why: str) -> None:
        """Leave the server out for another, longer time."""
        self._pool.admit(member, name)
        self.refute(member, name, why)


def fits(known: ModelSpec, now: ModelSpec) -> bool:
    """Return whether requests made from the description `known` suit a model as it is described now."""
    inputs = {tensor.name: tensor for tensor in now.inputs}
    rows = (now.max_batch_size >= known.max_batch_size) if known.max_batch_size else not now.max_batch_size
    return (
        all(inputs.pop(tensor.name, None) == tensor for tensor in known.inputs)
        and all(tensor.optional for tensor in inputs.values())
        and set(known.outputs) <= set(now.outputs)
        and rows
        and (known.decoupled, known.stateful) == (now.decoupled, now.stateful)
    )
