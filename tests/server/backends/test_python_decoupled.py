# SPDX-License-Identifier: Apache-2.0
"""Models that answer by response senders: late, from other threads, any number of times."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.errors import BackendError, InstanceLostError
from tests.server.python_models import (
    DECOUPLED,
    DOUBLE,
    Stream,
    loaded,
    source,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_an_asynchronous_execute_is_awaited(tmp_path: Path) -> None:
    code = source("import asyncio\nawait asyncio.sleep(0)\n" + DOUBLE).replace("def execute", "async def execute")
    with loaded(tmp_path, code) as model:
        for _ in range(2):
            np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_a_plain_model_may_answer_by_its_response_sender_from_any_thread(tmp_path: Path) -> None:
    code = source("""
        def answer(sender, x):
            time.sleep(0.05)
            sender.send(y(2 * x), flags=FINAL)
        for request in requests:
            threading.Thread(target=answer, args=(request.get_response_sender(), x_of(request).copy())).start()
        """)
    with loaded(tmp_path, code) as model:
        for got, x in zip(model.run(X, 3 * X), (X, 3 * X), strict=True):
            np.testing.assert_array_equal(got, 2 * x)


@pytest.mark.parametrize("execute", ["return None", "return [None for _ in requests]", "requests[0].get_response_sender()"])
def test_a_request_that_nobody_can_answer_any_more_fails(tmp_path: Path, execute: str) -> None:
    with loaded(tmp_path, source(execute)) as model, pytest.raises(BackendError, match="without a final response"):
        model.run(X)


REPEAT = """
for request in requests:
    sender = request.get_response_sender()
    for value in x_of(request):
        sender.send(y(np.full(2, value, np.float32)))
    sender.send(flags=FINAL)
"""


def test_a_decoupled_model_answers_any_number_of_times(tmp_path: Path) -> None:
    with loaded(tmp_path, source(REPEAT), DECOUPLED) as model:
        assert model.stream(X[0]).wait() == [[0, 0], [1, 1], [2, 2]]
        assert model.stream(X[1][:1]).wait() == [[3, 3]]


def test_a_decoupled_model_answers_after_execute_and_while_the_next_one_runs(tmp_path: Path) -> None:
    code = source(
        """
        def answer(request, sender):
            self.turns.acquire()
            sender.send(y(x_of(request)), flags=FINAL)
        for request in requests:
            if x_of(request)[0] < 0:
                self.turns.release(2)
                request.get_response_sender().send(flags=FINAL)
            else:
                threading.Thread(target=answer, args=(request, request.get_response_sender())).start()
        """,
        "self.turns = threading.Semaphore(0)",
    )
    with loaded(tmp_path, code, DECOUPLED) as model:
        first, second = model.stream(X[0]), model.stream(X[1])
        assert not first.ended.is_set()
        assert model.stream(-X[1]).wait() == []
        assert (first.wait(), second.wait()) == ([[0, 1, 2]], [[3, 4, 5]])


def test_coroutines_of_a_decoupled_model_go_on_side_by_side(tmp_path: Path) -> None:
    code = source("""
        import asyncio
        request = requests[0]
        self.events = getattr(self, "events", None) or {}
        event = self.events.setdefault(float(abs(x_of(request)[0])), asyncio.Event())
        if x_of(request)[0] < 0:
            event.set()
        else:
            await event.wait()
        request.get_response_sender().send(y(x_of(request)), flags=FINAL)
        """).replace("def execute", "async def execute")
    with loaded(tmp_path, code, DECOUPLED) as model:
        first = model.stream(X[1])
        assert model.stream(-X[1]).wait() == [[-3, -4, -5]]
        assert first.wait() == [[3, 4, 5]]


@pytest.mark.parametrize(
    ("execute", "answers", "text"),
    [
        ("raise ValueError('boom')", 0, "message: ValueError: boom\n\nAt:\n  m/1/model.py(21): execute\n"),
        (
            "s = requests[0].get_response_sender()\ns.send(y(x_of(requests[0])))\nraise ValueError('boom')",
            1,
            "message: ValueError: boom\n\nAt:\n  m/1/model.py(23): execute\n",
        ),
        ("return []", 0, "Python model 'm_0' is using the decoupled mode and the execute function must return None."),
        ("requests[0].get_response_sender().send(y(x_of(requests[0])))", 1, "without a final response"),
        (
            "requests[0].get_response_sender().send(pb_utils.InferenceResponse(error=pb_utils.TritonError('mine')), FINAL)",
            0,
            "mine",
        ),
    ],
)
def test_a_decoupled_request_that_fails_ends_with_the_reason(tmp_path: Path, execute: str, answers: int, text: str) -> None:
    with loaded(tmp_path, source(execute), DECOUPLED) as model:
        stream = model.stream(X[0])
        assert len(stream.wait()) == answers
        assert text in str(stream.error)
        assert model.instance.in_service


def test_sending_what_cannot_be_sent_is_the_models_mistake(tmp_path: Path) -> None:
    code = source("""
        s = requests[0].get_response_sender()
        said = []
        for arguments in ((y(np.ones(1)), 7), (None, 0), (5, 0)):
            try:
                s.send(*arguments)
            except Exception as error:
                said.append(str(error))
        s.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([" ".join(said).encode()], np.object_))]), FINAL)
        try:
            s.send(flags=FINAL)
        except pb_utils.TritonModelException as error:
            assert str(error) == "Unable to send response. Response sender has been closed."
        """)
    with loaded(tmp_path, code, DECOUPLED) as model:
        stream = model.stream(X[0])
        assert stream.ended.wait(60)
        text = stream.answers[0]["y"][0].decode()
        assert "Unable to send response. Unsupported flag provided." in text
        assert "Inference Response object must be provided when the response flags is set to zero." in text


def test_open_streams_of_a_process_that_dies_end_with_an_error(tmp_path: Path) -> None:
    responded = threading.Event()
    with loaded(
        tmp_path, source("self.kept = requests\nrequests[0].get_response_sender().send(y(np.ones(1)))"), DECOUPLED
    ) as model:
        stream = Stream(responded.set)
        model.instance.slots[0].start([model.share(X[0], stream=stream)])
        model.instance.slots[0].finish()
        assert responded.wait(60)
        os.kill(model.instance.process.pid, signal.SIGKILL)
        assert stream.wait() == [[1.0]]
        assert str(stream.error) == "Stub process 'm_0' is not healthy."


@pytest.mark.parametrize("streams", [0, 1])
def test_a_run_is_not_blamed_for_a_death_while_an_earlier_request_is_still_open(tmp_path: Path, streams: int) -> None:
    code = source(
        "if x_of(requests[0])[0] < 0: os._exit(1)\nself.kept = [request.get_response_sender() for request in requests]"
    )
    with loaded(tmp_path, code, DECOUPLED) as model:
        slot = model.instance.slots[0]
        for _ in range(streams):
            slot.start([model.share(X[0], stream=Stream())])
            slot.finish()
        slot.start([model.share(-1 - X[0], stream=Stream())])
        with pytest.raises(InstanceLostError) as lost:
            slot.finish()
        assert lost.value.by_run == (not streams)


def test_a_decoupled_model_sees_that_its_client_went_away(tmp_path: Path) -> None:
    code = source("""
        def wait(sender):
            while not sender.is_cancelled():
                time.sleep(0.01)
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("gone")), FINAL)
        threading.Thread(target=wait, args=(requests[0].get_response_sender(),)).start()
        """)
    with loaded(tmp_path, code, DECOUPLED) as model:
        stream = Stream()
        share = model.share(X[0], stream=stream)
        model.instance.slots[0].start([share])
        model.instance.slots[0].finish()
        share.pending.cancelled = True
        assert stream.ended.wait(60)
        assert str(stream.error) == "gone"
