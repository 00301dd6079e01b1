# SPDX-License-Identifier: Apache-2.0
"""The seam between the server and what computes: a backend loads a model version into instances with slots.

A slot is the room for one run: the batch is written straight into it, and answers are framed straight out of it. Two or more
slots let the next batch be written while a run works. A slot belongs to the thread that took it until its answers are framed;
slots of one instance are in the hands of different threads at the same time, and runs end in the order they were started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from tritonclient.grpc import model_config_pb2

from hypersonic.server.config.schema import ModelConfig
from hypersonic.server.inference.answer import Answer
from hypersonic.server.inference.card import Card
from hypersonic.server.inference.pending import Share
from hypersonic.server.statistics.exposition import Family


class Execution(NamedTuple):
    """A finished run's borders, monotonic ns: launched when its input was on the card, done when the kernel was.

    bytes_in, bytes_out: sent to a card and fetched from it; 0 on the host.
    """

    launched_ns: int
    done_ns: int
    bytes_in: int = 0
    bytes_out: int = 0


class Slot(Protocol):
    """Room for one run. One thread at a time calls start, finish, answer, in this order."""

    @property
    def capacity_rows(self) -> int:
        """The most rows of one run. Only a request whose dimensions are all fixed is ever cut to fit."""

    def start(self, shares: Sequence[Share]) -> None:
        """Write the shares' rows, one after another, and start the run. Raises BackendError."""

    def finish(self) -> Execution:
        """Wait for the run, without the interpreter's lock.

        Raises InstanceTimeoutError when the instance hung (once per instance), InstanceLostError soon after another slot's
        thread met that, BackendError when the run failed.
        """

    def answer(self, index: int) -> Answer:
        """What the run answers to its share number `index`; its memory is good until the slot's next start.

        Raises ServerError for this share alone. Not called for decoupled models: their answers go to
        share.pending.respond() and .end(), from any thread, also after finish().
        """


class Instance(Protocol):
    """One compute unit (or one copy of a model on the host) with its slots."""

    @property
    def name(self) -> str: ...

    @property
    def slots(self) -> Sequence[Slot]: ...

    @property
    def in_service(self) -> bool: ...

    def busy_clocks(self) -> int:
        """Clocks the instance had a run in flight since load. Any thread may ask; it may take as long as a card's register."""

    def revive(self) -> bool:
        """Bring a lost instance back, while no thread has one of its slots; False: it is gone for good.

        Raises BackendError for a try that failed; there will be another one. Raises InstanceAwayError when trying is of no use
        before somebody acts: others take over meanwhile, or requests are refused, and it is asked again now and then.
        """

    def close(self) -> None:
        """Give everything back; called when no thread has one of its slots."""


class LoadedModel(Protocol):
    """What load() returns: instances ready to run, and the card under each of them."""

    @property
    def instances(self) -> Sequence[Instance]: ...

    @property
    def standby(self) -> Sequence[Instance]:
        """Instances that run only when none of `instances` is left."""

    def card(self, instance: Instance) -> Card | None: ...

    def close(self) -> None:
        """After all instances are closed."""


class Backend(Protocol):
    """Called from whichever thread loads a model; knows one kind of version directory."""

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Fill in what config.pbtxt leaves out and the version directory tells (auto-complete). Raises ModelLoadError."""

    def load(self, directory: Path, config: ModelConfig) -> LoadedModel:
        """directory: <repository>/<model>/<version>. Raises ModelLoadError (what, got, expected)."""


@runtime_checkable
class Stoppable(Protocol):
    """A backend that can end loads of its models from outside."""

    def stop(self) -> None:
        """End every load under way, and let none begin."""


@runtime_checkable
class Measuring(Protocol):
    """A backend whose models count things of their own."""

    def families(self) -> Iterable[Family]:
        """Of /metrics."""
