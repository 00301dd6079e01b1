# SPDX-License-Identifier: Apache-2.0
"""The smallest and the largest value of every time, count and share that an operator or a client can set.

One table for each place: fields of config.pbtxt, its `parameters`, options of the command line. The bounds are far above any
use. They keep sums of times within what threads, sockets and XRT can wait for, and counts within memory.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from hypersonic.firmware.card_parameters import CARD_PARAMETERS


@dataclass(frozen=True)
class Bound:
    """The values that a setting may have, both ends included.

    Attributes:
        means: the largest value in words, "" = the number says enough.
    """

    least: float
    most: float
    means: str = ""

    def __contains__(self, value: object) -> bool:
        """Return whether a number is within the bounds; NaN is not."""
        return isinstance(value, int | float) and self.least <= value <= self.most

    def __str__(self) -> str:
        """Return the bounds for an error text."""
        return f"{_shown(self.least)} to {_shown(self.most)}{f' ({self.means})' if self.means else ''}"


def seconds_of(wait_ns: int) -> float:
    """Return a time in ns as seconds that a lock, a condition or an event can wait for."""
    return min(wait_ns / 1e9, threading.TIMEOUT_MAX)


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


#: the most digits of a number in an option; int() refuses thousands of them with a text of its own
MOST_DIGITS = 40
_INT32 = (1 << 31) - 1
_DAYS, _DAYS_S = "366 days", 366 * 86_400
_TIME_US = Bound(0, _DAYS_S * 1_000_000, _DAYS)
#: XRT and poll() take milliseconds as 32 bits
_WAIT_MS = Bound(0, _INT32, "24.8 days")
_OPTION = Bound(0, _INT32)
_POSITIVE = Bound(1, _INT32)
_BYTES = Bound(0, (1 << 63) - 1)
_THREADS = Bound(0, 32_768)

#: <message>.<field> of model_config.proto -> its bounds. Triton's own checks of other fields are in core/config
FIELDS: Mapping[str, Bound] = {
    "HistogramOptions.buckets": Bound(-1e15, 1e15),
    "ModelDynamicBatching.max_queue_delay_microseconds": _TIME_US,
    "ModelDynamicBatching.priority_levels": Bound(0, 1024),
    "ModelQueuePolicy.default_timeout_microseconds": _TIME_US,
    "ModelSequenceBatching.max_sequence_idle_microseconds": _TIME_US,
    "ModelWarmup.count": Bound(0, 10_000),
    "StrategyDirect.max_queue_delay_microseconds": _TIME_US,
    "StrategyOldest.max_candidate_sequences": Bound(0, 65_536),
    "StrategyOldest.max_queue_delay_microseconds": _TIME_US,
}
#: a parameter of config.pbtxt, with "<backend>." in front where another backend gives it other bounds -> its bounds
PARAMETERS: Mapping[str, Bound] = {
    "card_priority": Bound(0, _INT32),
    "card_residency_ms": Bound(0, _DAYS_S * 1000, _DAYS),
    "execution_mode": Bound(0, _INT32),
    "inter_op_thread_count": Bound(0, 1024),
    "intra_op_thread_count": Bound(0, 1024),
    "python.timeout_ms": _WAIT_MS,
    "share": Bound(0.001, 1000.0),
    "shm_max_bytes": Bound(1, (1 << 63) - 1),
    **{name: Bound(each.least, each.most, each.means) for name, each in CARD_PARAMETERS.items()},
}
#: an option of the command line -> its bounds; tritonserver reads most of them as 32 bits, and so does gRPC
OPTIONS: Mapping[str, Bound] = {
    "--client-timeout-secs": _OPTION,
    "--emulated-cards": Bound(1, 256),  # XRT numbers cards with one byte
    "--emulated-load-ms": _OPTION,
    "--exit-timeout-secs": _OPTION,
    "--grpc-http2-max-ping-strikes": _OPTION,
    "--grpc-http2-max-pings-without-data": _OPTION,
    "--grpc-http2-min-recv-ping-interval-without-data": _OPTION,
    "--grpc-infer-thread-count": _THREADS,
    "--grpc-keepalive-time": _OPTION,
    "--grpc-keepalive-timeout": _OPTION,
    "--grpc-max-bytes-elements": _POSITIVE,
    "--grpc-max-concurrent-streams": _POSITIVE,
    "--grpc-max-connection-age": _OPTION,
    "--grpc-max-connection-age-grace": _OPTION,
    "--grpc-max-connections": _POSITIVE,
    "--grpc-max-message-bytes": _POSITIVE,
    "--grpc-max-metadata-bytes": _POSITIVE,
    "--http-infer-thread-count": _THREADS,
    "--http-max-connections": _POSITIVE,
    "--http-max-input-size": _BYTES,
    "--log-verbose": _OPTION,
    "--max-inflight-bytes": _BYTES,
    "--metrics-interval-ms": _OPTION,
    "--model-load-override-limit-bytes": _POSITIVE,
    "--model-load-thread-count": _THREADS,
    "--model-load-timeout-secs": _OPTION,
    "--repository-poll-secs": _OPTION,
}
#: the instances of a model, of all its groups
INSTANCES = Bound(1, 1024)
#: the sequences that may have a slot at a model's instances, together
SEQUENCES = Bound(0, 1 << 20)
#: the bytes of the states of one sequence
STATE_BYTES = Bound(0, 1 << 30, "1 GiB")
