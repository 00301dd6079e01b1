# SPDX-License-Identifier: Apache-2.0
"""Trace and log settings, changed over gRPC and HTTP. Every case leaves them as it found them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from tests.reference.cases.infer import Case
from tests.reference.wire import Wire

#: what a change may be: setting -> values; None clears it
Change = dict[str, Sequence[str] | None]
_START: Change = {"trace_level": ["OFF"], "trace_rate": ["1000"], "trace_count": ["-1"], "log_frequency": ["0"]}
_LOG_START: dict[str, Any] = {
    "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default",
}  # fmt: skip
_TRACES: dict[str, Change] = {
    "level": {"trace_level": ["TIMESTAMPS"]},
    "level off": {"trace_level": ["OFF"]},
    "rate and count": {"trace_rate": ["5"], "trace_count": ["7"]},
    "rate 0": {"trace_rate": ["0"]},
    "count -2": {"trace_count": ["-2"]},
    "log frequency": {"log_frequency": ["50"]},
    "cleared": {"trace_rate": None, "trace_level": None},
    "unknown level": {"trace_level": ["EVERYTHING"]},
    "unknown setting": {"nothing": ["1"]},
    "file": {"trace_file": ["/x"]},
    "mode": {"trace_mode": ["opentelemetry"]},
    "rate no number": {"trace_rate": ["x"]},
    "rate with a letter behind": {"trace_rate": ["5x"]},
    "rate negative": {"trace_rate": ["-5"]},
    "rate too large": {"trace_rate": ["99999999999999999999"]},
    "two rates": {"trace_rate": ["5", "6"]},
    "no rate": {"trace_rate": []},
    "one good, one bad": {"trace_level": ["TIMESTAMPS"], "trace_rate": ["x"]},
}
_LOGS: dict[str, dict[str, Any]] = {
    "info off": {"log_info": False},
    "verbose": {"log_verbose_level": 1},
    "format": {"log_format": "ISO8601"},
    "format json": {"log_format": "json"},
    "unknown format": {"log_format": "x"},
    "file": {"log_file": "/x"},
    "unknown setting": {"nothing": True},
    "level a boolean": {"log_verbose_level": True},
    "info a number": {"log_info": 1},
    "info a text": {"log_info": "false"},
    "format a number": {"log_format": 1},
    "one good, one bad": {"log_warning": False, "log_format": "x"},
}


def cases() -> dict[str, Case]:
    """All of them, by name."""
    cases: dict[str, Case] = {}
    for what, change in _TRACES.items():
        cases[f"trace: {what}"] = _then(_trace, change, _START)
        cases[f"trace of a model: {what}"] = _then(_trace, change, dict.fromkeys(_START), "addsub")
        cases[f"HTTP trace: {what}"] = _then(_http_trace, change, _START)
    for what, log in _LOGS.items():
        cases[f"log: {what}"] = _then(_log, log, _LOG_START)
        cases[f"HTTP log: {what}"] = _then(_http_log, log, _LOG_START)
    cases["trace: level of no model"] = lambda wire: _trace(wire, {"trace_level": ["TIMESTAMPS"]}, "nope")
    cases["HTTP trace: level of no model"] = lambda wire: _http_trace(wire, {"trace_level": ["TIMESTAMPS"]}, "nope")
    cases["HTTP trace: level no list"] = lambda wire: wire.http("POST", "/v2/trace/setting", {"trace_level": "OFF"})[::2]
    cases["HTTP trace: not JSON"] = lambda wire: wire.http("POST", "/v2/trace/setting", b"{")[0]
    cases["HTTP log: not JSON"] = lambda wire: wire.http("POST", "/v2/logging", b"{")[0]
    return cases


def _then(change: Callable[..., Any], to: Any, back: Any, *more: str) -> Case:
    """The answer to the change, and the settings after it."""

    def ask(wire: Wire) -> Any:
        try:
            return change(wire, to, *more), change(wire, {}, *more)
        finally:
            change(wire, back, *more)

    return ask


def _trace(wire: Wire, change: Change, model: str = "") -> Any:
    request = service_pb2.TraceSettingRequest(model_name=model)
    for key, values in change.items():
        request.settings[key].value.extend(values or ())
    return wire.call("TraceSetting", request)


def _http_trace(wire: Wire, change: Change, model: str = "") -> Any:
    of = f"/models/{model}" if model else ""
    return wire.http(
        "POST",
        f"/v2{of}/trace/setting",
        {k: v[0] if v and k != "trace_level" and len(v) == 1 else v for k, v in change.items()},
    )[::2]


def _log(wire: Wire, change: dict[str, Any]) -> Any:
    request = service_pb2.LogSettingsRequest()
    for key, value in change.items():
        kind = {bool: "bool_param", int: "uint32_param", str: "string_param"}[type(value)]
        setattr(request.settings[key], kind, value)
    return wire.call("LogSettings", request)


def _http_log(wire: Wire, change: dict[str, Any]) -> Any:
    return wire.http("POST", "/v2/logging", change)[::2]
