# SPDX-License-Identifier: Apache-2.0
"""Ensembles of models in this process: what runs when, what passes on, what errors and statistics say."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hypersonic.server.answer import Answer
from hypersonic.server.backend import Card, Launched
from hypersonic.server.collect import Array, collect, split
from hypersonic.server.config import ModelConfig
from hypersonic.server.ensemble import EnsembleModel
from hypersonic.server.ensemble_run import Tensor, fitted
from hypersonic.server.errors import (
    BackendError,
    CancelledError,
    FailureReason,
    InvalidRequestError,
    ModelLoadError,
    NotFoundError,
    ReplacedError,
    ServerError,
    UnavailableError,
)
from hypersonic.server.model import Model, ScheduledModel
from hypersonic.server.pending import Share
from hypersonic.server.request import CheckedRequest, InferRequest, InputTensor, SequenceMark, WantedOutput, check
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

    def finish(self) -> Launched:
        launched_ns = time.monotonic_ns()
        found = self._function(collect(self._shares, self._config))
        self._outputs = {name: array.copy() for name, array in found.items()}
        return Launched(launched_ns, time.monotonic_ns())

    def answer(self, index: int) -> Answer:
        names = self._config.output_names
        found = [split(a, names.index(n), self._shares, self._config)[index] for n, a in self._outputs.items()]
        return Answer(tuple(output for output in found if not isinstance(output, ServerError)))


class FunctionInstance:
    in_service = True

    def __init__(self, slot: FunctionSlot) -> None:
        self.name = "f"
        self.slots = (slot,)

    def busy_cycles(self) -> int:
        return 0

    def revive(self) -> bool:
        return True

    def close(self) -> None: ...


class FunctionModel:
    standby = ()

    def __init__(self, slot: FunctionSlot) -> None:
        self.instances = (FunctionInstance(slot),)

    def card(self, instance: object) -> Card | None:
        return None

    def close(self) -> None: ...


X_TO_Y = tensors("input", ("x", "FP32", [2])) + tensors("output", ("y", "FP32", [2]))


class Models:
    """A repository in memory. seen: the requests each model's runs carried."""

    def __init__(self) -> None:
        self.loaded: dict[str, Model] = {}
        self.seen: dict[str, list[CheckedRequest]] = {}

    def lookup(self, name: str, version: str) -> Model:
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
        self.loaded[name] = made = EnsembleModel(config, 1, self.lookup)
        return made


@pytest.fixture
def models() -> Any:
    made = Models()
    yield made
    assert all(model.close(PATIENCE_S) for model in reversed(made.loaded.values()))


class FakeCall:
    """A connection. end(): the client went away."""

    client = "test"

    def __init__(self) -> None:
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


def infer(
    model: Model, outputs: Sequence[str] = (), call: FakeCall | None = None, **arrays: np.ndarray
) -> dict[str, np.ndarray]:
    def frame(_request: CheckedRequest, answer: Answer) -> dict[str, np.ndarray]:
        return arrays_of(answer, model.config)

    found: dict[str, np.ndarray] = model.infer(
        request_of(model, outputs, **arrays), frame, call or FakeCall(), time.monotonic_ns()
    )
    return found


A = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_tensors_go_from_step_to_step(models: Models) -> None:
    np.testing.assert_array_equal(infer(chain(models), X=A)["Y"], A * 2 + 1)


def test_an_answer_outlives_the_slots_it_came_from(models: Models) -> None:
    ensemble = chain(models)
    answers: list[Answer] = []
    for value in (1.0, 5.0):
        request = request_of(ensemble, X=np.full((1, 2), value))
        ensemble.infer(request, lambda _request, answer: answers.append(answer), FakeCall(), time.monotonic_ns())
    assert [arrays_of(answer, ensemble.config)["Y"][0, 0] for answer in answers] == [3.0, 11.0]


def test_steps_that_are_ready_together_run_together(models: Models) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def meet(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        both.wait()
        return {"y": arrays["x"] + 1}

    models.add("left", meet)
    models.add("right", meet)
    models.add(
        "join",
        lambda a: {"y": a["a"] + a["b"]},
        tensors("input", ("a", "FP32", [2]), ("b", "FP32", [2])) + tensors("output", ("y", "FP32", [2])),
    )
    ensemble = models.ensemble(
        graph(
            step("left", {"x": "X"}, {"y": "l"}),
            step("right", {"x": "X"}, {"y": "r"}),
            step("join", {"a": "l", "b": "r"}, {"y": "Y"}),
        )
    )
    np.testing.assert_array_equal(infer(ensemble, X=A)["Y"], 2 * (A + 1))


def test_a_slow_step_does_not_hold_up_what_does_not_need_it(models: Models) -> None:
    late = threading.Event()

    def slow(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        assert late.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    def then(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        late.set()
        return {"y": arrays["x"] * 10}

    models.add("fast", lambda a: {"y": a["x"]})
    models.add("slow", slow)
    models.add("then", then)
    ensemble = models.ensemble(
        graph(
            step("fast", {"x": "X"}, {"y": "t"}),
            step("slow", {"x": "X"}, {"y": "Z"}),
            step("then", {"x": "t"}, {"y": "Y"}),
            outputs="Y Z",
        )
    )
    found = infer(ensemble, X=A)
    np.testing.assert_array_equal(found["Y"], A * 10)
    np.testing.assert_array_equal(found["Z"], A)


def test_steps_for_outputs_nobody_asked_for_do_not_run(models: Models) -> None:
    models.add("double", lambda a: {"y": a["x"] * 2})
    models.add("never", lambda a: {"y": a["x"]})
    ensemble = models.ensemble(
        graph(step("double", {"x": "X"}, {"y": "Y"}), step("never", {"x": "X"}, {"y": "Z"}), outputs="Y Z")
    )
    assert infer(ensemble, ["Y"], X=A).keys() == {"Y"}
    assert models.seen["never"] == []
    assert list(infer(ensemble, ["Z", "Y"], X=A)) == ["Z", "Y"]


def test_what_the_client_said_of_its_request_is_said_to_every_step(models: Models) -> None:
    ensemble = chain(models)
    given = InferRequest(
        "r7", (), timeout_us=5, priority=2, sequence=SequenceMark("s", start=True, end=False), parameters={"p": 1}
    )
    ensemble.infer(request_of(ensemble, given=given, X=A), lambda *_: None, FakeCall(), time.monotonic_ns())
    for (seen,) in (models.seen["double"], models.seen["increment"]):
        assert (seen.id, seen.timeout_us, seen.priority) == ("r7", 5, 2)
        assert (seen.sequence, seen.parameters) == (given.sequence, {"p": 1})


def test_optional_inputs_left_out_are_left_out_of_their_steps(models: Models) -> None:
    text = X_TO_Y + tensors("input", ("o", "FP32", [2]), extra="optional: true")
    models.add("offset", lambda a: {"y": a["x"] + a.get("o", np.float32(1))}, text)
    optional = tensors("input", ("O", "FP32", [2]), extra="optional: true")
    ensemble = models.ensemble(optional + graph(step("offset", {"x": "X", "o": "O"}, {"y": "Y"})))
    np.testing.assert_array_equal(infer(ensemble, X=A)["Y"], A + 1)
    np.testing.assert_array_equal(infer(ensemble, X=A, O=A)["Y"], A + A)


def test_an_output_a_model_does_not_answer_is_an_optional_input_left_out(models: Models) -> None:
    models.add("silent", lambda a: {"y": a["x"]}, X_TO_Y + tensors("output", ("z", "FP32", [2])))
    text = X_TO_Y + tensors("input", ("o", "FP32", [2]), extra="optional: true")
    models.add("offset", lambda a: {"y": a["x"] + a.get("o", np.float32(1))}, text)
    ensemble = models.ensemble(
        graph(step("silent", {"x": "X"}, {"y": "t", "z": "Z"}), step("offset", {"x": "t", "o": "Z"}, {"y": "Y"}), outputs="Y Z")
    )
    found = infer(ensemble, X=A)
    assert found.keys() == {"Y"}
    np.testing.assert_array_equal(found["Y"], A + 1)


@pytest.mark.parametrize(
    ("shape", "rows", "dims", "batched", "expected"),
    [
        ((3,), 0, (3,), True, (1, 3)),  # no batch -> a batch of one
        ((2, 3), 0, (3,), True, (2, 3)),  # already what a batching model takes
        ((1, 3), 1, (3,), False, (3,)),  # a batch of one -> no batch
        ((1, 3), 1, (-1, 3), False, (1, 3)),  # fits as it is
        ((2, 3), 2, (3,), False, (2, 3)),  # not to be mended here
        ((2, 3), 2, (3,), True, (2, 3)),
        ((3,), 0, (-1,), False, (3,)),
    ],
)
def test_batch_dimensions_come_and_go_as_in_triton(
    shape: tuple[int, ...], rows: int, dims: tuple[int, ...], batched: bool, expected: tuple[int, ...]
) -> None:
    assert fitted(Tensor("FP32", shape, memoryview(b""), rows), dims, batched=batched) == expected


def test_an_ensemble_without_batches_of_models_with_batches(models: Models) -> None:
    models.add("double", lambda a: {"y": a["x"] * 2})
    ensemble = models.ensemble(graph(step("double", {"x": "X"}, {"y": "Y"})), max_batch_size=0)
    np.testing.assert_array_equal(infer(ensemble, X=np.array([1.0, 2.0]))["Y"], [2.0, 4.0])


VARIABLE = tensors("input", ("x", "FP32", [-1])) + tensors("output", ("y", "FP32", [-1]))


def test_a_step_may_answer_another_number_of_elements(models: Models) -> None:
    models.add("repeat", lambda a: {"y": np.tile(a["x"], 3)}, VARIABLE, max_batch_size=0)
    text = tensors("input", ("X", "FP32", [-1])) + tensors("output", ("Y", "FP32", [-1]))
    steps = ", ".join([step("repeat", {"x": "X"}, {"y": "t"}), step("repeat", {"x": "t"}, {"y": "Y"})])
    ensemble = models.ensemble(f"{text} ensemble_scheduling {{ step [ {steps} ] }}", max_batch_size=0)
    assert infer(ensemble, X=np.array([1.0, 2.0]))["Y"].shape == (18,)


def fail(_arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    raise BackendError("I fail")


def test_a_steps_error_bears_the_names_of_the_ensembles_around_it(models: Models) -> None:
    models.add("bad", fail)
    inner = models.ensemble(graph(step("bad", {"x": "X"}, {"y": "Y"})), name="inner")
    with pytest.raises(BackendError) as raised:
        infer(inner, X=A)
    assert raised.value.text == "in ensemble 'inner', I fail"
    outer = models.ensemble(graph(step("inner", {"X": "X"}, {"Y": "Y"})), name="outer")
    with pytest.raises(BackendError) as raised:
        infer(outer, X=A)
    assert raised.value.text == "in ensemble 'outer', in ensemble 'inner', I fail"


def test_a_step_that_the_tensors_do_not_fit_names_the_request(models: Models) -> None:
    models.add("repeat", lambda a: {"y": np.tile(a["x"], 3)}, VARIABLE, max_batch_size=0)
    ensemble = models.ensemble(graph(step("repeat", {"x": "X"}, {"y": "Y"})))
    with pytest.raises(InvalidRequestError) as raised:
        infer(ensemble, X=A)
    assert raised.value.text.rstrip() == (
        "in ensemble 'e', [request id: <id_unknown>] unexpected shape for input 'x' for model 'repeat'. "
        "Expected [-1], got [2,2]."
    )


def test_a_full_queue_of_a_step_names_the_request(models: Models) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    models.add("busy", block, extra="dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    ensemble, sink = models.ensemble(graph(step("busy", {"x": "X"}, {"y": "Y"}))), Collected()
    stream(ensemble, sink, X=A)
    assert entered.wait(PATIENCE_S)
    for number in range(2):  # one waits, the other finds the queue full
        stream(ensemble, sink, InferRequest(f"r{number}", ()), X=A)
    assert sink.ended.acquire(timeout=PATIENCE_S)
    (refused,) = sink.errors
    assert refused is not None
    assert re.fullmatch(r"in ensemble 'e', \[request id: r[01]\] Exceeds maximum queue size", refused.text)
    go_on.set()


def test_an_exception_nobody_foresaw_is_an_error_and_no_success(models: Models) -> None:
    ensemble = chain(models)

    def frame(_request: CheckedRequest, _answer: Answer) -> None:
        raise ZeroDivisionError

    with pytest.raises(BackendError, match="ensemble 'e' failed: ZeroDivisionError"):
        ensemble.infer(request_of(ensemble, X=A), frame, FakeCall(), time.monotonic_ns())
    figures = ensemble.statistics.snapshot()
    assert (figures.success.count, figures.failed.count) == (0, 1)


def test_the_first_error_withdraws_what_waits(models: Models) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    def fail_late(_arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        raise BackendError("I fail")

    models.add("busy", block)
    models.add("bad", fail_late)
    ensemble = models.ensemble(graph(step("busy", {"x": "X"}, {"y": "Y"}), step("bad", {"x": "X"}, {"y": "Z"}), outputs="Y Z"))
    first = threading.Thread(target=infer, args=(models.loaded["busy"],), kwargs={"x": A})
    first.start()
    assert entered.wait(PATIENCE_S)
    with pytest.raises(BackendError, match="I fail"):  # although "busy" is not free, and will not be
        infer(ensemble, X=A)
    go_on.set()
    first.join(PATIENCE_S)
    assert len(models.seen["busy"]) == 1
    assert models.loaded["busy"].statistics.snapshot().failures[FailureReason.CANCELED].count == 1


def test_a_client_that_goes_away_takes_its_waiting_step_along(models: Models) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    models.add("busy", block)
    ensemble = models.ensemble(graph(step("busy", {"x": "X"}, {"y": "Y"})))
    first = threading.Thread(target=infer, args=(models.loaded["busy"],), kwargs={"x": A})
    first.start()
    assert entered.wait(PATIENCE_S)
    call = FakeCall()
    threading.Thread(target=_end_when_waiting, args=(call, models.loaded["busy"])).start()
    with pytest.raises(CancelledError):
        infer(ensemble, call=call, X=A)
    go_on.set()
    first.join(PATIENCE_S)
    assert ensemble.statistics.snapshot().failures[FailureReason.CANCELED].count == 1
    assert len(models.seen["busy"]) == 1


def _end_when_waiting(call: FakeCall, model: Model) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not model.waiting and time.monotonic() < deadline:
        time.sleep(0.001)
    call.end()


def test_statistics_are_one_execution_and_the_sums_of_the_steps(models: Models) -> None:
    ensemble = chain(models)
    infer(ensemble, X=A)
    infer(ensemble, X=A[:1])
    figures = ensemble.statistics.snapshot()
    assert (figures.inference_count, figures.execution_count, figures.success.count) == (3, 2, 2)
    assert figures.batches.keys() == {1, 2}
    steps = [models.loaded[name].statistics.snapshot() for name in ("double", "increment")]
    for phase in ("compute_input", "compute_infer", "compute_output"):
        assert getattr(figures, phase).ns == sum(getattr(one, phase).ns for one in steps)
        assert getattr(figures, phase).count == 2


def test_a_failed_request_counts_once_with_reason_other(models: Models) -> None:
    models.add("bad", fail)
    ensemble = models.ensemble(graph(step("bad", {"x": "X"}, {"y": "Y"})))
    with pytest.raises(BackendError):
        infer(ensemble, X=A)
    figures = ensemble.statistics.snapshot()
    assert {reason: d.count for reason, d in figures.failures.items() if d.count} == {FailureReason.OTHER: 1}
    assert (figures.success.count, figures.execution_count) == (0, 0)


def test_a_replaced_model_is_looked_up_again(models: Models) -> None:
    ensemble = chain(models)
    old = models.loaded["increment"]
    models.add("increment", lambda a: {"y": a["x"] + 100})
    new, waiting = models.loaded["increment"], iter([old])
    ensemble._lookup = lambda name, version: next(waiting, new) if name == "increment" else models.lookup(name, version)
    assert old.close(PATIENCE_S)
    np.testing.assert_array_equal(infer(ensemble, X=A)["Y"], A * 2 + 100)


def test_a_model_that_is_gone_is_an_error_and_a_reason(models: Models) -> None:
    ensemble = chain(models)
    assert ensemble.in_service
    gone = models.loaded.pop("increment")
    assert not ensemble.in_service
    assert ensemble.reason.startswith("ensemble 'e' depends on 'increment': Request for unknown model")
    with pytest.raises(NotFoundError, match="in ensemble 'e', Request for unknown model: 'increment' is not found"):
        infer(ensemble, X=A)
    gone.close(PATIENCE_S)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            graph(step("nope", {"x": "X"}, {"y": "Y"})),
            "ensemble e contains models that are not available or ambiguous: nope",
        ),
        (
            graph(step("double", {"x": "X"}, {"y": "Y"}, version=7)),
            "ensemble 'e' depends on 'double' whose required version 7 is not loaded.",
        ),
        (graph(step("many", {"x": "X"}, {"y": "Y"})), "in ensemble e, step of model 'many' is decoupled"),
        (graph(step("double", {"q": "X"}, {"y": "Y"})), "ensemble tensor X is mapping to non-existing input q in model double"),
        (
            graph(step("double", {"x": "X"}, {"q": "Y"})),
            "ensemble tensor Y is mapped from non-existing output q in model double",
        ),
    ],
)
def test_an_ensemble_that_does_not_fit_its_models_is_refused_at_load(models: Models, text: str, expected: str) -> None:
    models.add("double", lambda a: {"y": a["x"] * 2})
    models.add("many", lambda a: {"y": a["x"]}, extra="model_transaction_policy { decoupled: true }")
    with pytest.raises(ModelLoadError) as raised:
        models.ensemble(text)
    assert expected in str(raised.value)


class Collected:
    """A sink. ended: one release per request."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.errors: list[ServerError | None] = []
        self.ended = threading.Semaphore(0)

    def respond(self, framed: Any) -> None:
        self.answers.append(framed)

    def end(self, error: ServerError | None) -> None:
        self.errors.append(error)
        self.ended.release()


def stream(model: Model, sink: Collected, given: InferRequest | None = None, **arrays: np.ndarray) -> None:
    request = request_of(model, given=given, **arrays)
    model.stream(request, lambda _request, answer: arrays_of(answer, model.config)["Y"], FakeCall(), time.monotonic_ns(), sink)


def test_requests_of_a_stream_are_answered_or_fail_one_by_one(models: Models) -> None:
    ensemble, sink = chain(models), Collected()
    stream(ensemble, sink, X=A)
    assert sink.ended.acquire(timeout=PATIENCE_S)
    models.add("increment", fail)
    stream(ensemble, sink, X=A)
    assert sink.ended.acquire(timeout=PATIENCE_S)
    np.testing.assert_array_equal(sink.answers, [A * 2 + 1])
    assert [str(error) for error in sink.errors] == ["None", "in ensemble 'e', I fail"]


def test_requests_of_one_sequence_keep_their_order(models: Models) -> None:
    ensemble, sink = chain(models), Collected()
    for n in range(20):
        mark = SequenceMark(1 + n % 2, start=n < 2, end=n >= 18)
        stream(ensemble, sink, InferRequest(str(n), (), sequence=mark), X=A)
    for _ in range(20):
        assert sink.ended.acquire(timeout=PATIENCE_S)
    for sequence in (1, 2):
        ids = [int(request.id) for request in models.seen["double"] if request.sequence and request.sequence.id == sequence]
        assert ids == sorted(ids)
    assert ensemble._sequences == {}


def test_closing_waits_for_requests_in_flight_and_refuses_new_ones(models: Models) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def block(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    models.add("busy", block)
    ensemble = models.ensemble(graph(step("busy", {"x": "X"}, {"y": "Y"})))
    sink = Collected()
    stream(ensemble, sink, X=A)
    assert entered.wait(PATIENCE_S)
    assert not ensemble.close(0.0)
    with pytest.raises(ReplacedError):
        infer(ensemble, X=A)
    with pytest.raises(ReplacedError):
        stream(ensemble, sink, X=A)
    go_on.set()
    assert ensemble.close(PATIENCE_S)
    assert sink.errors == [None]


def test_a_model_that_is_always_replaced_ends_in_an_error(models: Models) -> None:
    ensemble = chain(models)
    assert models.loaded["double"].close(PATIENCE_S)
    with pytest.raises(
        UnavailableError, match="in ensemble 'e', Request for unknown model: 'double' version 1 is not at ready"
    ):
        infer(ensemble, X=A)
