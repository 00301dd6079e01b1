# SPDX-License-Identifier: Apache-2.0
"""Sends a list of events in a closed loop and keeps every answer with its latency."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.settings import Limits, Retry, Settings, Timeout
from hypersonic.client.sync import Client

#: one array for each input (or output) of a model, in its order: `(rows, *shape)`, or (rows, elements)
Tensors = tuple[NDArray[Any], ...]


#: the timeout of an event: csim of a large image takes a quarter of a minute, and other clients' events may be ahead of it
ANSWER_TIMEOUT_S = 900.0


class NoEventsError(ValueError):
    """The requested numbers of events, clients or rows are not possible."""


@dataclass(frozen=True)
class Answers:
    """The answers to a list of events, and their timing.

    Attributes:
        outputs: the answers, in the order of the events.
        latencies_ns: (events,) int64, as the client measured them.
        wall_ns: the time for all events.
    """

    outputs: tuple[Tensors, ...]
    latencies_ns: NDArray[np.int64]
    wall_ns: int

    @property
    def events_per_s(self) -> float:
        """The rate of all requests in flight together."""
        return len(self.outputs) / (self.wall_ns * 1e-9)

    def latency_ms(self, quantile: float) -> float:
        """Return a quantile (0 to 1) of the latencies, in ms."""
        return float(np.quantile(self.latencies_ns, quantile)) * 1e-6


def closed_loop(in_flight: int, timeout_s: float = 60.0) -> Settings:
    """Return the settings of a client that keeps `in_flight` requests in flight, whatever their size, and tries each once.

    Args:
        timeout_s: of one request.
    """
    limits = Limits(in_flight=in_flight, bytes_in_flight=1 << 62)
    return Settings(timeout=Timeout(total_s=timeout_s), limits=limits, retry=Retry(()))


def send(client: Client, model: str, events: Sequence[Tensors]) -> Answers:
    """Send every event once, with as many in flight as the client's limits allow, and return the answers.

    An event is an array for each input, `(rows, *shape)` or (rows, elements), of the input's dtype (BF16: float32). Answers are
    arrays `(rows, *shape)` for each output. The clock starts when the client is connected. Raises ClientError for the first
    event that fails; those in flight are cancelled.
    """
    served = client.model(model)
    inputs, outputs = ([tensor.name for tensor in side] for side in (served.inputs, served.outputs))
    begin = time.perf_counter_ns()
    results = list(served.map(dict(zip(inputs, event, strict=True)) for event in events))
    wall_ns = time.perf_counter_ns() - begin
    answers = tuple(tuple(result.outputs[name] for name in outputs) for result in results)
    return Answers(answers, np.array([result.latency_ns for result in results], np.int64), wall_ns)
