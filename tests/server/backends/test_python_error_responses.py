# SPDX-License-Identifier: Apache-2.0
"""Responses of decoupled models one by one: errors among them, and what the server counts of each."""

from __future__ import annotations

import json
import queue
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hypersonic.server.app import Server
from hypersonic.server.statistics.duration import copied
from hypersonic.server.statistics.responses import MOST_INDICES, ResponseOutcome, ResponseStatistics
from tests.server.python_models import DECOUPLED, WORDS, source, write_python
from tests.server.python_serving import client_of, ended_requests, infer, serving, tensor
from tests.support.waiting import wait_until

#: an answer for each number; an error for a negative one; 9 raises
CODE = """
for request in requests:
    sender = request.get_response_sender()
    for value in x_of(request):
        if value == 9:
            raise ValueError("nine")
        error = pb_utils.TritonError("negative") if value < 0 else None
        sender.send(y(np.array([value])) if error is None else pb_utils.InferenceResponse(error=error))
    sender.send(flags=FINAL)
"""
ASKING = """
request = pb_utils.InferenceRequest(
    model_name="m", requested_output_names=["y"], inputs=[pb_utils.Tensor("x", np.array([1, -2, 3], np.float32))])
said = []
for each in request.exec(decoupled=True):
    said.append(each.error().message() if each.has_error() else [t.as_numpy().tolist() for t in each.output_tensors()])
return [text(json.dumps(said)) for _ in requests]
"""


FIGURES = ("compute_infer", "compute_output", "success", "fail", "empty_response")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("models")
    write_python(repository, "m", source(CODE), DECOUPLED)
    write_python(repository, "counted", source(CODE), DECOUPLED)
    write_python(repository, "asking", source(ASKING), WORDS)
    with serving(repository) as running:
        yield running


def answers(server: Server, *values: float, model: str = "m", empty: bool = True) -> list[Any]:
    """Every response to one request: what it holds, and whether it says that it is the last. Another request follows it."""
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with client_of(server) as client:
        client.start_stream(lambda result, error: got.put((result, error)))
        ask = client.async_stream_infer
        ask(model, [tensor(np.array(values, np.float32))], request_id="1", enable_empty_final_response=empty)
        responses: list[Any] = []
        while not responses or not responses[-1][1]:
            result, error = got.get(timeout=60)
            if error is not None:
                # tritonclient gives no more of it than the text
                responses.append((error.message(), error.message().startswith("Failed to process")))
                continue
            final = result.get_response().parameters["triton_final_response"].bool_param
            y = result.as_numpy("y")
            responses.append((None if y is None else y.tolist(), final))
        return responses


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, -2, 3), [([1], False), ("negative", False), ([3], False), (None, True)]),
        ((-1, -2), [("negative", False), ("negative", False), (None, True)]),
        ((-1,), [("negative", False), (None, True)]),
    ],
)
def test_what_follows_an_error_response_arrives(server: Server, values: tuple[float, ...], expected: list[Any]) -> None:
    assert answers(server, *values) == expected


def test_an_exception_after_an_error_response_ends_the_request(server: Server) -> None:
    first, (text, final) = answers(server, -1, 9)
    assert first == ("negative", False)
    assert final
    assert "ValueError: nine" in text


def test_a_model_that_asks_a_decoupled_one_gets_what_follows_an_error(server: Server) -> None:
    with client_of(server) as client:
        responses = json.loads(infer(client, np.ones(1, np.float32), "asking")[0])
    assert responses == [[[1.0]], "negative", [[3.0]], []]


def test_the_statistics_have_an_entry_for_each_response_of_a_request(server: Server) -> None:
    for values in ((1, -2, 3), (4,), (), (9,)):
        answers(server, *values, model="counted")
    with client_of(server) as client:
        wait_until(lambda: ended_requests(client, "counted") == 4)
        figures = client.get_inference_statistics("counted").model_stats[0]
    total = figures.inference_stats
    # a request with an error among its responses has failed
    assert (total.success.count, total.fail.count) == (2, 2)
    counts = {index: [getattr(each, name).count for name in FIGURES] for index, each in figures.response_stats.items()}
    assert counts == {"0": [4, 3, 2, 1, 1], "1": [2, 1, 0, 1, 1], "2": [1, 1, 1, 0, 0], "3": [1, 0, 0, 0, 1]}
    first = figures.response_stats["0"]
    assert first.success.ns > 0
    assert first.success.ns + first.fail.ns + first.empty_response.ns == first.compute_infer.ns + first.compute_output.ns
    address = server.addresses["HTTPService"]
    with urllib.request.urlopen(f"http://{address}/v2/models/counted/stats", timeout=60) as answer:
        (told,) = json.load(answer)["model_stats"]
    shown = {index: [each[name]["count"] for name in FIGURES] for index, each in told["response_stats"].items()}
    assert shown == counts


def test_a_model_that_answers_without_end_does_not_fill_the_memory_with_figures() -> None:
    statistics = ResponseStatistics()
    for index in range(3 * MOST_INDICES):
        statistics.add(index, ResponseOutcome.SUCCESS, 5, 3)
    kept = copied(statistics)
    assert len(kept.by_index) == MOST_INDICES
    assert all(each.success.count == 1 for each in kept.by_index.values())
    statistics.add(10**9, ResponseOutcome.FAIL, 5, 3)
    assert len(statistics.by_index) == MOST_INDICES


def test_what_a_client_takes_back_counts_as_cancelled() -> None:
    statistics = ResponseStatistics()
    statistics.add(2, ResponseOutcome.CANCEL, 7, 0)
    (entry,) = statistics.by_index.values()
    assert (entry.cancel.count, entry.compute_infer.count, entry.success.count, entry.fail.count) == (1, 0, 0, 0)
