# SPDX-License-Identifier: Apache-2.0
"""--sequence-header: single requests of sequences without the header are refused, and nothing else is."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.server.conftest import Running, Serve, tensor

HEADER = "route-key"
REASON = f"a request of a sequence has no header '{HEADER}', by which the balancer before this server sends all requests of a"
X = np.ones((1, 3), np.float32)


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(sequence_header=HEADER) as server:
        yield server


def http_tensor() -> Any:
    given = triton_http.InferInput("x", [1, 3], "FP32")
    given.set_data_from_numpy(X)
    return given


@pytest.mark.parametrize("mark", [{"sequence_id": 7}, {"sequence_id": "seven"}, {"sequence_id": 7, "sequence_start": True}])
def test_a_single_request_of_a_sequence_without_the_header_is_refused_with_the_reason(
    running: Running, mark: dict[str, Any]
) -> None:
    with pytest.raises(InferenceServerException, match=REASON) as error:
        running.infer(X, **mark)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    with (
        triton_http.InferenceServerClient(running.http.removeprefix("http://")) as client,
        pytest.raises(InferenceServerException, match=REASON) as error,
    ):
        client.infer("m", [http_tensor()], **mark)
    assert error.value.status() == "400"


def test_one_with_the_header_and_other_requests_are_answered(running: Running) -> None:
    assert running.infer(X, sequence_id=7, headers={HEADER: "m/7"}) == 3
    assert running.infer(X) == 3
    assert running.infer(X, priority=1) == 3
    with triton_http.InferenceServerClient(running.http.removeprefix("http://")) as client:
        for options in ({"sequence_id": 7, "headers": {HEADER.title(): "m/7"}}, {}):
            assert client.infer("m", [http_tensor()], **options).as_numpy("y") == 3


def test_requests_on_a_stream_need_no_header(running: Running) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: got.put(error or result))
        client.async_stream_infer("m", [tensor(X)], sequence_id=7, sequence_start=True)
        assert got.get(timeout=30).as_numpy("y") == 3
        client.stop_stream()


def test_without_the_option_nothing_is_refused(serve: Serve, tmp_path: Path) -> None:
    with serve() as running:
        assert running.infer(X, sequence_id=7) == 3
