# SPDX-License-Identifier: Apache-2.0
"""--trace-config, sampling, and TraceSetting over gRPC and HTTP; texts as tritonserver 2.51 answers them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, ServerError, StartError, UnsupportedError
from hypersonic.server.observe.tracing.settings import TraceConfig, TraceControl
from hypersonic.server.observe.tracing.url import traces_url
from hypersonic.server.wire.service.runtime_settings import http_trace_setting, trace_setting

OTEL = ("mode=opentelemetry", "opentelemetry,url=http://h:4318/v1/traces")
SHOWN = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}


def control(*texts: str) -> TraceControl:
    return TraceControl(TraceConfig.of(texts))


def rpc(tracing: TraceControl, model: str = "", **settings: list[str]) -> dict[str, list[str]]:
    request = service_pb2.TraceSettingRequest(model_name=model)
    for name, values in settings.items():
        request.settings[name].SetInParent()
        request.settings[name].value.extend(values)
    response = trace_setting(tracing, {"m", "other"}.__contains__, request)
    return {name: list(response.settings[name].value) for name in response.settings}


def http(tracing: TraceControl, document: Any, model: str = "") -> dict[str, Any]:
    return http_trace_setting(tracing, {"m", "other"}.__contains__, model, document)


def test_settings_are_shown_as_triton_shows_them() -> None:
    assert rpc(control()) == rpc(control(), "m") == SHOWN
    assert http(control(), None) == {name: v if name == "trace_level" else v[0] for name, v in SHOWN.items()}


def test_mode_opentelemetry_shows_its_exporter() -> None:
    tracing = control(*OTEL, "rate=1", "level=TIMESTAMPS", "opentelemetry,resource=a=b", "opentelemetry,bsp_schedule_delay=500")
    assert rpc(tracing) == {
        "url": ["http://h:4318/v1/traces"],
        "trace_rate": ["1"],
        "trace_mode": ["opentelemetry"],
        "trace_level": ["TIMESTAMPS"],
        "trace_count": ["-1"],
        "resource": ["a=b"],
        "bsp_schedule_delay": ["500"],
        "bsp_max_queue_size": ["2048"],
        "bsp_max_export_batch_size": ["512"],
    }


@pytest.mark.parametrize(
    ("given", "sent_to"),
    [
        ("collector.site.org:4318/v1/traces", "http://collector.site.org:4318/v1/traces"),
        ("localhost:4318", "http://localhost:4318/v1/traces"),
        ("collector", "http://collector/v1/traces"),
        ("[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ("http://[::1]", "http://[::1]/v1/traces"),
        ("https://collector/own/path", "https://collector/own/path"),
        ("HTTP://collector:4318/", "http://collector:4318/"),
        ("https://user:pass@10.0.0.7:4318?tenant=x", "https://user:pass@10.0.0.7:4318/v1/traces?tenant=x"),
    ],
)
def test_a_collectors_url_may_leave_out_scheme_and_path(given: str, sent_to: str) -> None:
    assert traces_url(given) == sent_to
    assert rpc(control("mode=opentelemetry", f"opentelemetry,url={given}"))["url"] == [given]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "it does not name a host"),
        ("/v1/traces", "it does not name a host"),
        ("not a url", "a URL must not contain spaces"),
        ("host:4318\n", "a URL must not contain spaces"),
        ("${COLLECTOR}:4318", "it does not name a host"),
        ("grpc://collector:4317", "over http or https, not over 'grpc'"),
        ("::1:4318", "an IPv6 address must be in brackets"),
        ("[::1", "Invalid IPv6 URL"),
        ("[nine]:4318", ""),
        ("collector:port", "Port could not be cast"),
        ("collector:99999", "Port out of range"),
        ("collector:0", "port 0 is not a port"),
    ],
)
def test_a_url_that_no_collector_can_have_is_an_error_at_start(given: str, reason: str) -> None:
    with pytest.raises(StartError) as caught:
        control("mode=opentelemetry", f"opentelemetry,url={given}")
    assert reason in str(caught.value)
    assert "expected the address of an OTLP collector over HTTP, for example http://collector:4318/v1/traces" in str(
        caught.value
    )


def test_a_setting_is_changed_for_all_models_and_taken_back() -> None:
    tracing = control()
    assert rpc(tracing, trace_rate=["5"])["trace_rate"] == ["5"]
    assert rpc(tracing, trace_count=["3"])["trace_count"] == ["3"]
    assert rpc(tracing, "m")["trace_rate"] == ["5"]
    assert rpc(tracing, trace_rate=[], trace_count=[]) == SHOWN
    assert http(tracing, {"log_frequency": "7"})["log_frequency"] == "7"
    assert http(tracing, {"log_frequency": None})["log_frequency"] == "0"


def test_what_is_set_for_a_model_stays_and_the_rest_follows_the_global_setting() -> None:
    tracing = control()
    assert rpc(tracing, "m", trace_rate=["7"])["trace_rate"] == ["7"]
    rpc(tracing, trace_rate=["9"], log_frequency=["2"])
    assert (rpc(tracing, "m")["trace_rate"], rpc(tracing, "m")["log_frequency"]) == (["7"], ["2"])
    assert rpc(tracing, "other")["trace_rate"] == ["9"]
    assert rpc(tracing, "m", trace_rate=[])["trace_rate"] == ["9"]


def test_what_is_no_setting_is_ignored() -> None:
    assert rpc(control(), foo=["x"], trace_mode=["opentelemetry"], url=["x"]) == SHOWN
    assert http(control(), {"foo": 1})["trace_rate"] == "1000"


REFUSED: list[tuple[dict[str, list[str]], str]] = [
    ({"trace_rate": ["5", "6"]}, "expect only 1 value for 'trace_rate'"),
    ({"trace_rate": ["x"]}, "Unable to parse 'trace_rate', got: x"),
    ({"trace_rate": [""]}, "Unable to parse 'trace_rate', got: "),
    (
        {"trace_rate": ["99999999999"]},
        "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999",
    ),
    ({"trace_count": ["x"]}, "Unable to parse 'trace_count', got: x"),
    ({"trace_count": ["-2"]}, "Unable to parse 'trace_count'. Expecting value >= -1, got: -2"),
    (
        {"trace_count": ["99999999999"]},
        "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 99999999999",
    ),
    ({"log_frequency": ["x"]}, "Unable to parse 'log_frequency', got: x"),
    ({"log_frequency": ["1", "2"]}, "expect only 1 value for 'log_frequency'"),
    ({"trace_level": ["TIMESTAMPS"]}, "Attempting to set invalid trace setting :trace file name is not given"),
    ({"trace_level": ["TIMESTAMPS", "OFF"]}, "Expect only one trace level 'OFF' is specified"),
    (
        {"trace_level": ["TIMESTAMPS"], "trace_rate": ["0"]},
        "Attempting to set invalid trace setting :sample rate must be non-zero",
    ),
    # Triton takes these for 4294967291 and 5
    ({"trace_rate": ["-5"]}, "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -5"),
    ({"trace_rate": ["5x"]}, "Unable to parse 'trace_rate', got: 5x"),
    ({"trace_rate": ["9" * 1_000_000]}, "Unable to parse 'trace_rate', got: " + "9" * 64),
]


@pytest.mark.parametrize(("settings", "text"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_a_change_is_refused_as_a_whole_with_tritons_text(settings: dict[str, list[str]], text: str) -> None:
    tracing = control()
    changes: dict[str, Any] = {**settings, "trace_mode": ["x"]}
    with pytest.raises(InvalidRequestError) as caught:
        rpc(tracing, **changes)
    assert str(caught.value) == text
    assert rpc(tracing) == SHOWN


@pytest.mark.parametrize("model", ["", "m"])
@pytest.mark.parametrize("values", [["x"], []])
def test_no_file_is_named_over_the_network(model: str, values: list[str]) -> None:
    with pytest.raises(UnsupportedError, match="trace file location can not be updated through network protocol"):
        rpc(control(), model, trace_file=values)
    with pytest.raises(UnsupportedError, match="trace file location"):
        http(control(), {"trace_file": "x"}, model)


def test_an_unknown_model_is_refused_before_anything_else() -> None:
    for ask in (lambda: rpc(control(), "nope", trace_rate=["x"]), lambda: http(control(), {"trace_rate": 5}, "nope")):
        with pytest.raises(InvalidRequestError, match=r"^Request for unknown model : nope$"):
            ask()


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"trace_rate": 5}, "attempt to access JSON non-string as string"),
        ({"trace_rate": ["5"]}, "attempt to access JSON non-string as string"),
        ({"trace_level": "TIMESTAMPS"}, "attempt to access JSON non-array as array"),
        ({"trace_level": [1]}, "attempt to access JSON non-string as string"),
        ({"trace_count": "-2"}, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"),
    ],
)
def test_http_names_what_is_of_the_wrong_type(document: Any, text: str) -> None:
    with pytest.raises(MalformedJsonError if text.startswith("attempt") else InvalidRequestError) as caught:
        http(control(), document)
    assert str(caught.value) == text


def test_a_body_that_is_no_object_changes_nothing() -> None:
    assert http(control(), [])["trace_rate"] == "1000"


def test_every_rate_th_request_is_sampled_until_the_count_is_used_up() -> None:
    tracing = control(*OTEL, "rate=3", "level=TIMESTAMPS", "count=2")
    assert [tracing.sample("m", forced=False) for _ in range(12)] == [n in (3, 6) for n in range(1, 13)]
    assert rpc(tracing)["trace_count"] == ["0"]
    assert tracing.sample("m", forced=True)
    rpc(tracing, trace_count=["1"])
    assert [tracing.sample("m", forced=False) for _ in range(4)].count(True) == 1


def test_a_count_that_is_partly_used_up_survives_the_change_of_another_setting() -> None:
    tracing = control(*OTEL, "rate=1", "level=TIMESTAMPS", "count=5")
    assert tracing.sample("m", forced=False)
    assert rpc(tracing, trace_rate=["2"])["trace_count"] == ["4"]


def test_tracing_is_active_while_any_model_may_be_sampled() -> None:
    tracing = control(*OTEL)
    assert not tracing.active
    rpc(tracing, "m", trace_level=["TIMESTAMPS"], trace_rate=["1"])
    assert tracing.active
    assert tracing.sample("m", forced=False)
    assert not tracing.sample("other", forced=True)
    rpc(tracing, "m", trace_level=["OFF"])
    assert not tracing.active


@pytest.mark.parametrize(
    "text",
    [
        "mode=foo", "rate=x", "rate=-1", f"rate={'1' * 5000}", "count=-2", "level=FOO", "rate", "foo=1", "bogus,url=x",
        "a,b,c=d", "triton,foo=x", "opentelemetry,foo=x", "opentelemetry,resource=x", "opentelemetry,bsp_max_queue_size=0",
        "triton,log-frequency=x",
    ],
)  # fmt: skip
def test_a_trace_config_that_is_none_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(StartError, match=r"--trace-config is '.*', expected "):
        TraceConfig.of([text])


def test_an_update_to_a_level_that_this_server_lacks_is_ignored_as_triton_ignores_words() -> None:
    tracing = control(*OTEL, "level=TIMESTAMPS")
    assert rpc(tracing, trace_level=["TIMESTAMPS", "TENSORS"])["trace_level"] == ["TIMESTAMPS"]
    assert rpc(tracing, trace_level=["TENSORS"])["trace_level"] == ["OFF"]


def test_no_error_is_anything_but_the_servers_own() -> None:
    documents: tuple[Any, ...] = ({"trace_level": [None]}, {"trace_count": {}}, {"trace_level": [["x"]]}, "x", 5, None)
    for document in documents:
        with suppress(ServerError):
            http(control(), document)
