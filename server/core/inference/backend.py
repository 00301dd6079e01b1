# SPDX-License-Identifier: Apache-2.0
"""The interface between the server and its backends: a backend loads a model version into instances with slots.

A slot is the memory of one run: the batch is written straight into it, and answers are framed straight out of it. With two or
more slots, the next batch is written while a run is in progress. A slot belongs to the thread that took it until its answers
are framed. Different threads hold slots of one instance at the same time, and runs end in the order in which they were started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.card import CardStatus, Residency
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.statistics.exposition import Family


class Execution(NamedTuple):
    """The start and end of a finished run, in monotonic ns.

    Attributes:
        launched_ns: when its input was on the card.
        done_ns: when the kernel had finished.
        bytes_in, bytes_out: bytes sent to the card and fetched from it, 0 for a model on the host.
    """

    launched_ns: int
    done_ns: int
    bytes_in: int = 0
    bytes_out: int = 0


class Slot(Protocol):
    """The memory of one run. One thread at a time calls start, finish and answer, in this order."""

    @property
    def capacity_rows(self) -> int:
        """The largest number of rows in one run. Only a request whose dimensions are all fixed is ever split to fit."""

    def start(self, shares: Sequence[Share]) -> None:
        """Write the rows of the shares, one share after another, and start the run. Raises BackendError (INTERNAL)."""

    def finish(self) -> Execution:
        """Wait for the run, without holding the interpreter's lock.

        Raises InstanceTimeoutError if the instance hangs (once per instance), InstanceLostError soon after the thread of
        another slot has found the instance lost, and BackendError if the run failed.
        """

    def answer(self, index: int) -> Answer:
        """Return the run's answer to the share at `index`; its memory is valid until the slot's next start.

        Raises ServerError for this share alone. Not called for decoupled models, whose answers go to share.pending.respond()
        and .end() from any thread, possibly after finish().
        """


class Instance(Protocol):
    """One compute unit, or one copy of a model on the host, with its slots."""

    @property
    def name(self) -> str:
        """The name that metrics and the log use, unique in the model version."""

    @property
    def slots(self) -> Sequence[Slot]:
        """The slots, which change when revive() has brought the instance back."""

    @property
    def in_service(self) -> bool:
        """False once the instance is lost; it then takes no run until revive() succeeds."""

    def busy_clocks(self) -> int:
        """Return the clock cycles with a run in flight since load, 0 on the host.

        Any thread may ask. The call may take as long as reading a card's register.
        """

    def revive(self) -> bool:
        """Bring a lost instance back; return False if it is lost for good. No thread holds one of its slots meanwhile.

        Raises BackendError for an attempt that failed; the caller tries again. Raises InstanceAwayError if an attempt is
        useless until somebody intervenes: other instances take over or requests are refused, and the caller asks again at
        intervals.
        """

    def close(self) -> None:
        """Release everything. Called when no thread holds one of its slots."""


class LoadedModel(Protocol):
    """The result of load(): instances that are ready to run, and the card of each."""

    @property
    def instances(self) -> Sequence[Instance]:
        """The instances, at least one unless `standby` has some."""

    @property
    def standby(self) -> Sequence[Instance]:
        """Instances that run only when none of `instances` is left."""

    def card(self, instance: Instance) -> CardStatus | None:
        """Return the card of an instance; None for an instance on the host."""

    def close(self) -> None:
        """Release what the instances share. Called after all instances are closed."""


class Waiting(NamedTuple):
    """The requests in a model's queue.

    Attributes:
        since_ns: when the oldest arrived, in monotonic ns, 0 = none waits.
        rows: of all.
    """

    since_ns: int
    rows: int


class TurnQueue(Protocol):
    """A model's queue, for a backend whose models take turns. Any thread may call it, without a lock of the backend."""

    def queued(self) -> Waiting:
        """Return what waits."""

    def leave(self) -> None:
        """Take the instances out of service. Their runs end and are answered; requests wait, or go to the fallback. Then
        revive() is called on each instance, and has to return once it is back on a card.
        """

    def hold(self, reason: str, *, for_good: bool = False) -> None:
        """Refuse requests (UNAVAILABLE), and fail those that wait.

        Args:
            reason: the text for clients; "" = serve again.
            for_good: the model is never served again.
        """


@runtime_checkable
class TakesTurns(Protocol):
    """A LoadedModel that can be off its card. Instances may then be out of service when they are loaded."""

    def attach(self, queue: TurnQueue) -> Callable[[int], None] | None:
        """Connect the model with its queue. Returns the function to call with the number of requests that find no instance in
        service; it takes no lock. None if the model does not take turns after all."""

    @property
    def residency(self) -> Residency | None:
        """The counters of its turns, None if it does not take any."""


class Backend(Protocol):
    """A loader for one kind of version directory. Called from any thread that loads a model."""

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Fill in what config.pbtxt leaves out and the version directory determines (auto-complete). Raises ModelLoadError."""

    def load(self, directory: Path, config: ModelConfig) -> LoadedModel:
        """Load a version.

        Args:
            directory: <repository>/<model>/<version>.

        Raises:
            ModelLoadError: With what is wrong, what was found and what was expected.
        """


@runtime_checkable
class Stoppable(Protocol):
    """A backend whose loads can be ended from outside."""

    def stop(self) -> None:
        """End every load in progress, and let no further load begin."""


@runtime_checkable
class Measuring(Protocol):
    """A backend whose models define metrics of their own."""

    def families(self) -> Iterable[Family]:
        """Return those metrics for /metrics."""
