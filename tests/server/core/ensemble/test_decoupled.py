# SPDX-License-Identifier: Apache-2.0
"""Ensembles with decoupled steps: each response goes through the steps that follow. Answers as a real tritonserver's."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.server.app import Server
from hypersonic.server.core.ensemble import phases as ensemble_phases
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.model import Call, Sink
from hypersonic.server.core.inference.request import CheckedRequest, Frame
from hypersonic.server.errors import BackendError, ServerError
from tests.server.core.ensemble.ensemble_models import (
    PATIENCE_S,
    X_TO_Y,
    A,
    Collected,
    FakeCall,
    Models,
    graph,
    request_of,
    step,
    stream,
)
from tests.server.onnx_graphs import config_of
from tests.server.python_models import source, write_python
from tests.server.python_serving import client_of, serving
from tests.support.waiting import wait_until

ONE = 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]'
#: x -> 0, 1, ..., x - 1; then an error where x is 7
REPEAT = """
for request in requests:
    x, sender = x_of(request), request.get_response_sender()
    for number in range(int(x[0])):
        sender.send(y(np.full_like(x, number)))
    if x[0] == 7:
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("seven")))
    sender.send(flags=FINAL)
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"
REP, DOUBLE = step("rep", {"x": "X"}, {"y": "t"}), step("double", {"x": "t"}, {"y": "Y"})
ENSEMBLES = {
    "then": graph(REP, DOUBLE),
    "twice": graph(REP, step("rep", {"x": "t"}, {"y": "Y"})),
    "alone": graph(step("rep", {"x": "X"}, {"y": "Y"})),
    "both": graph(step("rep", {"x": "X"}, {"y": "Y"}), step("double", {"x": "Y"}, {"y": "Z"}), outputs="Y Z"),
    "within": graph(step("then", {"X": "X"}, {"Y": "t"}), DOUBLE),
    "before": graph(step("double", {"x": "X"}, {"y": "t"}), step("rep", {"x": "t"}, {"y": "Y"})),
    "mixed": graph(REP, step("add", {"a": "t", "b": "X"}, {"y": "Y"})),
    "parallel": graph(step("rep", {"x": "X"}, {"y": "Y"}), step("double", {"x": "X"}, {"y": "Z"}), outputs="Y Z"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    repository = tmp_path_factory.mktemp("models")
    write_python(repository, "rep", source(REPEAT), ONE + DECOUPLED)
    write_python(repository, "double", source("return [y(2 * x_of(request)) for request in requests]"), ONE)
    more = 'input [ { name: "b" data_type: TYPE_FP32 dims: [ 2 ] } ]'
    write_python(repository, "add", source("return []"), ONE.replace("x", "a", 1) + more)
    for name, text in ENSEMBLES.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(f'platform: "ensemble" {text}')
    with serving(repository, strict_readiness=False) as running:
        yield running


def given(value: float) -> triton.InferInput:
    x = triton.InferInput("X", [2], "FP32")
    x.set_data_from_numpy(np.full(2, value, np.float32))
    return x


def streamed(server: Server, model: str, value: float) -> list[Any]:
    """Each response's first element by output, the last one's None for being final; or an error's text."""
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    answers: list[Any] = []
    with client_of(server) as client:
        client.start_stream(lambda result, error: got.put(error or result))
        client.async_stream_infer(model, [given(value)], enable_empty_final_response=True)
        while True:
            answer = got.get(timeout=PATIENCE_S)
            if isinstance(answer, InferenceServerException):
                return [*answers, answer.message()]
            outputs = {output.name: answer.as_numpy(output.name)[0] for output in answer.get_response().outputs}
            answers += [outputs] if outputs else []
            if answer.get_response().parameters["triton_final_response"].bool_param:
                return answers


@pytest.mark.parametrize(
    ("model", "value", "expected"),
    [
        ("then", 2, [{"Y": 0}, {"Y": 2}]),
        ("then", 0, []),
        ("then", 7, [*({"Y": 2 * n} for n in range(7)), "in ensemble 'then', seven"]),
        ("twice", 4, [{"Y": 0}, {"Y": 0}, {"Y": 1}, {"Y": 0}, {"Y": 1}, {"Y": 2}]),
        ("alone", 3, [{"Y": 0}, {"Y": 1}, {"Y": 2}]),
        ("both", 2, [{"Y": 0, "Z": 0}, {"Y": 1, "Z": 2}]),
        ("within", 3, [{"Y": 0}, {"Y": 4}, {"Y": 8}]),
        ("before", 1, [{"Y": 0}, {"Y": 1}]),
    ],
)
def test_each_response_goes_through_the_steps_that_follow(
    server: Server, model: str, value: float, expected: list[Any]
) -> None:
    assert streamed(server, model, value) == expected


def test_an_ensemble_is_decoupled_when_a_step_is(server: Server) -> None:
    with client_of(server) as client:
        assert client.get_model_config("within").config.model_transaction_policy.decoupled
        with pytest.raises(InferenceServerException, match="ModelInfer RPC doesn't support models with decoupled"):
            client.infer("then", [given(1)])
        rows = {row.name: row.reason for row in client.get_model_repository_index().models}
        before = client.get_inference_statistics("both").model_stats[0].inference_stats
        assert streamed(server, "both", 7)[-1] == "in ensemble 'both', seven"
        assert len(streamed(server, "both", 5)) == 5
        after = client.get_inference_statistics("both").model_stats[0].inference_stats
    for name in ("mixed", "parallel"):
        assert f"in ensemble {name}, step of model '{name}' receives inputs originated from different decoupled" in rows[name]
    assert (after.success.count - before.success.count, after.fail.count - before.fail.count) == (1, 1)


class Repeater:
    """A decoupled model in memory: its responses come when the test sends them."""

    def __init__(self) -> None:
        self.config = config_of(f"max_batch_size: 8 {X_TO_Y} {DECOUPLED}", "rep")
        self.version, self.name = 1, "rep"
        self.requests: queue.SimpleQueue[tuple[Sink, Callable[[float], None], Call]] = queue.SimpleQueue()

    def stream(self, request: CheckedRequest, frame: Frame, call: Call, arrived_ns: int, sink: Sink) -> None:
        del arrived_ns

        def respond(value: float) -> None:
            data = np.full((1, 2), value, np.float32).tobytes()
            sink.respond(frame(request, Answer((Output(0, "FP32", (1, 2), (data,), len(data)),))))

        self.requests.put((sink, respond, call))

    def close(self, timeout_s: float) -> bool:
        return timeout_s > 0


@pytest.fixture
def repeater(models: Models) -> Repeater:
    models.loaded["rep"] = model = Repeater()  # type: ignore[assignment] # it has only the methods that a step needs
    return model


def ended(sink: Collected) -> Sequence[ServerError | None]:
    assert sink.ended.acquire(timeout=PATIENCE_S)
    return sink.errors


def test_a_response_goes_on_while_the_model_still_works(models: Models, repeater: Repeater) -> None:
    models.add("double", lambda a: {"y": a["x"] * 2})
    sink = Collected()
    stream(models.ensemble(graph(REP, DOUBLE)), sink, X=A[:1])
    step_sink, respond, _ = repeater.requests.get(timeout=PATIENCE_S)
    for value in (1.0, 2.0):
        respond(value)
        wait_until(lambda: len(sink.answers) >= value, PATIENCE_S)  # noqa: B023 - it is called before the next value
    step_sink.end(None)
    assert ended(sink) == [None]
    assert [answer.tolist() for answer in sink.answers] == [[[2.0, 2.0]], [[4.0, 4.0]]]


def test_a_step_that_fails_gives_up_what_its_model_still_sends(models: Models, repeater: Repeater) -> None:
    def refuse(_arrays: Any) -> Any:
        raise BackendError("no")

    models.add("double", refuse)
    sink, withdrawn = Collected(), threading.Event()
    stream(models.ensemble(graph(REP, DOUBLE)), sink, X=A[:1])
    step_sink, respond, call = repeater.requests.get(timeout=PATIENCE_S)
    call.add_callback(withdrawn.set)
    respond(1.0)
    assert withdrawn.wait(PATIENCE_S)
    respond(2.0)
    assert sink.errors == []  # the model still reads the request's bytes
    step_sink.end(None)
    assert [str(error) for error in ended(sink)] == ["in ensemble 'e', no"]


def test_responses_that_wait_are_bounded(models: Models, repeater: Repeater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble_phases, "MOST_WAITING_BYTES", 24)
    entered, go_on = threading.Event(), threading.Event()

    def slow(arrays: Any) -> Any:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return {"y": arrays["x"]}

    models.add("double", slow)
    sink = Collected()
    stream(models.ensemble(graph(REP, DOUBLE)), sink, X=A[:1])
    step_sink, respond, _ = repeater.requests.get(timeout=PATIENCE_S)
    respond(0.0)
    assert entered.wait(PATIENCE_S)
    for value in (1.0, 2.0, 3.0, 4.0):  # 8 bytes each
        respond(value)
    step_sink.end(None)
    go_on.set()
    (error,) = ended(sink)
    assert "responses of a decoupled step that wait for the next one hold more than 24 bytes" in str(error)
    assert [answer[0][0] for answer in sink.answers] == [0.0, 1.0, 2.0, 3.0]


def test_a_client_that_goes_away_ends_it_at_the_next_response(models: Models, repeater: Repeater) -> None:
    models.add("double", lambda a: {"y": a["x"]})
    ensemble, sink, client = models.ensemble(graph(REP, DOUBLE)), Collected(), FakeCall()
    ensemble.stream(request_of(ensemble, X=A[:1]), lambda *_: None, client, time.monotonic_ns(), sink)
    step_sink, respond, call = repeater.requests.get(timeout=PATIENCE_S)
    client.end()
    assert not call.is_active()
    respond(1.0)
    step_sink.end(None)
    assert "cancelled by its client" in str(ended(sink)[0])
    assert sink.answers == []


def test_an_ensemble_follows_a_model_that_becomes_decoupled(tmp_path: Path) -> None:
    write_python(tmp_path, "rep", source("return [y(x_of(request)) for request in requests]"), ONE)
    (tmp_path / "alone" / "1").mkdir(parents=True)
    (tmp_path / "alone" / "config.pbtxt").write_text(f'platform: "ensemble" {ENSEMBLES["alone"]}')
    with serving(tmp_path, model_control_mode="explicit", load_model=("alone",)) as server, client_of(server) as client:
        assert client.infer("alone", [given(3)]).as_numpy("Y")[0] == 3
        (tmp_path / "rep" / "1" / "model.py").write_text(source(REPEAT))
        (tmp_path / "rep" / "config.pbtxt").write_text(f'backend: "python" {ONE} {DECOUPLED}')
        client.load_model("rep")
        assert streamed(server, "alone", 2) == [{"Y": 0}, {"Y": 1}]
