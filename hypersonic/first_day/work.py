# SPDX-License-Identifier: Apache-2.0
"""The model's events and csim's answers to them, and how events run on a unit's slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersonic.building.csim import build_csim
from hypersonic.events.golden import Golden, WrongAnswerError, golden_integers
from hypersonic.events.sending import Tensors
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.first_day.day import Day
from hypersonic.first_day.errors import WrongRowsError
from hypersonic.hls.zoo.task import task_of
from hypersonic.host.instance import Slot
from hypersonic.own.task import OwnData, own_task

#: different events, of which the steps run each once or several times
EVENTS = 4


@dataclass(frozen=True)
class Event:
    """An event and csim's answer.

    Attributes:
        inputs: the numbers on the wire, an array for each input.
        x, y: the bytes of its rows and of csim's answers.
    """

    inputs: Tensors
    x: NDArray[np.uint8]
    y: NDArray[np.uint8]

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return len(self.inputs[0])


@dataclass(frozen=True)
class Work:
    """Events with their expected answers.

    Attributes:
        golden: the model's csim.
    """

    golden: Golden
    events: tuple[Event, ...]

    @property
    def rows(self) -> int:
        """The rows of the largest event."""
        return max(event.rows for event in self.events)

    @property
    def event_bytes(self) -> tuple[int, int]:
        """Bytes of the largest event's inputs and of its answers."""
        return self.rows * self.golden.inputs.row_bytes, self.rows * self.golden.outputs.row_bytes

    def compare(self, unit: str, events: Sequence[int], answers: Sequence[NDArray[np.uint8]]) -> int:
        """Compare the bytes of answers with csim as integers; return how many are equal, which is all.

        Raises WrongRowsError, which names the unit and the run.

        Args:
            events: the numbers of the events, one for each answer.
        """
        for run, (number, answer) in enumerate(zip(events, answers, strict=True), 1):
            if not np.array_equal(answer, self.events[number].y):
                raise WrongRowsError(f"{unit}, run {run} of {len(events)}: {self._difference(self.events[number], answer)}")
        return sum(self.events[number].rows * self.golden.outputs.size for number in events)

    def _difference(self, event: Event, answer: NDArray[np.uint8]) -> str:
        try:
            self.golden.compare(event.inputs, self.golden.outputs.decode(answer))
        except WrongAnswerError as error:
            return str(error)
        return "the bytes differ from csim's, the numbers do not"


def make_work(day: Day, manifest: Manifest) -> Work:
    """The model's events, as the manifest's formats carry them. Raises what build_csim and own_task raise."""
    project, library = build_csim(day.model)
    task = own_task(day.model, project, OwnData(day.rows)).task if day.rows else task_of(day.model)
    golden = Golden(project, library, manifest.inputs, manifest.outputs)
    inputs = golden.travelling(task.sample(EVENTS * task.event_rows, 1).inputs)
    return Work(golden, tuple(_event(golden, each) for each in zip(*(np.array_split(x, EVENTS) for x in inputs), strict=True)))


def _event(golden: Golden, inputs: Tensors) -> Event:
    raw = golden_integers(golden.project, golden.library, golden.inputs.to_raw(inputs))
    return Event(inputs, golden.inputs.encode(inputs), golden.outputs.encode(golden.outputs.from_raw(raw)))


def run_events(day: Day, work: Work, slots: Sequence[Slot], events: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Run events in order, with a run in flight in each slot; return the bytes of the answers. Raises DeviceError."""
    answers, free, flying = list[NDArray[np.uint8]](), deque(slots), deque[tuple[Slot, Event]]()
    for number in events:
        if not free:
            free.append(_finish(day, flying, answers))
        slot, event = free.popleft(), work.events[number]
        slot.x[: event.x.size] = event.x
        slot.start(event.rows)
        flying.append((slot, event))
    while flying:
        _finish(day, flying, answers)
    return answers


def _finish(day: Day, flying: deque[tuple[Slot, Event]], answers: list[NDArray[np.uint8]]) -> Slot:
    slot, event = flying.popleft()
    slot.finish(day.timeout_ms)
    answers.append(slot.y[: event.y.size].copy())
    return slot
