# SPDX-License-Identifier: Apache-2.0
"""Models and ensembles in memory, for the tests of ensembles."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.ensemble.model import EnsembleModel
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.collect import Array, collect, split
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.core.inference.request import CheckedRequest, InferRequest, InputTensor, WantedOutput
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import (
    BackendError,
    NotFoundError,
    ServerError,
)
from tests.server.onnx_graphs import arrays_of, config_of, tensors

Function = Callable[[Mapping[str, Array]], Mapping[str, Array]]
PATIENCE_S = 30.0


class FunctionSlot:
    """A function of arrays as a slot; its outputs are overwritten when it is used again."""

    capacity_rows = 8

    def __init__(self, config: ModelConfig, function: Function, seen: list[CheckedRequest]) -> None:
        self._config = config
        self._function = function
        self._seen = seen
        self._shares: Sequence[Share] = ()
        self._outputs: dict[str, Array] = {}

    def start(self, shares: Sequence[Share]) -> None:
        for array in self._outputs.values():
            array[:] = -999
        self._shares = shares
        self._seen += [share.pending.request for share in shares]

    def finish(self) -> Execution:
        launched_ns = time.monotonic_ns()
        outputs = self._function(collect(self._shares, self._config))
        self._outputs = {name: array.copy() for name, array in outputs.items()}
        return Execution(launched_ns, time.monotonic_ns())

    def answer(self, index: int) -> Answer:
        names = self._config.output_names
        outputs = [split(a, names.index(n), self._shares, self._config)[index] for n, a in self._outputs.items()]
        return Answer(tuple(output for output in outputs if not isinstance(output, ServerError)))


class FunctionInstance:
    in_service = True

    def __init__(self, slot: FunctionSlot) -> None:
        self.name = "f"
        self.slots = (slot,)

    def busy_clocks(self) -> int:
        return 0

    def revive(self) -> bool:
        return True

    def close(self) -> None: ...


class FunctionModel:
    standby = ()

    def __init__(self, slot: FunctionSlot) -> None:
        self.instances = (FunctionInstance(slot),)

    def card(self, instance: object) -> CardStatus | None:
        return None

    def close(self) -> None: ...


X_TO_Y = tensors("input", ("x", "FP32", [2])) + tensors("output", ("y", "FP32", [2]))


class Models:
    """A repository in memory. seen: the requests each model's runs carried."""

    def __init__(self) -> None:
        self.loaded: dict[str, Model] = {}
        self.seen: dict[str, list[CheckedRequest]] = {}

    def lookup(self, name: str, version: str, *, wait_s: float = 0.0) -> Model:
        del wait_s
        model = self.loaded.get(name)
        if model is None or version not in ("", "1"):
            raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        return model

    def add(self, name: str, function: Function, text: str = X_TO_Y, *, max_batch_size: int = 8, extra: str = "") -> None:
        config = config_of(f"max_batch_size: {max_batch_size}\n{text}{extra}", name)
        seen = self.seen.setdefault(name, [])
        self.loaded[name] = ScheduledModel(config, 1, FunctionModel(FunctionSlot(config, function, seen)))

    def ensemble(self, text: str, name: str = "e", max_batch_size: int = 8) -> EnsembleModel:
        config = config_of(f'platform: "ensemble" max_batch_size: {max_batch_size}\n{text}', name, backend="")
        self.loaded[name] = model = EnsembleModel(config, 1, self.lookup)
        return model


@pytest.fixture
def models() -> Any:
    loaded = Models()
    yield loaded
    assert all(model.close(PATIENCE_S) for model in reversed(loaded.loaded.values()))


class FakeCall:
    """A connection. end(): the client went away."""

    def __init__(self, client: str = "test") -> None:
        self.client = client
        self._callbacks: list[Callable[[], None]] = []
        self._active = True

    def is_active(self) -> bool:
        return self._active

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._callbacks.append(callback)
        return self._active

    def end(self) -> None:
        self._active = False
        for callback in self._callbacks:
            callback()


def step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str], version: int = -1) -> str:
    maps = "".join(
        f'{kind}_map {{ key: "{key}" value: "{value}" }} '
        for kind, names in (("input", inputs), ("output", outputs))
        for key, value in names.items()
    )
    return f'{{ model_name: "{model}" model_version: {version} {maps}}}'


def graph(*steps: str, inputs: str = "X", outputs: str = "Y") -> str:
    """config.pbtxt of an ensemble of [2] floats; names separated by blanks."""
    sides = tensors("input", *((name, "FP32", [2]) for name in inputs.split()))
    sides += tensors("output", *((name, "FP32", [2]) for name in outputs.split()))
    return f"{sides} ensemble_scheduling {{ step [ {', '.join(steps)} ] }}"


CHAIN = graph(step("double", {"x": "X"}, {"y": "t"}), step("increment", {"x": "t"}, {"y": "Y"}))


def chain(models: Models) -> EnsembleModel:
    models.add("double", lambda a: {"y": a["x"] * 2})
    models.add("increment", lambda a: {"y": a["x"] + 1})
    return models.ensemble(CHAIN)


def request_of(
    model: Model, outputs: Sequence[str] = (), given: InferRequest | None = None, **arrays: np.ndarray
) -> CheckedRequest:
    inputs = tuple(InputTensor(n, "FP32", a.shape, memoryview(a.astype(np.float32).tobytes())) for n, a in arrays.items())
    request = (given or InferRequest("", ()))._replace(inputs=inputs, outputs=tuple(WantedOutput(name) for name in outputs))
    return check(request, model.config)


def infer(model: Model, outputs: Sequence[str] = (), call: FakeCall | None = None, **arrays: Any) -> dict[str, np.ndarray]:
    def frame(_request: CheckedRequest, answer: Answer) -> dict[str, np.ndarray]:
        return arrays_of(answer, model.config)

    results: dict[str, np.ndarray] = model.infer(
        request_of(model, outputs, **arrays), frame, call or FakeCall(), time.monotonic_ns()
    )
    return results


A = np.array([[1.0, 2.0], [3.0, 4.0]])


def fail(_arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    raise BackendError("I fail")


class Collected:
    """A sink. ended: one release per request."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.errors: list[ServerError | None] = []
        self.ended = threading.Semaphore(0)

    def respond(self, framed: Any) -> None:
        self.answers.append(framed)

    def respond_error(self, error: ServerError) -> None:
        self.answers.append(error)

    def end(self, error: ServerError | None) -> None:
        self.errors.append(error)
        self.ended.release()


def stream(
    model: Model, sink: Collected, given: InferRequest | None = None, call: FakeCall | None = None, **arrays: Any
) -> None:
    request = request_of(model, given=given, **arrays)

    def frame(_request: CheckedRequest, answer: Answer) -> np.ndarray:
        return arrays_of(answer, model.config)["Y"]

    model.stream(request, frame, call or FakeCall(), time.monotonic_ns(), sink)
