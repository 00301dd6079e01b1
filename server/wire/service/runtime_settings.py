# SPDX-License-Identifier: Apache-2.0
"""TraceSetting and LogSettings over gRPC and HTTP: checks what clients send, changes the settings, and returns them.

The error texts are Triton's. A change is made completely or not at all. Files cannot be named over the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, UnsupportedError
from hypersonic.server.observe.log import FORMATS, LogControl
from hypersonic.server.observe.tracing.settings import OFF, TIMESTAMPS, TraceControl

#: the numeric trace settings: name -> (field, least, largest)
_NUMBERS = {
    "trace_rate": ("rate", 0, (1 << 32) - 1),
    "trace_count": ("count", -1, (1 << 31) - 1),
    "log_frequency": ("log_frequency", 0, (1 << 32) - 1),
}
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}")
_SWITCHES = ("log_info", "log_warning", "log_error")
_MODEL_NAME_SHOWN = 256

#: returns whether there is a model of this name
Known = Callable[[str], bool]


def trace_setting(
    control: TraceControl, known: Known, request: service_pb2.TraceSettingRequest
) -> service_pb2.TraceSettingResponse:
    """Serve the RPC. A request without settings changes nothing; a setting without values is inherited again.

    Raises InvalidRequestError (INVALID_ARGUMENT), and UnsupportedError (UNIMPLEMENTED) for trace_file.
    """
    sent = {name: list(request.settings[name].value) for name in request.settings}
    _require_model(known, request.model_name)
    for name in ("trace_rate", "trace_count", "log_frequency"):
        if len(sent.get(name, ())) > 1:
            raise InvalidRequestError(f"expect only 1 value for '{name}'")
    _update(control, request.model_name, {name: values or None for name, values in sent.items()}, "got: ")
    response = service_pb2.TraceSettingResponse()
    for name, values in control.shown(request.model_name).items():
        response.settings[name].value.extend(values)
    return response


def http_trace_setting(control: TraceControl, known: Known, model: str, document: Any) -> dict[str, Any]:
    """Serve the HTTP call. A setting that is null is inherited again.

    Args:
        document: the parsed body of a POST, None for a GET.

    Raises:
        MalformedJsonError: (500) for values of another type.
        InvalidRequestError: (400).
        UnsupportedError: (501) for trace_file.
    """
    _require_model(known, model)
    _update(control, model, _document_settings(document), "got:")
    shown = control.shown(model)
    return {name: values if name == "trace_level" or len(values) > 1 else values[0] for name, values in shown.items()}


def _document_settings(document: Any) -> dict[str, list[str] | None]:
    sent = document if isinstance(document, dict) else {}
    return {name: _values(name, sent[name]) for name in ("trace_file", *_NUMBERS, "trace_level") if name in sent}


def _values(name: str, value: Any) -> list[str] | None:
    if value is None or name == "trace_file":
        return None
    if name != "trace_level":
        value = [value]
    elif not isinstance(value, list):
        raise MalformedJsonError("attempt to access JSON non-array as array")
    if not all(isinstance(one, str) for one in value):
        raise MalformedJsonError("attempt to access JSON non-string as string")
    return value or None if name == "trace_level" else value


def _require_model(known: Known, model: str) -> None:
    if model and not known(model):
        raise InvalidRequestError(f"Request for unknown model : {model[:_MODEL_NAME_SHOWN]}")


def _update(control: TraceControl, model: str, sent: Mapping[str, Sequence[str] | None], least_got: str) -> None:
    """Change the settings in `sent`. Unknown names are ignored, as in Triton."""
    if "trace_file" in sent:
        raise UnsupportedError("trace file location can not be updated through network protocol")
    change: dict[str, Any] = {}
    for name, (field, least, largest) in _NUMBERS.items():
        if name in sent:
            values = sent[name]
            change[field] = None if values is None else _number(name, values[0], least, largest, least_got)
    if "trace_level" in sent:
        change["enabled"] = _enabled(sent["trace_level"])
    if change:
        control.update(change, model)


def _number(name: str, text: str, least: int, largest: int, least_got: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise InvalidRequestError(f"Unable to parse '{name}', got: {text[:64]}")
    number = int(text)
    if -(1 << 31) <= number < least < 0:
        raise InvalidRequestError(f"Unable to parse '{name}'. Expecting value >= {least}, {least_got}{number}")
    if not least <= number <= largest:
        raise InvalidRequestError(f"Unable to parse '{name}', value is out of range [ {least}, {largest} ], got: {text[:64]}")
    return number


def _enabled(values: Sequence[str] | None) -> bool | None:
    """Return whether the levels trace requests; unknown words, TENSORS among them, are ignored, as Triton ignores words."""
    if values is None:
        return None
    if OFF in values and len(values) > 1:
        raise InvalidRequestError("Expect only one trace level 'OFF' is specified")
    return TIMESTAMPS in values


def log_settings(control: LogControl, request: service_pb2.LogSettingsRequest) -> service_pb2.LogSettingsResponse:
    """Serve the RPC. Raises InvalidRequestError (INVALID_ARGUMENT), and UnsupportedError (UNIMPLEMENTED) for log_file."""
    sent = {name: request.settings[name] for name in request.settings}
    _refuse_log_file(sent)
    changes: dict[str, Any] = {}
    for name, kind, wanted in (
        *((switch, "bool_param", "boolean") for switch in _SWITCHES),
        ("log_verbose_level", "uint32_param", "int32"),
        ("log_format", "string_param", "string"),
    ):
        if name in sent:
            if sent[name].WhichOneof("parameter_choice") != kind:
                raise InvalidRequestError(f"expect {wanted} for '{name}'")
            changes[name] = getattr(sent[name], kind)
    control.update(changes)
    return _log_response(control)


def _log_response(control: LogControl) -> service_pb2.LogSettingsResponse:
    response = service_pb2.LogSettingsResponse()
    for name, value in asdict(control.settings).items():
        kind = "bool_param" if isinstance(value, bool) else "uint32_param" if isinstance(value, int) else "string_param"
        setattr(response.settings[name], kind, value)
    return response


def http_log_settings(control: LogControl, document: Any) -> dict[str, Any]:
    """Serve the HTTP call. A setting that is null is left unchanged.

    Args:
        document: the parsed body of a POST, None for a GET.

    Raises:
        MalformedJsonError: (500) for values of another type.
        InvalidRequestError: (400).
        UnsupportedError: (501) for log_file.
    """
    sent = {name: value for name, value in document.items() if value is not None} if isinstance(document, dict) else {}
    _refuse_log_file(sent)
    changes = {name: sent[name] for name in (*_SWITCHES, "log_verbose_level", "log_format") if name in sent}
    if not all(isinstance(changes.get(name, True), bool) for name in _SWITCHES):
        raise MalformedJsonError("attempt to access JSON non-boolean as boolean")
    level = changes.get("log_verbose_level", 0)
    if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level < 1 << 32:
        raise MalformedJsonError("attempt to access JSON non-unsigned-integer as unsigned-integer")
    log_format = changes.get("log_format", FORMATS[0])
    if not isinstance(log_format, str):
        raise MalformedJsonError("attempt to access JSON non-string as string")
    if log_format not in FORMATS:
        raise InvalidRequestError(f"invalid argument for --log_format, got: {log_format[:64]}")
    control.update(changes)
    return asdict(control.settings)


def _refuse_log_file(sent: Mapping[str, Any]) -> None:
    if "log_file" in sent:
        raise UnsupportedError("log file location can not be updated through network protocol")
