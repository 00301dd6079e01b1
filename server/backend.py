# SPDX-License-Identifier: Apache-2.0
"""The seam between the server and what computes: a backend loads a model version into instances with slots.

A slot is the room for one run: the batch is written straight into it, and answers are framed straight out of it. Two or more
slots let the next batch be written while a run works. A slot belongs to the thread that took it until its answers are framed;
slots of one instance are in the hands of different threads at the same time, and runs end in the order they were started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from hypersonic.server.config import ModelConfig
from hypersonic.server.pending import Share


class Launched(NamedTuple):
    """A finished run's borders, monotonic ns: launched when its input was on the card, done when the kernel was."""

    launched_ns: int
    done_ns: int


class Slot(Protocol):
    """Room for one run. One thread at a time calls start, finish, outputs, in this order."""

    @property
    def capacity_rows(self) -> int: ...

    def start(self, shares: Sequence[Share]) -> None:
        """Write the shares' rows, one after another, and start the run. Raises BackendError."""

    def finish(self) -> Launched:
        """Wait for the run, without the interpreter's lock.

        Raises InstanceTimeoutError when the instance hung (once per instance), InstanceLostError soon after another slot's
        thread met that, BackendError when the run failed.
        """

    def outputs(self, first_row: int, rows: int) -> tuple[memoryview, ...]:
        """Each output's bytes of these rows of the run; good until the slot's next start."""


class Instance(Protocol):
    """One compute unit (or one copy of a model on the host) with its slots."""

    @property
    def name(self) -> str: ...

    @property
    def slots(self) -> Sequence[Slot]: ...

    @property
    def in_service(self) -> bool: ...

    def busy_cycles(self) -> int:
        """Clocks the instance had a run in flight since load. Any thread may ask; it may take as long as a card's register."""

    def close(self) -> None:
        """Give everything back; called when no thread has one of its slots."""


@dataclass(frozen=True)
class Card:
    """A card as monitoring sees it. gpu_uuid: Triton's label; stable as long as the card stays in its slot."""

    gpu_uuid: str
    name: str


class LoadedModel(Protocol):
    """What load() returns: instances ready to run, and the card under each of them."""

    @property
    def instances(self) -> Sequence[Instance]: ...

    def card(self, instance: Instance) -> Card | None: ...

    def close(self) -> None:
        """After all instances are closed."""


class Backend(Protocol):
    """Called from whichever thread loads a model; knows one kind of version directory."""

    def load(self, directory: Path, config: ModelConfig) -> LoadedModel:
        """Raises ModelLoadError (what, got, expected) for a version that cannot be served."""
