# SPDX-License-Identifier: Apache-2.0
"""Ensembles: cancellation, streams, sequences."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import pytest

from hypersonic.server.core.ensemble.model import STREAM_THREADS
from hypersonic.server.core.inference.collect import Array
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.inference.parameters import SequenceMark
from hypersonic.server.core.inference.request import InferRequest
from hypersonic.server.errors import (
    BackendError,
    CancelledError,
    FailureReason,
    ModelLoadError,
    NotFoundError,
    ReplacedError,
    UnavailableError,
)
from tests.server.core.ensemble.ensemble_models import (
    PATIENCE_S,
    A,
    Collected,
    FakeCall,
    Models,
    chain,
    fail,
    graph,
    infer,
    step,
    stream,
)
from tests.support.waiting import holds_within


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
    holds_within(lambda: model.waiting, PATIENCE_S, 0.001)
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
    ensemble._lookup = lambda name, version, **_: next(waiting, new) if name == "increment" else models.lookup(name, version)
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
        (
            graph(step("many", {"x": "X"}, {"y": "Y"}), step("double", {"x": "X"}, {"y": "Z"}), outputs="Y Z"),
            "in ensemble e, step of model 'e' receives inputs originated from different decoupled models",
        ),
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


def test_an_address_with_many_streamed_requests_leaves_threads_to_another(models: Models) -> None:
    runs = threading.Semaphore(0)

    def wait_for_leave(arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        assert runs.acquire(timeout=PATIENCE_S)
        return {"y": arrays["x"]}

    models.add("slow", wait_for_leave)
    ensemble = models.ensemble(graph(step("slow", {"x": "X"}, {"y": "Y"})))
    many = 100
    greedy, patient = Collected(), Collected()
    for number in range(many):
        stream(ensemble, greedy, call=FakeCall(f"10.0.0.1:{number}"), X=A)
    half = holds_within(lambda: models.loaded["slow"].waiting == STREAM_THREADS // 2 - 1, PATIENCE_S)  # one runs
    stream(ensemble, patient, call=FakeCall("10.0.0.2:1"), X=A)
    queued = holds_within(lambda: models.loaded["slow"].waiting == STREAM_THREADS // 2, PATIENCE_S)
    runs.release(STREAM_THREADS // 2 + 1)  # one run for each connection whose request is in the queue
    answered = patient.ended.acquire(timeout=PATIENCE_S)
    runs.release(many)  # in any case, so that the models can be closed
    assert half, "one address has more than half of the threads"
    assert queued, "the request waits behind those of the other address"
    assert answered
    assert all(greedy.ended.acquire(timeout=PATIENCE_S) for _ in range(many))
