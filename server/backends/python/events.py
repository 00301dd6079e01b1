# SPDX-License-Identifier: Apache-2.0
"""Messages from a model's process other than the answers to runs; stub/calls.py is the other end.

["log", level, text, file, line]
["response", key, final, error or None, parameters, outputs]         of a decoupled model
["cancelled", call, key]                                             -> ["reply", call, bool]
["infer", call, ...]                                                 -> bls.py
["family", call, name, description, kind]                            -> ["reply", call, error or None, value]
["metric", call, family, labels, how, value]                         -> ["reply", call, error or None, value]
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from hypersonic.server.backends.python.answer import model_error, packed_answer
from hypersonic.server.backends.python.bls import Infer, ModelCall, serve_call
from hypersonic.server.backends.python.metrics import CustomMetrics
from hypersonic.server.backends.python.process import ModelProcess
from hypersonic.server.backends.python.stub.channel import ChannelClosedError, Message, MessageError
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.pending import PendingRequest, Share
from hypersonic.server.core.inference.trace import StepTrace
from hypersonic.server.errors import BackendError, InvalidRequestError, ServerError
from hypersonic.server.limits.threads import FairPool

_LOG = logging.getLogger(__name__)
#: the logging levels of Logger's levels 0 to 3
_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG)
#: the most simultaneous requests of one instance to other models
_MOST_CALLS = 32


class Events:
    """The events of one instance, across restarts of its process, which knows requests by their keys.

    heard() and ended() are called on the process's thread; the other methods on the thread of a run.
    """

    def __init__(self, name: str, config: ModelConfig, infer: Infer | None, metrics: CustomMetrics) -> None:
        self._name = name
        self._config = config
        self._infer = infer
        self._metrics = metrics
        self._keys = itertools.count()
        self._lock = threading.Lock()
        self._open: dict[int, PendingRequest] = {}
        #: True if no other request was open when the last run began
        self.exclusive = True
        #: the keys of the requests that are in execute() now
        self._running: set[int] = set()
        #: the requests in execute() that had no answer when the process died
        self._stranded: dict[int, PendingRequest] = {}
        self._calls: FairPool | None = None
        self._answers = {
            "log": self._log,
            "response": self._respond,
            "cancelled": self._cancelled,
            "infer": self._call,
            "family": self._family,
            "metric": self._metric,
        }

    def open(self, shares: Sequence[Share]) -> list[int]:
        """Return keys for a run's requests, in order."""
        with self._lock:
            self.exclusive = not self._open
            keys = [next(self._keys) for _ in shares]
            self._open.update(zip(keys, (share.pending for share in shares), strict=True))
            self._running.update(keys)
        for share in shares if self._config.decoupled else ():
            if share.pending.responses is not None:
                share.pending.responses.begin_run()
        return keys

    def forget(self, keys: Sequence[int]) -> None:
        """Forget requests that are answered, or whose run failed and is handled elsewhere."""
        with self._lock:
            for key in keys:
                self._open.pop(key, None)
                self._stranded.pop(key, None)
            self._running.difference_update(keys)

    def end_run(self, keys: Sequence[int]) -> None:
        """Record that execute() of a decoupled model has returned; answers may still follow."""
        with self._lock:
            self._running.difference_update(keys)
            stranded = [self._stranded.pop(key) for key in keys if key in self._stranded]
        for pending in stranded:  # the process has died since
            pending.end(self._unhealthy())

    def heard(self, process: ModelProcess, message: Message, payload: memoryview) -> None:
        """Handle one message. Raises as Listener.heard does, for a malformed message."""
        answer = self._answers.get(message[0])
        if answer is None:
            raise MessageError(f"a message of kind {message[0][:40]!r}")
        # if the process dies meanwhile, its own thread notices
        with suppress(ChannelClosedError):
            answer(process, message, payload)

    def ended(self) -> None:
        """Handle the death of the process: open requests of a decoupled model fail.

        Requests in a run that have no answer yet are left to the run's thread, since they may run again.
        """
        if self._calls is not None:
            self._calls.shutdown()
            self._calls = None
        with self._lock:
            ended = dict(self._open)
            self._open.clear()
            if self._config.decoupled:
                self._stranded = {key: ended.pop(key) for key in self._running & ended.keys() if not ended[key].answered}
        for pending in ended.values() if self._config.decoupled else ():
            pending.end(self._unhealthy())

    def _unhealthy(self) -> BackendError:
        return BackendError(f"Stub process '{self._name}' is not healthy.")

    def _log(self, _: ModelProcess, message: Message, __: memoryview) -> None:
        _, level, text, file, line = message
        if not isinstance(level, int) or not 0 <= level < len(_LEVELS):
            raise ValueError(f"log level {level!r}")
        _LOG.log(_LEVELS[level], "%s: %s:%s: %s", self._name, file, line, text)

    def _respond(self, _: ModelProcess, message: Message, payload: memoryview) -> None:
        """Send a response.

        The final flag ends the request, and so does an answer that cannot be sent; an error alone does not, as in Triton.
        """
        _, key, final, error, parameters, outputs = message
        pending = self._open.get(key)
        if pending is None:  # the request has ended or was withdrawn
            return
        if error is not None and not final:
            pending.respond_error(model_error(*error))
            return
        failure = None if error is None else model_error(*error)
        announced = False
        try:
            if error is None and outputs is not None:
                pending.respond(packed_answer(outputs, parameters, self._config, payload), final=bool(final))
                announced = bool(final)
        except ServerError as refused:  # the front end cannot send it
            failure = refused
        if final or failure is not None:
            self.forget([key])
            pending.end(failure, announced=announced)

    def _cancelled(self, process: ModelProcess, message: Message, _: memoryview) -> None:
        _, call, key = message
        pending = self._open.get(key)
        process.events.send(["reply", call, pending is None or pending.cancelled or pending.completed])

    def _call(self, process: ModelProcess, message: Message, payload: memoryview) -> None:
        """Serve a BLS request on a thread of its own, since it may take long, and may call this same model."""
        call = ModelCall.of(message, payload, self._name, self._trace)
        if self._calls is None:
            self._calls = FairPool(_MOST_CALLS, f"bls:{self._name}")
        self._calls.submit(call.model, lambda: serve_call(self._infer, call, process.events))

    def _trace(self, key: int) -> StepTrace | None:
        pending = self._open.get(key)
        return pending.trace if pending is not None else None

    def _family(self, process: ModelProcess, message: Message, _: memoryview) -> None:
        _, call, name, description, kind = message
        self._reply(process, call, lambda: self._metrics.add_family(name, description, kind))

    def _metric(self, process: ModelProcess, message: Message, _: memoryview) -> None:
        _, call, name, labels, how, change = message
        self._reply(process, call, lambda: self._metrics.change(name, labels, how, change))

    def _reply(self, process: ModelProcess, call: int, change: Callable[[], float | None]) -> None:
        """Change the metrics, and reply with the new value or with the reason why not."""
        value, error = None, None
        try:
            value = change()
        except InvalidRequestError as refused:
            error = str(refused)
        process.events.send(["reply", call, error, value or 0.0])
