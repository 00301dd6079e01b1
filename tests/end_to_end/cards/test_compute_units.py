# SPDX-License-Identifier: Apache-2.0
"""Several compute units of one kernel behind the real server: the host keeps all of them fed."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hypersonic.building.model import build
from hypersonic.client import Client
from hypersonic.client.describe import describe
from hypersonic.events.golden import check_against_csim
from hypersonic.events.sending import closed_loop, send
from hypersonic.hls.zoo.facile.events import log_flat_events
from hypersonic.server_process import start_server

EVENTS, ROWS = 96, 8_000
_BUSY = re.compile(r'^fpga_compute_unit_busy_(\w+)_total\{.*compute_unit="([^"]+)".*\} (\S+)$', re.MULTILINE)


def busy(metrics: str) -> dict[str, dict[str, float]]:
    """The time in flight by compute unit: under "seconds" by the server's clock, under "cycles" by the unit's own."""
    busy_by_unit: dict[str, dict[str, float]] = {"seconds": {}, "cycles": {}}
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
        for measure, unit, value in _BUSY.findall(answer.read().decode()):
            busy_by_unit[measure][unit] = float(value)
    return busy_by_unit


@pytest.mark.whole("client", "firmware", "hls", "host", "requirements.lock", "server", "sim")
@pytest.mark.parametrize("units", [1, 2, 4])
def test_every_compute_unit_is_fed_and_takes_the_clocks_of_its_rows(
    tmp_path: Path, units: int, record_property: Callable[[str, object], None]
) -> None:
    """How evenly they share the load depends on the CPU time that each simulated unit's thread gets, so that is a remark."""
    build("facile", repository=tmp_path, compute_units=units)
    rows = log_flat_events(1, seed=21).rows[:ROWS]
    with start_server(tmp_path) as server, Client(server.grpc, closed_loop(4 * units)) as client:
        model = describe(client, "facile")
        load = send(client, "facile", [(rows,)] * EVENTS)
        measured = busy(server.metrics)
    seconds, cycles = measured["seconds"], measured["cycles"]
    assert len(seconds) == units
    assert min(seconds.values()) > 0, seconds
    speedup = sum(seconds.values()) / max(seconds.values())
    record_property("noteworthy", f"{units} units shared the load like {speedup:.2f} that are busy all the time")
    clocks = sum(cycles.values()) / (EVENTS * ROWS)  # a row; 72 bytes of it are 1.125 beats
    assert 1.125 <= clocks <= 1.2, cycles
    answers = np.concatenate([answer for (answer,) in load.outputs])
    assert check_against_csim("facile", model, (np.tile(rows, (EVENTS, 1)),), (answers,)) == EVENTS * ROWS
