# SPDX-License-Identifier: Apache-2.0
"""Requests that end their model's process: what becomes of those that were in the same run."""

from __future__ import annotations

import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.server.app import Server
from hypersonic.server.core.scheduling.lost_run import MOST_LOSSES
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import FailureReason
from tests.server.python_models import DOUBLE, FLOATS, source, write_python
from tests.server.python_serving import client_of, infer, serving, streamed, tensor
from tests.support.waiting import wait_until

ROWS = 8
HEALTHY = r"Stub process 'm_0' is not healthy\."
#: a run is sent at once when it is full, and not before
FULL = FLOATS + "dynamic_batching { max_queue_delay_microseconds: 60000000 }"
#: a line for each run: how many requests it has
NOTE = """
with open({path!r}, "a") as file:
    file.write(f"{{len(requests)}}\\n")
"""
#: by exit, by a segmentation fault, and as the kernel does that is out of memory
KILL = """
for request in requests:
    if x_of(request)[0, 0] == -1:
        os._exit(3)
    if x_of(request)[0, 0] == -2:
        __import__("ctypes").string_at(0)
    if x_of(request)[0, 0] == -3:
        os.kill(os.getpid(), 9)
"""


def row(value: float) -> np.ndarray:
    return np.full((1, 3), value, np.float32)


def write(repository: Path, initialize: str = "pass") -> Path:
    """A model that is killed by negative numbers; the file with its runs."""
    runs = repository.parent / "runs"
    write_python(repository, "m", source(NOTE.format(path=str(runs)) + KILL + DOUBLE, initialize), FULL)
    return runs


def ask_all(client: triton.InferenceServerClient, values: list[float], pool: ThreadPoolExecutor) -> list[Future[np.ndarray]]:
    return [pool.submit(infer, client, row(value)) for value in values]


def counts(client: triton.InferenceServerClient) -> tuple[int, int, int, int]:
    """success, fail, rows, runs."""
    figures = client.get_inference_statistics("m").model_stats[0]
    stats = figures.inference_stats
    return stats.success.count, stats.fail.count, figures.inference_count, figures.execution_count


def test_requests_that_kill_their_process_take_none_of_their_run_along(tmp_path: Path) -> None:
    runs = write(tmp_path / "models")
    with serving(tmp_path / "models") as server, client_of(server) as client, ThreadPoolExecutor(ROWS) as pool:
        values = [1.0, 2.0, -1.0, 3.0, -2.0, -3.0, 4.0, 5.0]
        for value, answer in zip(values, ask_all(client, values, pool), strict=True):
            if value < 0:
                with pytest.raises(InferenceServerException, match=HEALTHY) as caught:
                    answer.result(60)
                assert caught.value.status() == "StatusCode.INTERNAL", "UNAVAILABLE would invite the client to try again"
            else:
                np.testing.assert_array_equal(answer.result(60), 2 * row(value))
        assert counts(client) == (5, 3, 5, 5)
    assert runs.read_text().split() == [str(ROWS), *["1"] * ROWS], "each request runs again once, alone"


def test_a_run_full_of_killers_ends_a_bounded_number_of_processes(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    runs = write(tmp_path / "models", initialize=f"open({str(starts)!r}, 'a').write('x')")
    with serving(tmp_path / "models") as server, client_of(server) as client, ThreadPoolExecutor(ROWS) as pool:
        failures = []
        for answer in ask_all(client, [-1.0] * ROWS, pool):
            with pytest.raises(InferenceServerException, match=HEALTHY) as caught:
                answer.result(60)
            failures.append((caught.value.status(), "not tried again" in caught.value.message()))
        assert failures.count(("StatusCode.INTERNAL", False)) == MOST_LOSSES
        assert failures.count(("StatusCode.UNAVAILABLE", True)) == ROWS - MOST_LOSSES
        assert counts(client) == (0, ROWS, 0, 0)
        for answer in ask_all(client, [1.0] * ROWS, pool):  # the model is still there
            np.testing.assert_array_equal(answer.result(60), 2 * row(1.0))
    assert runs.read_text().split() == [str(ROWS), *["1"] * MOST_LOSSES, str(ROWS)]
    assert len(starts.read_text()) == 1 + 1 + MOST_LOSSES


def slow_to_come_back(tmp_path: Path) -> tuple[str, Path]:
    """(of initialize, a file): the model's second process waits until there is that file."""
    once, go = tmp_path / "once", tmp_path / "go"
    waiting = f"while not os.path.exists({str(go)!r}):\n        time.sleep(0.01)"
    return f"if os.path.exists({str(once)!r}):\n    {waiting}\nopen({str(once)!r}, 'a')", go


def reviving(server: Server) -> bool:
    return not next(iter(server.repository.model("m").figures.values())).in_service


def test_a_request_whose_client_has_gone_does_not_run_again(tmp_path: Path) -> None:
    initialize, go = slow_to_come_back(tmp_path)
    runs = write(tmp_path / "models", initialize=initialize)
    with serving(tmp_path / "models") as server, client_of(server) as client, ThreadPoolExecutor(ROWS) as pool:
        done = threading.Event()
        waiting = client.async_infer("m", [tensor(row(7.0))], callback=lambda result, error: done.set())
        answers = ask_all(client, [-1.0, *map(float, range(1, ROWS - 1))], pool)
        wait_until(lambda: reviving(server))
        waiting.cancel()
        model = server.repository.model("m")
        assert isinstance(model, ScheduledModel)
        batcher = model.scheduler.batcher
        wait_until(lambda: len(batcher) == ROWS - 1)
        go.touch()
        for answer in answers[1:]:
            assert answer.result(60) is not None
        assert done.wait(60)
        failures = server.repository.model("m").statistics.snapshot().failures
        wait_until(answers[0].done)
        assert failures[FailureReason.CANCELED].count == 1
    assert runs.read_text().split() == [str(ROWS), *["1"] * (ROWS - 1)]


STREAMS = """
max_batch_size: 8
model_transaction_policy { decoupled: true }
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
dynamic_batching { max_queue_delay_microseconds: 60000000 preferred_batch_size: [ 3 ] }
"""


def test_of_a_decoupled_run_those_that_have_answered_nothing_run_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = source(
        NOTE.format(path=str(runs))
        + textwrap.dedent("""
        by = {int(x_of(request)[0, 0]): request.get_response_sender() for request in requests}
        if 1 in by:
            by[1].send(y(np.full((1, 3), len(requests), np.float32)))
        if -1 in by:
            os._exit(1)
        for value, sender in by.items():
            sender.send(y(np.full((1, 3), value, np.float32)), flags=FINAL)
        """)
    )
    write_python(tmp_path / "models", "m", code, STREAMS)
    with serving(tmp_path / "models") as server, ThreadPoolExecutor(3) as pool:
        answered, killer, waiting = pool.map(lambda value: streamed(server, row(value)), (1.0, -1.0, 2.0))
        assert answered == [row(3.0).tolist(), "Stub process 'm_0' is not healthy."]
        assert len(killer) == 1
        assert "Stub process 'm_0' is not healthy." in killer[0]
        assert waiting == [row(2.0).tolist()]
        with client_of(server) as client:
            wait_until(lambda: counts(client)[:2] == (1, 2))
    assert runs.read_text().split() == ["3", "1", "1"]
