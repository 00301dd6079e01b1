# SPDX-License-Identifier: Apache-2.0
"""HTTP beside inference: health, metadata, configuration, statistics, repository, shared memory, settings; Triton's JSON."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.server.wire.http.app import listen
from hypersonic.server.wire.http.tojson import to_json
from tests.server.conftest import Running, Script, Serve, write_model
from tests.server.wire.http.requests import ask


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(Script(instances=2), allow_client_shm=True) as server:
        yield server


@pytest.fixture
def client(running: Running) -> Iterator[tritonclient.http.InferenceServerClient]:
    with tritonclient.http.InferenceServerClient(running.http.removeprefix("http://")) as http_client:
        yield http_client


def test_health_and_metadata(running: Running) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m/versions/1/ready"):
        assert ask(running.http, path) == (200, "")
    for path in ("/v2/models/m/versions/2/ready", "/v2/models/n/ready"):
        assert ask(running.http, path) == (400, '{"error":"Model version not ready"}')
    assert json.loads(ask(running.http, "/v2")[1])["name"] == "triton"
    expected = (
        '{"name":"m","versions":["1"],"platform":"sum","inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],'
        '"outputs":[{"name":"y","datatype":"FP32","shape":[-1,1]}]}'
    )
    for path in ("/v2/models/m", "/v2/models/m/versions/1"):
        assert json.loads(ask(running.http, path)[1]) == json.loads(expected)


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/v2/models/n", 404, "Request for unknown model: 'n' is not found"),
        ("GET", "/v2/models/m/versions/2", 404, "Request for unknown model: 'm' version 2 is not found"),
        ("GET", "/v2/models/m/versions/x", 404, "Not Found"),
        ("GET", f"/v2/models/m/versions/{'9' * 5000}", 404, "Not Found"),
        ("GET", "/v2/models/m/versions/-1/ready", 404, "Not Found"),
        ("GET", "/v2/models/n/config", 404, "Request for unknown model: 'n' is not found"),
        ("GET", "/v2/models/n/stats", 400, "requested model 'n' is not available"),
        ("GET", "/v2/models/m/versions/2/stats", 400, "requested model version is not available for model 'm'"),
        ("GET", "/v2/models/m/infer", 405, "Method Not Allowed"),
        ("POST", "/v2", 405, "Method Not Allowed"),
        ("PUT", "/v2/models/m/infer", 405, "Method Not Allowed"),
        ("GET", "/v2/repository/index", 405, "Method Not Allowed"),
        ("GET", "/nothing", 404, "Not Found"),
        ("GET", "/v2/", 404, "Not Found"),
        ("GET", "/v2/models", 404, "Not Found"),
        ("POST", "/v2/models/m/generate", 404, "Not Found"),
        ("POST", "/v2/repository/models/m/load", 503, "explicit model load / unload is not allowed if polling is enabled"),
        ("POST", "/v2/repository/x/models/m/load", 501, "'repository_name' specification is not supported"),
    ],
)
def test_errors_are_json_with_tritons_codes(running: Running, method: str, path: str, status: int, error: str) -> None:
    assert ask(running.http, path, method) == (status, json.dumps({"error": error}, separators=(",", ":")))


def test_the_metrics_port_has_nothing_but_metrics(running: Running) -> None:
    assert ask(running.metrics, "/v2/health/live")[0] == 404
    assert ask(running.metrics, "/metrics", "POST")[0] == 405


def test_readiness_falls_with_the_drain(running: Running) -> None:
    running.server.service.admission.close()
    assert ask(running.http, "/v2/health/ready")[0] == 400
    assert ask(running.http, "/v2/health/live")[0] == 200


def test_the_configuration_is_whole_and_its_integers_are_numbers(client: Any) -> None:
    config = client.get_model_config("m")
    assert (config["name"], config["backend"], config["max_batch_size"]) == ("m", "sum", 200)
    assert config["version_policy"] == {"latest": {"num_versions": 1}}
    assert config["input"][0] == {
        "name": "x",
        "data_type": "TYPE_FP32",
        "format": "FORMAT_NONE",
        "dims": [3],
        "is_shape_tensor": False,
        "allow_ragged_batch": False,
        "optional": False,
        "is_non_linear_format_io": False,
    }
    assert config["model_warmup"] == []
    assert config["parameters"] == {}
    assert "ensemble_scheduling" not in config


def test_messages_become_json_as_triton_writes_it() -> None:
    message = service_pb2.ModelStatisticsResponse()
    statistics = message.model_stats.add(name="m", last_inference=2**63)
    statistics.response_stats["0"].success.ns = 5
    shown = to_json(message)["model_stats"][0]
    assert (shown["last_inference"], shown["version"], shown["memory_usage"]) == (2**63, "", [])
    assert shown["response_stats"]["0"]["success"] == {"count": 0, "ns": 5}
    assert "inference_stats" not in shown


def test_statistics_are_those_of_grpc(running: Running, client: Any) -> None:
    running.infer(np.ones((5, 3), np.float32))
    for statistics in (client.get_inference_statistics("m"), client.get_inference_statistics()):
        assert [model["name"] for model in statistics["model_stats"]] == ["m"]
        model = statistics["model_stats"][0]
        assert (model["inference_count"], model["execution_count"]) == (5, 1)
        assert model["inference_stats"]["success"]["count"] == 1
        assert model["batch_stats"][0]["batch_size"] == 5
    assert client.get_inference_statistics("m", "1") == client.get_inference_statistics("m")


# repository


def test_the_index_lists_what_is_ready_if_that_is_asked(serve: Serve, tmp_path: Any) -> None:
    write_model(tmp_path / "models")
    (write_model(tmp_path / "models", "broken") / "1" / "broken").write_text("why")
    with serve(repository=tmp_path / "models") as running:
        bodies: tuple[Any, ...] = (None, {}, {"ready": False}, [], {"foo": 1})
        for body in bodies:
            status, answer = ask(running.http, "/v2/repository/index", "POST", body)
            assert status == 200
            broken, ready = json.loads(answer)
            assert ready == {"name": "m", "version": "1", "state": "READY"}
            assert broken["state"] == "UNAVAILABLE"
            assert broken["reason"]
        answer = ask(running.http, "/v2/repository/index", "POST", {"ready": True})[1]
        assert answer == '[{"name":"m","version":"1","state":"READY"}]'
        assert ask(running.http, "/v2/repository/index", "POST", {"ready": 1}) == (
            500,
            '{"error":"attempt to access JSON non-boolean as boolean"}',
        )
        assert ask(running.http, "/v2/repository/index", "POST", b"x") == (
            500,
            '{"error":"failed to parse the request JSON buffer: Expecting value at 0"}',
        )


def test_load_and_unload_reach_the_repository(running: Running, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    repository = running.server.repository
    monkeypatch.setattr(repository, "load", lambda name, parameters: calls.append((name, dict(parameters))))
    monkeypatch.setattr(repository, "unload", lambda name, unload_dependents: calls.append((name, unload_dependents)))
    client.load_model("m")
    client.load_model("m", config="{}", files={"file:1/model.onnx": b"\0\xff"})
    client.unload_model("m")
    client.unload_model("m", unload_dependents=True)
    assert calls == [("m", {}), ("m", {"config": "{}", "file:1/model.onnx": b"\0\xff"}), ("m", False), ("m", True)]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"x", 500, "failed to parse the request JSON buffer: Expecting value at 0"),
        ({"parameters": {"config": 3}}, 500, "attempt to access JSON non-string as string"),
        ({"parameters": []}, 500, "attempt to get members for non-object"),
        ({"parameters": {"foo": "x"}}, 500, "unexpected error on creating Triton parameter"),
        ({"parameters": {"file:1/a": "!"}}, 400, "parameter 'file:1/a' is not base64: "),
        ({"parameters": {"file:1/a": "QUJD RA=="}}, 400, "line breaks are ignored, and the '=' at the end may be missing"),
        ({"parameters": {"file:1/a": "QQ==QUJD"}}, 400, "parameter 'file:1/a' is not base64: "),
        ({"parameters": {"file:1/a": "QUJDR"}}, 400, "parameter 'file:1/a' is not base64: "),
        ({"parameters": {"file:1/a": "QUJé"}}, 400, "parameter 'file:1/a' is not base64: "),
        ({"parameters": {"file:" + "k" * 10_000: "!"}}, 400, "kkk' is not base64: "),
    ],
)
def test_load_requests_that_are_none_are_refused(running: Running, body: Any, status: int, error: str) -> None:
    code, answer = ask(running.http, "/v2/repository/models/m/load", "POST", body)
    assert code == status
    assert error in json.loads(answer)["error"]


def test_base64_may_have_line_breaks_and_lack_its_end(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's C++ client breaks lines after 72 characters, its server takes any length and text without '=' at the end."""
    came: list[bytes] = []
    monkeypatch.setattr(running.server.repository, "load", lambda _, parameters: came.append(parameters["file:1/a"]))
    data = bytes(range(256)) * 10 + b"12"
    text = base64.b64encode(data).decode()
    lines = [text[start : start + 72] for start in range(0, len(text), 72)]
    for written in (text, "\n".join(lines) + "\n", "\r\n".join(lines), text.rstrip("="), "\n".join(lines).rstrip("=") + "\n"):
        code = ask(running.http, "/v2/repository/models/m/load", "POST", {"parameters": {"config": "{}", "file:1/a": written}})
        assert code == (200, ""), repr(written[:80])
        assert came.pop() == data, repr(written[:80])
    for nothing in ("", "\r\n"):
        ask(running.http, "/v2/repository/models/m/load", "POST", {"parameters": {"config": "{}", "file:1/a": nothing}})
        assert came.pop() == b""


def test_a_body_of_control_is_bounded_too(serve: Serve) -> None:
    with serve(http_max_input_size=1000) as running:
        body = {"parameters": {"config": base64.b64encode(bytes(1000)).decode()}}
        assert ask(running.http, "/v2/repository/models/m/load", "POST", body)[0] == 400
        assert running.server.service.admission.size_bytes == 0


# shared memory


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "Shared memory register request has no 'key' field"),
        ({"key": "k"}, 400, "Shared memory register request has no 'byte_size' field"),
        ({"key": 1, "byte_size": 1}, 500, "attempt to access JSON non-string as string"),
        ({"key": "k", "byte_size": "1"}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"key": "k", "byte_size": -1}, 500, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"key": "k", "byte_size": 1, "offset": "1"}, 500, "attempt to access JSON non-unsigned-integer"),
        ({"key": "none", "byte_size": 1}, 500, "Unable to open shared memory region: 'none'"),
    ],
)
def test_registrations_are_refused_in_tritons_words(running: Running, body: Any, status: int, error: str) -> None:
    code, answer = ask(running.http, "/v2/systemsharedmemory/region/r/register", "POST", body)
    assert code == status
    assert error in json.loads(answer)["error"]


def test_a_region_needs_a_name(running: Running) -> None:
    status, answer = ask(running.http, "/v2/systemsharedmemory/register", "POST", {"key": "k", "byte_size": 1})
    assert (status, json.loads(answer)["error"]) == (
        400,
        "'region name' is necessary to register system shared memory region",
    )


def test_there_is_no_cuda_memory(running: Running, client: Any) -> None:
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("n")
    with pytest.raises(InferenceServerException, match="failed to register CUDA shared memory region: 'n', GPUs not supported"):
        client.register_cuda_shared_memory("n", b"AAAA", 0, 4)
    assert ask(running.http, "/v2/cudasharedmemory/region/n/status") == (
        404,
        '{"error":"Unable to find cuda shared memory region: \'n\'"}',
    )


# settings


def test_trace_settings_are_shown_and_set(client: Any) -> None:
    shown = client.get_trace_settings()
    assert (shown["trace_level"], shown["trace_rate"], shown["trace_count"]) == (["OFF"], "1000", "-1")
    assert client.update_trace_settings("m", {"trace_rate": "7"})["trace_rate"] == "7"
    assert client.get_trace_settings("m")["trace_rate"] == "7"
    assert client.get_trace_settings()["trace_rate"] == "1000"
    with pytest.raises(InferenceServerException, match="Request for unknown model : n"):
        client.get_trace_settings("n")


# headers


def test_headers_become_parameters_where_that_is_asked_for(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(http_header_forward_pattern="^(x-user|timeout)") as running:
        seen: list[Any] = []
        model = running.server.repository.model("m")
        stream = type(model).stream

        def watched(self: Any, request: Any, *rest: Any, **named: Any) -> Any:
            seen.append(dict(request.parameters))
            return stream(self, request, *rest, **named)

        monkeypatch.setattr(type(model), "stream", watched)
        with tritonclient.http.InferenceServerClient(running.http.removeprefix("http://")) as client:
            given = tritonclient.http.InferInput("x", [1, 3], "FP32")
            given.set_data_from_numpy(np.ones((1, 3), np.float32))
            client.infer("m", [given], headers={"X-User": "me", "X-Other": "no"}, parameters={"custom": 3})
            assert seen == [{"x-user": "me", "custom": 3}]
            with pytest.raises(InferenceServerException, match="'timeout' is a reserved request parameter"):
                client.infer("m", [given], headers={"Timeout": "5"})


def test_answers_leave_at_once() -> None:
    """Without TCP_NODELAY an answer of several writes waits for the client's delayed acknowledgement, 40 ms."""
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
