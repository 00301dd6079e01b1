# SPDX-License-Identifier: Apache-2.0
"""The log's three formats, its levels, and LogSettings over gRPC and HTTP; texts as tritonserver 2.51 answers them."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from hypersonic.server.errors import InvalidRequestError, MalformedJsonError, StartError, UnsupportedError
from hypersonic.server.observe import log as server_log
from hypersonic.server.observe.log import LogControl, LogSettings
from hypersonic.server.wire.service.runtime_settings import http_log_settings, log_settings

LOGGER = logging.getLogger("hypersonic.server.test")
DEFAULTS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


pytestmark = pytest.mark.usefixtures("restored_loggers")


def log(tmp_path: Path, **settings: Any) -> LogControl:
    return LogControl(LogSettings(log_file=str(tmp_path / "log"), **settings))


def lines(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().splitlines()


def test_the_default_format_is_tritons(tmp_path: Path) -> None:
    log(tmp_path)
    LOGGER.info("Started %s", "x")
    pattern = rf"I\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {os.getpid()} test_log\.py:\d+\] Started x"
    assert re.fullmatch(pattern, lines(tmp_path)[0])


def test_iso8601_is_tritons(tmp_path: Path) -> None:
    log(tmp_path, log_format="ISO8601")
    LOGGER.warning("careful")
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ W {os.getpid()} test_log\.py:\d+\] careful", lines(tmp_path)[0])


def test_json_is_one_object_a_line_with_the_callers_fields(tmp_path: Path) -> None:
    log(tmp_path, log_format="json")
    LOGGER.error("model %s\nis gone", "m", extra={"fields": {"model": "m", "rows": 3, "level": "forged", "path": Path("x")}})
    LOGGER.error("it failed", exc_info=ValueError("why"))
    first, second = (json.loads(line) for line in lines(tmp_path))
    assert (first["level"], first["module"], first["message"]) == ("error", "test_log", "model m\nis gone")
    assert (first["model"], first["rows"], first["path"]) == ("m", 3, "x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["time"])
    assert "ValueError: why" in second["exception"]


@pytest.mark.parametrize("log_format", ["default", "ISO8601", "json"])
def test_what_a_client_sent_forges_no_line(tmp_path: Path, log_format: str) -> None:
    log(tmp_path, log_format=log_format)
    LOGGER.info("unknown model %s", "x\r\nI1121 09:28:00 1 app.py:1] all is well\x1b[2J\x85\u2028\u202e")
    text = (tmp_path / "log").read_text()
    assert len(text.splitlines()) == 1
    assert text.rstrip("\n").isprintable()


def test_each_level_is_on_or_off_by_itself(tmp_path: Path) -> None:
    control = log(tmp_path, log_warning=False)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        LOGGER.log(level, "at %d", level)
    control.may_reduce = True
    control.update({"log_info": False, "log_error": False, "log_warning": True, "log_verbose_level": 1})
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        LOGGER.log(level, "then %d", level)
    texts = [line.split("] ")[1] for line in lines(tmp_path)]
    assert [text for text in texts if "settings" not in text] == ["at 20", "at 40", "then 10", "then 30"]


def test_everything_may_be_off(tmp_path: Path) -> None:
    log(tmp_path, log_info=False, log_warning=False, log_error=False)
    LOGGER.critical("nobody hears")
    assert not lines(tmp_path)


def test_the_exporters_warnings_come_here_and_its_chatter_does_not(tmp_path: Path) -> None:
    log(tmp_path, log_verbose_level=1)
    logging.getLogger("opentelemetry.exporter").warning("cannot send")
    logging.getLogger("opentelemetry.exporter").info("sent")
    assert len(lines(tmp_path)) == 1


def test_a_log_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"--log-file .* cannot be written"):
        LogControl(LogSettings(log_file=str(tmp_path / "no" / "log")))


@pytest.mark.parametrize("created", [True, False])
def test_a_rotated_log_file_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: bool) -> None:
    monkeypatch.setattr(server_log, "_CHECK_S", 0.0)
    log(tmp_path)
    LOGGER.info("first")
    (tmp_path / "log").rename(tmp_path / "log.1")
    if created:  # logrotate's `create`
        (tmp_path / "log").touch()
    LOGGER.info("second")
    LOGGER.info("third")
    assert [line.rpartition(" ")[2] for line in lines(tmp_path)] == ["second", "third"]
    assert (tmp_path / "log.1").read_text().endswith("first\n")


def test_a_rotated_log_file_is_looked_for_at_most_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log, "_CHECK_S", 3600.0)
    log(tmp_path)
    (tmp_path / "log").rename(tmp_path / "log.1")
    LOGGER.info("first")
    assert not (tmp_path / "log").exists()
    assert (tmp_path / "log.1").read_text().endswith("first\n")


def test_a_log_file_that_cannot_be_opened_again_is_still_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log, "_CHECK_S", 0.0)
    log(tmp_path)
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").mkdir()
    LOGGER.info("first")
    assert (tmp_path / "log.1").read_text().endswith("first\n")
    (tmp_path / "log").rmdir()
    LOGGER.info("second")
    assert lines(tmp_path)[0].endswith("second")


def rpc(control: LogControl, **settings: Any) -> dict[str, Any]:
    request = service_pb2.LogSettingsRequest()
    for name, value in settings.items():
        request.settings[name].SetInParent()
        if value is not None:
            kind = "bool_param" if isinstance(value, bool) else "uint32_param" if isinstance(value, int) else "string_param"
            setattr(request.settings[name], kind, value)
    shown = log_settings(control, request).settings
    return {name: getattr(shown[name], str(shown[name].WhichOneof("parameter_choice"))) for name in shown}


def test_settings_are_shown_and_changed_over_both_protocols() -> None:
    control = LogControl(LogSettings())
    control.may_reduce = True
    assert rpc(control) == http_log_settings(control, None) == DEFAULTS
    assert rpc(control, log_info=False, log_verbose_level=2) == {**DEFAULTS, "log_info": False, "log_verbose_level": 2}
    assert http_log_settings(control, {"log_format": "ISO8601", "log_error": None})["log_format"] == "ISO8601"
    assert rpc(control, log_info=True, log_verbose_level=0, log_format="default", foo=1) == DEFAULTS


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"log_info": "false"}, "expect boolean for 'log_info'"),
        ({"log_info": 1}, "expect boolean for 'log_info'"),
        ({"log_info": None}, "expect boolean for 'log_info'"),
        ({"log_verbose_level": "1"}, "expect int32 for 'log_verbose_level'"),
        ({"log_verbose_level": True}, "expect int32 for 'log_verbose_level'"),
        ({"log_format": 1}, "expect string for 'log_format'"),
        ({"log_info": False, "log_format": "xml"}, "invalid argument for log_format, got: xml"),
    ],
)
def test_a_change_over_grpc_is_refused_as_a_whole_with_tritons_text(settings: dict[str, Any], text: str) -> None:
    control = LogControl(LogSettings())
    with pytest.raises(InvalidRequestError) as caught:
        rpc(control, **settings)
    assert str(caught.value) == text
    assert rpc(control) == DEFAULTS


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"log_info": "false"}, "attempt to access JSON non-boolean as boolean"),
        ({"log_error": 1}, "attempt to access JSON non-boolean as boolean"),
        ({"log_verbose_level": "1"}, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": -1}, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_verbose_level": True}, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"log_format": 1}, "attempt to access JSON non-string as string"),
        ({"log_format": "xml"}, "invalid argument for --log_format, got: xml"),
    ],
)
def test_a_change_over_http_is_refused_with_tritons_text(document: dict[str, Any], text: str) -> None:
    control = LogControl(LogSettings())
    with pytest.raises(MalformedJsonError if text.startswith("attempt") else InvalidRequestError) as caught:
        http_log_settings(control, document)
    assert str(caught.value) == text
    assert http_log_settings(control, None) == DEFAULTS


@pytest.mark.parametrize(
    "change", [{"log_info": False}, {"log_warning": False}, {"log_error": False}, {"log_verbose_level": 0}]
)
def test_the_log_is_not_reduced_below_what_the_command_line_says(change: dict[str, Any]) -> None:
    control = LogControl(LogSettings(log_verbose_level=1))
    for ask in (lambda: rpc(control, **change, log_format="json"), lambda: http_log_settings(control, change)):
        with pytest.raises(UnsupportedError, match="the log cannot be reduced over the network") as caught:
            ask()
        assert next(iter(change)).removesuffix("_level") in str(caught.value)
        assert "--allow-client-log-off=true" in str(caught.value)
    assert rpc(control) == {**DEFAULTS, "log_verbose_level": 1}


def test_a_client_may_log_more_and_go_back_to_what_the_command_line_says() -> None:
    control = LogControl(LogSettings(log_info=False))
    assert rpc(control, log_info=True, log_verbose_level=3)["log_verbose_level"] == 3
    assert rpc(control, log_info=False, log_verbose_level=0) == {**DEFAULTS, "log_info": False}


def test_no_file_is_named_over_the_network() -> None:
    control = LogControl(LogSettings())
    for ask in (lambda: rpc(control, log_file="x"), lambda: http_log_settings(control, {"log_file": ""})):
        with pytest.raises(UnsupportedError, match="log file location can not be updated through network protocol"):
            ask()


def test_a_change_of_the_settings_is_logged_whether_it_shows_more_or_less(tmp_path: Path) -> None:
    control = log(tmp_path)
    control.may_reduce = True
    control.update({"log_verbose_level": 2, "log_format": "ISO8601"})
    control.update({"log_verbose_level": 2})
    control.update({"log_info": False})
    control.update({"log_warning": False})
    control.update({"log_info": True})
    texts = [line.partition("a client changes the log settings: ")[2] for line in lines(tmp_path)]
    assert texts == [
        "log_verbose_level from 0 to 2, log_format from 'default' to 'ISO8601'",
        "log_info from True to False",
        "log_info from False to True",
    ]


@pytest.mark.parametrize("log_format", server_log.FORMATS)
def test_a_long_text_is_written_with_its_beginning_and_its_end(tmp_path: Path, log_format: str) -> None:
    log(tmp_path, log_format=log_format)
    LOGGER.error("begin%send", "x" * 200_000)
    LOGGER.error("failed", exc_info=ValueError("begin" + "y" * 200_000 + "end"))
    text = (tmp_path / "log").read_text()
    assert len(text) < 20_000
    assert re.search(r"beginx+ \[\.\.\. \d+ characters \.\.\.\] x+end", text)
    assert re.search(r"y+end", text)
