# SPDX-License-Identifier: Apache-2.0
"""The statistics of decoupled models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.server.python_models import DECOUPLED, source, write_python
from tests.server.python_serving import client_of, ended_requests, serving, streamed
from tests.support.waiting import wait_until

ALL_IN_EXECUTE = """
for request in requests:
    sender = request.get_response_sender()
    for value in x_of(request):
        sender.send(y(np.array([value])))
    sender.send(flags=FINAL)
"""
LATER = """
def answer(sender):
    time.sleep(0.1)
    sender.send(flags=FINAL)
for request in requests:
    threading.Thread(target=answer, args=(request.get_response_sender(),)).start()
"""


@pytest.mark.parametrize(
    ("execute", "success", "fail"),
    [
        (ALL_IN_EXECUTE, 1, 0),
        (LATER, 1, 0),
        (ALL_IN_EXECUTE + "raise ValueError('the client has all its answers')", 1, 0),
        ("raise ValueError('at once')", 0, 1),
    ],
)
def test_a_decoupled_request_is_counted_once_whether_its_answers_or_its_run_end_first(
    tmp_path: Path, execute: str, success: int, fail: int
) -> None:
    write_python(tmp_path, "m", source(execute), DECOUPLED)
    with serving(tmp_path) as server, client_of(server) as client:
        streamed(server, np.arange(2, dtype=np.float32))
        wait_until(lambda: ended_requests(client, "m"))
        figures = client.get_inference_statistics("m").model_stats[0]
    stats = figures.inference_stats
    assert (stats.success.count, stats.fail.count, figures.execution_count) == (success, fail, 1)
    assert [part.count for part in (stats.queue, stats.compute_input, stats.compute_infer, stats.compute_output)] == [
        success
    ] * 4
    assert stats.queue.ns + stats.compute_input.ns + stats.compute_infer.ns + stats.compute_output.ns <= stats.success.ns
