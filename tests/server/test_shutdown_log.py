# SPDX-License-Identifier: Apache-2.0
"""The log of a shutdown counts clients and streams, in the singular and in the plural."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hypersonic.server.app import Server
from hypersonic.server.limits.slow_clients import Fault
from hypersonic.server.wire.service.inference import InferenceService


class Stream:
    def end(self, text: str) -> None:
        self.text = text


@pytest.mark.parametrize(("count", "text"), [(1, "1 client was cut off: "), (7, "7 clients were cut off: ")])
def test_clients_that_are_cut_off_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int, text: str
) -> None:
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    service = SimpleNamespace(clients=SimpleNamespace(counts={Fault.SHUTDOWN: count}))
    Server._tell(cast("Any", SimpleNamespace(service=service)), closed=True)
    assert caplog.messages[0].startswith(text)


@pytest.mark.parametrize(("count", "text"), [(1, "1 open stream was ended."), (2, "2 open streams were ended.")])
def test_streams_that_are_ended_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, count: int, text: str
) -> None:
    caplog.set_level(logging.INFO, logger="hypersonic")
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    service = InferenceService(cast("Any", None))
    service.streams.update(Stream() for _ in range(count))
    service.end_streams()
    assert caplog.messages == [text]
