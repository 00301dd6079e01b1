# SPDX-License-Identifier: Apache-2.0
"""A backend in memory for tests of model control: y = sum of each row of x, plus what the version's file `shift` says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tritonclient.grpc import model_config_pb2

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.errors import ModelBusyError, ModelLoadError
from tests.server.conftest import Script, SumInstance, SumModel, SumSlot


class ShiftSlot(SumSlot):
    """Adds `shift`."""

    def __init__(self, instance: SumInstance, capacity_rows: int, shift: float) -> None:
        super().__init__(instance, capacity_rows)
        self._shift = shift

    def finish(self) -> Execution:
        launched = super().finish()
        self._y += self._shift
        return launched


class ShiftModel(SumModel):
    """on_close: called once it is closed."""

    def __init__(self, script: Script, shift: float, on_close: Callable[[], None]) -> None:
        super().__init__(script)
        self._on_close = on_close
        for instance in self.instances:
            instance.slots = tuple(ShiftSlot(instance, script.slot_rows, shift) for _ in range(script.slots))

    def close(self) -> None:
        self._on_close()


class ShiftBackend:
    """cards: how many versions fit at once, None = any number. gates: model -> event its load waits for.

    loading: the most loads of one name at the same moment. entered: released once per load, when it begins.
    """

    def __init__(self, script: Script | None = None, cards: int | None = None) -> None:
        self.script = script or Script()
        self.gates: dict[str, threading.Event] = {}
        self.entered = threading.Semaphore(0)
        self.loads: list[tuple[str, str]] = []
        self.most_at_once = 0
        self.cards = cards
        self._lock = threading.Lock()
        self._inside: dict[str, int] = {}

    def complete(self, directory: Path, message: model_config_pb2.ModelConfig) -> None:
        """Inputs and outputs, where config.pbtxt has none."""
        if not message.input:
            message.max_batch_size = 200
            message.input.add(name="x", data_type=model_config_pb2.TYPE_FP32, dims=[3])
            message.output.add(name="y", data_type=model_config_pb2.TYPE_FP32, dims=[1])

    def load(self, directory: Path, config: ModelConfig) -> ShiftModel:
        self._enter(config.name)
        try:
            return self._load(directory, config)
        finally:
            with self._lock:
                self._inside[config.name] -= 1

    def _enter(self, name: str) -> None:
        with self._lock:
            self._inside[name] = self._inside.get(name, 0) + 1
            self.most_at_once = max(self.most_at_once, self._inside[name])
        self.entered.release()
        gate = self.gates.get(name)
        assert gate is None or gate.wait(30)

    def _load(self, directory: Path, config: ModelConfig) -> ShiftModel:
        self.loads.append((config.name, directory.name))
        if (directory / "bug").exists():
            raise RuntimeError("a bug in the backend")
        shift = directory / "shift"
        text = shift.read_text() if shift.exists() else "0"
        try:
            value = float(text)
        except ValueError as error:
            raise ModelLoadError(f"{shift}: {text!r} is not a number") from error
        self._take_card()
        if (directory / "refused").exists():
            self._give_card()
            raise ModelLoadError("the card refuses it")
        return ShiftModel(self.script, value, self._give_card)

    def _take_card(self) -> None:
        with self._lock:
            if self.cards == 0:
                raise ModelBusyError("the card is taken")
            if self.cards is not None:
                self.cards -= 1

    def _give_card(self) -> None:
        with self._lock:
            if self.cards is not None:
                self.cards += 1
