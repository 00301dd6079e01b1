# SPDX-License-Identifier: Apache-2.0
"""A failed request in the log: which model's, which request, whose; one line whatever the client named it."""

from __future__ import annotations

import json
import logging
import queue
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.server.observe.log import LogControl, LogSettings
from tests.server.conftest import Running, Script, Serve, tensor

pytestmark = pytest.mark.usefixtures("restored_loggers")
X = np.ones((5, 3), np.float32)
HOSTILE = 'id"}\r\n{"level": "info", "message": "all is well"}\x1b[2J\u2028\u202e\U0001f600' + "x" * 500
JSON_REQUEST = {
    "id": HOSTILE,
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1.0, 2.0, 3.0]}],
}


@pytest.fixture(params=["default", "ISO8601", "json"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(format, file)."""
    path = tmp_path / "log"
    LogControl(LogSettings(log_file=str(path), log_format=request.param))
    yield request.param, path
    for handler in logging.getLogger("hypersonic").handlers:
        handler.close()


def unary(running: Running) -> None:
    with pytest.raises(InferenceServerException, match="failed"):
        running.infer(X, request_id=HOSTILE)


def streamed(running: Running) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error))
        client.async_stream_infer("m", [tensor(X)], request_id=HOSTILE)
        assert "failed" in str(answers.get(timeout=30))
        client.stop_stream()


def over_http(running: Running) -> None:
    request = urllib.request.Request(f"{running.http}/v2/models/m/infer", json.dumps(JSON_REQUEST).encode())
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(request, timeout=20)


@pytest.mark.parametrize("fail", [unary, streamed, over_http])
def test_a_failed_request_is_one_line_that_says_whose_it_was(serve: Serve, log: tuple[str, Path], fail: Any) -> None:
    log_format, path = log
    with serve(Script(fail_runs={1})) as running:
        fail(running)
    (line,) = [line for line in path.read_text().split("\n") if "run 1 failed" in line and "client" in line]
    assert line.isprintable()
    if log_format == "json":
        entry = json.loads(line)
        assert (entry["level"], entry["model"], entry["request_id"]) == ("error", "m", HOSTILE[:256])
        assert "127.0.0.1" in entry["client"]
    else:
        assert "run 1 failed (model 'm', request id 'id\"}" in line
        assert "client 'ipv4:127.0.0.1:" in line or "client '127.0.0.1:" in line


def test_every_line_of_a_json_log_is_json(tmp_path: Path) -> None:
    control = LogControl(LogSettings(log_file=str(tmp_path / "log"), log_format="json"))
    logger = logging.getLogger("hypersonic.server.test")
    fields: dict[Any, Any] = {"\ud800": "\udfff", "nan": float("nan"), "bytes": b"\xff", "deep": {("a",): 1}, "line\n": HOSTILE}
    for key, value in fields.items():
        logger.error("%s %r", key, value, extra={"fields": {key: value}})
    logger.error("x", extra={"fields": "no mapping"})
    logger.error("failed", exc_info=ValueError(HOSTILE))
    lines = (tmp_path / "log").read_text().split("\n")
    assert lines.pop() == ""
    entries = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert len(entries) == len(fields) + 2
    assert all(line.isprintable() for line in lines)
    assert HOSTILE in entries[-1]["exception"]
    assert control.settings.log_format == "json"
