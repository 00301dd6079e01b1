# SPDX-License-Identifier: Apache-2.0
"""Traces of real requests, over gRPC, its stream and HTTP, as an OpenTelemetry collector receives them."""

from __future__ import annotations

import json
import queue
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.server.conftest import Running, Serve, tensor
from tests.server.observe.tracing.otlp import Collector, attributes, collecting
from tests.support.server_program import program

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
HEADERS = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}
X = np.ones((5, 3), np.float32)


def config(collector: Collector, *more: str) -> tuple[str, ...]:
    batch = ("opentelemetry,bsp_schedule_delay=100",)
    return ("mode=opentelemetry", f"opentelemetry,url={collector.url}", "level=TIMESTAMPS", *batch, *more)


@pytest.mark.parametrize("path", ["", "/v1/traces"])
def test_a_collector_named_without_a_scheme_gets_the_spans(serve: Serve, path: str) -> None:
    with collecting() as collector:
        url = collector.url.removeprefix("http://").removesuffix("/v1/traces") + path
        options = ("mode=opentelemetry", f"opentelemetry,url={url}", "level=TIMESTAMPS", "rate=1")
        with serve(trace_config=options) as running:
            running.infer(X)
        collector.wait_for(lambda c: "InferRequest" in c.names)
    assert set(collector.paths) == {"/v1/traces"}


def models_spans(collector: Collector) -> list[dict[str, Any]]:
    return [attributes(span) for span in collector.spans if span.name == "m"]


def nested(collector: Collector, trace_id: bytes) -> None:
    """Every span of the trace lies within its parent; the three parts of the run follow each other."""
    spans = collector.of_trace(trace_id)
    by_id = {span.span_id: span for span in spans.values()}
    for span in spans.values():
        outer = by_id.get(span.parent_span_id)
        if outer is not None:
            assert outer.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= outer.end_time_unix_nano
    parts = [spans[name] for name in ("queue", "compute_input", "compute_infer", "compute_output")]
    for before, after in pairwise(parts):
        assert before.end_time_unix_nano <= after.start_time_unix_nano


def test_each_sampled_request_is_a_trace_of_nested_spans(serve: Serve) -> None:
    with collecting() as collector, serve(trace_config=config(collector, "rate=2")) as running:
        for n in range(6):
            running.infer(X, request_id=f"r{n}")
        collector.wait_for(lambda c: c.names.count("InferRequest") == 3)
        assert sorted(str(span["triton.request_id"]) for span in models_spans(collector)) == ["r1", "r3", "r5"]
        for span in [span for span in collector.spans if span.name == "InferRequest"]:
            assert len(collector.of_trace(span.trace_id)) == 7
            nested(collector, span.trace_id)


def over_grpc(running: Running) -> None:
    running.infer(X, headers=HEADERS)


def over_a_stream(running: Running) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with triton.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)), headers=HEADERS)
        client.async_stream_infer("m", [tensor(X)])
        result, error = answers.get(timeout=30)
        client.stop_stream()
    assert error is None
    assert result.as_numpy("y").shape == (5, 1)


def over_http(running: Running) -> None:
    body = {"inputs": [{"name": "x", "shape": [5, 3], "datatype": "FP32", "data": X.tolist()}]}
    request = urllib.request.Request(f"{running.http}/v2/models/m/infer", json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["outputs"][0]["shape"] == [5, 1]


@pytest.mark.parametrize("send", [over_grpc, over_a_stream, over_http])
def test_the_clients_trace_goes_on_in_the_server(serve: Serve, send: Any) -> None:
    with collecting() as collector, serve(trace_config=config(collector, "rate=1000")) as running:
        running.infer(X)
        send(running)
        collector.wait_for(lambda c: "InferRequest" in c.names)
        (root,) = [span for span in collector.spans if span.name == "InferRequest"]
        assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE_ID, "b7ad6b7169203331")
        nested(collector, root.trace_id)


def test_a_request_that_is_refused_is_a_trace_with_its_error(serve: Serve) -> None:
    with collecting() as collector, serve(trace_config=config(collector, "rate=1")) as running:
        with pytest.raises(InferenceServerException):
            running.infer(np.ones((5, 7), np.float32))
        collector.wait_for(lambda c: "InferRequest" in c.names)
        (root,) = [span for span in collector.spans if span.name == "InferRequest"]
        assert "unexpected shape for input 'x'" in root.status.message


def test_trace_setting_switches_tracing_on_for_one_model_and_off_again(serve: Serve) -> None:
    with collecting() as collector:
        with (
            serve(trace_config=config(collector, "level=OFF")) as running,
            triton.InferenceServerClient(running.grpc) as client,
        ):
            running.infer(X, request_id="before")
            shown = client.update_trace_settings("m", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}, as_json=True)
            assert shown["settings"]["trace_rate"]["value"] == ["1"]
            assert client.get_trace_settings(as_json=True)["settings"]["trace_level"]["value"] == ["OFF"]
            running.infer(X, request_id="traced")
            client.update_trace_settings("m", {"trace_level": None, "trace_rate": None})
            running.infer(X, request_id="after")
        collector.wait_for(lambda c: "m" in c.names)
    assert [span["triton.request_id"] for span in models_spans(collector)] == ["traced"]


def test_what_was_sampled_before_the_end_is_sent_at_the_end(serve: Serve) -> None:
    with collecting() as collector:
        with serve(trace_config=config(collector, "rate=1", "opentelemetry,bsp_schedule_delay=60000")) as running:
            running.infer(X)
        assert collector.names.count("InferRequest") == 1


def test_log_settings_need_a_log(serve: Serve) -> None:
    with (
        serve() as running,
        triton.InferenceServerClient(running.grpc) as client,
        pytest.raises(InferenceServerException, match="log"),  # this server writes none of its own
    ):
        client.get_log_settings()


def test_the_program_takes_its_options_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    options = ("--model-repository", str(tmp_path / "models"), "--log-format", "json", "--trace-config", "rate=5")
    with program(*options, "--trace-config", f"triton,file={tmp_path}/trace.json", started=False) as server:
        server.wait_for(lambda: server.log.count('"Started ') == 3)
        lines = [json.loads(line) for line in server.lines]
        started = {words[1]: words[-1] for line in lines if (words := line["message"].split())[0] == "Started"}
        with triton.InferenceServerClient(started["GRPCInferenceService"]) as client:
            shown = client.get_trace_settings(as_json=True)["settings"]
            assert (shown["trace_rate"]["value"], shown["trace_file"]["value"]) == (["5"], [f"{tmp_path}/trace.json"])
            logs = client.update_log_settings({"log_verbose_level": 1, "log_format": "ISO8601"}, as_json=True)["settings"]
            assert logs["log_format"]["string_param"] == "ISO8601"
        http = f"http://{started['HTTPService']}/v2/logging"
        with urllib.request.urlopen(http, timeout=20) as answer:
            assert json.load(answer)["log_verbose_level"] == 1
        assert server.stop() == 0
        assert not server.lines[-1].startswith("{")
