# SPDX-License-Identifier: Apache-2.0
"""Traces of requests: spans as a collector gets them, and Triton's files."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import pytest

from hypersonic.server.errors import BackendError, StartError
from hypersonic.server.observe.tracing.span import parse_traceparent
from hypersonic.server.observe.tracing.trace import Trace, Tracing
from hypersonic.server.statistics.times import RunTimes
from tests.server.observe.tracing.otlp import Collector, attributes, collecting
from tests.server.observe.tracing.traced import tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def otlp(collector: Collector, *texts: str) -> Tracing:
    return tracing("mode=opentelemetry", "level=TIMESTAMPS", f"opentelemetry,url={collector.url}", *texts)


def finish(trace: Trace | None, arrived_ns: int, error: Exception | None = None, request_id: str = "a") -> None:
    assert trace is not None
    times = RunTimes(arrived_ns + 20, arrived_ns + 30, arrived_ns + 40, arrived_ns + 50)
    trace.end(3, request_id, arrived_ns, enqueued_ns=arrived_ns + 10, times=times, error=error)


def test_a_request_is_seven_spans_each_within_its_parent() -> None:
    with collecting() as collector:
        traces = otlp(collector, "rate=1", "opentelemetry,resource=site=cern")
        arrived_ns = time.monotonic_ns()
        finish(traces.begin("m", "", arrived_ns), arrived_ns)
        traces.close(30)
        spans = {span.name: span for span in collector.spans}
    parents = {"m": "InferRequest", "queue": "m", "compute": "m"} | dict.fromkeys(
        ("compute_input", "compute_infer", "compute_output"), "compute"
    )
    assert spans.keys() == {*parents, "InferRequest"}
    for name, parent in parents.items():
        child, outer = spans[name], spans[parent]
        assert (child.parent_span_id, child.trace_id) == (outer.span_id, outer.trace_id)
        assert outer.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano <= outer.end_time_unix_nano
    assert spans["InferRequest"].kind == 2  # SERVER
    assert spans["InferRequest"].parent_span_id == b""
    assert attributes(spans["m"]) == {
        "triton.model_name": "m",
        "triton.model_version": 3,
        "triton.trace_id": 1,
        "triton.trace_parent_id": 0,
        "triton.request_id": "a",
    }
    assert [event.name for event in spans["m"].events] == ["REQUEST_START", "QUEUE_START", "REQUEST_END"]
    assert [event.name for event in spans["compute"].events] == [
        "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
    ]  # fmt: skip
    assert (collector.resources[0]["service.name"], collector.resources[0]["site"]) == ("triton-inference-server", "cern")


def test_the_clients_span_is_the_parent_and_its_trace_is_followed_whatever_the_rate() -> None:
    with collecting() as collector:
        traces = otlp(collector, "rate=1000")
        finish(traces.begin("m", PARENT, 0), 0)
        assert traces.begin("m", PARENT[:-1] + "0", 0) is None  # the client does not sample it
        assert traces.begin("m", "00-nonsense", 0) is None
        traces.close(30)
        (root,) = [span for span in collector.spans if span.name == "InferRequest"]
    assert root.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert root.parent_span_id.hex() == "b7ad6b7169203331"


def test_a_step_of_an_ensemble_is_a_child_of_the_ensembles_span() -> None:
    with collecting() as collector:
        traces = otlp(collector, "rate=1")
        whole = traces.begin("ensemble", "", 0)
        assert whole is not None
        finish(whole.step("step", 5), 5)
        whole.end(1, "", 0)
        traces.close(30)
        spans = {span.name: span for span in collector.spans}
    assert spans["step"].parent_span_id == spans["ensemble"].span_id
    assert (attributes(spans["step"])["triton.trace_parent_id"], attributes(spans["step"])["triton.trace_id"]) == (1, 2)
    assert len([span for span in collector.spans if span.name == "InferRequest"]) == 1


def test_a_request_that_failed_says_why_in_its_spans() -> None:
    with collecting() as collector:
        traces = otlp(collector, "rate=1")
        trace = traces.begin("m", "", 0)
        assert trace is not None
        trace.end(1, "", 0, error=BackendError("the run failed"))
        traces.close(30)
        statuses = {span.name: (span.status.code, span.status.message) for span in collector.spans}
    assert statuses == dict.fromkeys(("InferRequest", "m"), (2, "the run failed"))


def test_a_collector_that_is_not_there_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    traces = tracing("mode=opentelemetry", "level=TIMESTAMPS", "rate=1", "opentelemetry,url=http://127.0.0.1:9/v1/traces")
    finish(traces.begin("m", "", 0), 0)
    begin = time.monotonic()
    traces.close(0.2)
    assert time.monotonic() - begin < 20


def test_without_the_sdk_the_start_ends_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(StartError, match=r"pip install '\.\[trace\]'"):
        tracing("mode=opentelemetry")


@pytest.mark.parametrize("text", ["mode=triton", "opentelemetry,url=http://h:4318"])
def test_a_level_without_a_file_ends_the_start_in_mode_triton(text: str) -> None:
    with pytest.raises(StartError, match="triton,file="):
        tracing(text, "level=TIMESTAMPS")


def test_without_a_trace_config_nothing_is_traced() -> None:
    assert not tracing().active
    assert tracing().begin("m", PARENT, 0) is None


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (PARENT, True),
        (PARENT[:-2] + "00", False),
        ("cc" + PARENT[2:] + "-what-the-future-will-say", True),
        ("ff" + PARENT[2:], None),
        (PARENT.upper(), None),
        ("00-" + "0" * 32 + PARENT[35:], None),
        (PARENT[:36] + "0" * 16 + "-01", None),
        (PARENT + "x" * 1000, None),
        ("", None),
    ],
)
def test_a_traceparent_is_read_as_w3c_has_it(text: str, sampled: bool | None) -> None:
    parent = parse_traceparent(text)
    assert (parent.sampled if parent else None) == sampled


def names(file: Path, number: int) -> list[str]:
    objects = json.loads(file.read_text())
    return [t["name"] for o in objects if o["id"] == number for t in o.get("timestamps", ())]


def test_mode_triton_writes_tritons_file(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "level=TIMESTAMPS", "rate=2")
    for n in range(4):
        trace = traces.begin("m", PARENT, 100)
        assert (trace is None) == (n % 2 == 0)
        if trace is not None:
            finish(trace, 100, request_id="ab" if n == 1 else "")
    traces.close(1)
    objects = json.loads(file.read_text())
    assert [o for o in objects if "model_name" in o] == [
        {"id": 1, "model_name": "m", "model_version": 3, "request_id": "ab"},
        {"id": 2, "model_name": "m", "model_version": 3},
    ]
    assert names(file, 1) == [
        "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
        "REQUEST_END",
    ]  # fmt: skip
    assert {"id": 1, "timestamps": [{"name": "QUEUE_START", "ns": 110}]} in objects


def test_log_frequency_starts_a_new_file_each_so_many_traces(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "triton,log-frequency=2", "level=TIMESTAMPS", "rate=1")
    whole = traces.begin("ensemble", "", 0)
    assert whole is not None
    finish(whole.step("step", 0), 0)
    whole.end(1, "", 0)
    finish(traces.begin("m", "", 0), 0)
    traces.close(1)
    first, second = (json.loads((tmp_path / f"trace.json.{n}").read_text()) for n in (0, 1))
    assert [(o["model_name"], o.get("parent_id")) for o in first if "model_name" in o] == [("step", 1), ("ensemble", None)]
    assert [o["model_name"] for o in second if "model_name" in o] == ["m"]


def test_a_trace_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be written: No such file or directory"):
        tracing(f"triton,file={tmp_path}/no/trace.json")


def test_a_full_disk_is_reported_once_and_requests_do_not_notice(caplog: pytest.LogCaptureFixture) -> None:
    traces = tracing("triton,file=/dev/full", "level=TIMESTAMPS", "rate=1")
    for _ in range(3):
        finish(traces.begin("m", "", 0), 0)
    traces.close(1)
    assert sum("No space left on device" in record.message for record in caplog.records) in (1, 2)


def traced(file: Path) -> list[str]:
    """The request ids of a file's traces, each of which is whole."""
    objects = json.loads(file.read_text())
    for number in {o["id"] for o in objects}:
        assert names(file, number)[-1] == "REQUEST_END"
    return [o["request_id"] for o in objects if "model_name" in o]


def test_a_trace_file_is_a_whole_array_after_every_trace_though_nobody_ends_it(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "level=TIMESTAMPS", "rate=1")
    for n in range(3):
        finish(traces.begin("m", "", 0), 0, request_id=f"r{n}")
        assert traced(file) == [f"r{m}" for m in range(n + 1)]
    traces.close(1)
    assert traced(file) == ["r0", "r1", "r2"]


@pytest.mark.parametrize("room", [100, 1000, 1001, 1002])
def test_a_trace_that_does_not_fit_on_the_disk_leaves_the_file_whole_and_later_ones_follow(
    tmp_path: Path, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "level=TIMESTAMPS", "rate=1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        for n in range(10):
            finish(traces.begin("m", "", 0), 0, request_id=f"r{n}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    fitted = traced(file) if file.stat().st_size else []
    assert fitted == [f"r{n}" for n in range(len(fitted))]
    assert bool(fitted) == (room > 100)
    assert sum("traces are lost" in record.message for record in caplog.records) <= 1
    for n in range(10, 12):
        finish(traces.begin("m", "", 0), 0, request_id=f"r{n}")
    traces.close(1)
    assert traced(file) == [*fitted, "r10", "r11"]


def test_a_trace_file_that_was_renamed_or_deleted_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    traces = tracing(f"triton,file={file}", "level=TIMESTAMPS", "rate=1")
    finish(traces.begin("m", "", 0), 0, request_id="r0")
    file.rename(tmp_path / "trace.json.1")
    finish(traces.begin("m", "", 0), 0, request_id="r1")
    file.unlink()
    finish(traces.begin("m", "", 0), 0, request_id="r2")
    traces.close(1)
    assert traced(tmp_path / "trace.json.1") == ["r0"]
    assert traced(file) == ["r2"]


def test_a_trace_file_that_is_a_pipe_ends_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StartError, match="pipe cannot be written: it is not a regular file"):
        tracing(f"triton,file={tmp_path}/pipe")
