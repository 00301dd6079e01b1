# SPDX-License-Identifier: Apache-2.0
"""Ensembles of models in this process: what runs when, what passes on, what errors and statistics say."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping

import numpy as np
import pytest

from hypersonic.server.core.ensemble.run import StepTensor, fitted
from hypersonic.server.core.inference.answer import Answer
from hypersonic.server.core.inference.collect import Array
from hypersonic.server.core.inference.parameters import SequenceMark
from hypersonic.server.core.inference.request import CheckedRequest, InferRequest
from hypersonic.server.errors import (
    BackendError,
    InvalidRequestError,
)
from tests.server.core.ensemble.ensemble_models import (
    PATIENCE_S,
    X_TO_Y,
    A,
    Collected,
    FakeCall,
    Models,
    chain,
    fail,
    graph,
    infer,
    request_of,
    step,
    stream,
)
from tests.server.onnx_graphs import arrays_of, tensors


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
    outputs = infer(ensemble, X=A)
    np.testing.assert_array_equal(outputs["Y"], A * 10)
    np.testing.assert_array_equal(outputs["Z"], A)


def test_steps_for_outputs_nobody_asked_for_do_not_run(models: Models) -> None:
    models.add("double", lambda a: {"y": a["x"] * 2})
    models.add("never", lambda a: {"y": a["x"]})
    ensemble = models.ensemble(
        graph(step("double", {"x": "X"}, {"y": "Y"}), step("never", {"x": "X"}, {"y": "Z"}), outputs="Y Z")
    )
    assert infer(ensemble, ["Y"], X=A).keys() == {"Y"}
    assert models.seen["never"] == []
    assert list(infer(ensemble, ["Z", "Y"], X=A)) == ["Z", "Y"]


def test_max_inflight_requests_of_newer_configurations_is_kept_whatever_it_is(models: Models) -> None:
    models.add("m", lambda a: {"y": a["x"]})
    text = graph(step("m", {"x": "X"}, {"y": "t"}), step("m", {"x": "t"}, {"y": "Y"}))
    ensemble = models.ensemble(text.replace("step [", "max_inflight_requests: 1 step ["))
    assert ensemble.config.message.ensemble_scheduling.max_inflight_requests == 1
    np.testing.assert_array_equal(infer(ensemble, X=A)["Y"], A)


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
    outputs = infer(ensemble, X=A)
    assert outputs.keys() == {"Y"}
    np.testing.assert_array_equal(outputs["Y"], A + 1)


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
    assert fitted(StepTensor("FP32", shape, memoryview(b""), rows), dims, batched=batched) == expected


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
    assert (figures.success.count, figures.fail.count) == (0, 1)
