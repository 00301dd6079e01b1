# SPDX-License-Identifier: Apache-2.0
"""Several compute units of one kernel behind the real server: the host keeps all of them fed."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from hypersonic.build import build
from hypersonic.client.load import describe_model, send_events
from hypersonic.hls.zoo.facile.events import log_flat_events
from hypersonic.infer import check_against_csim
from hypersonic.run import served

EVENTS, ROWS = 96, 8_000
_BUSY = re.compile(r'^fpga_compute_unit_busy_cycles_total\{.*compute_unit="([^"]+)".*\} (\S+)$', re.MULTILINE)


def busy_cycles(metrics: str) -> dict[str, int]:
    """Clocks with a run in flight of each compute unit, counted by the unit itself."""
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as answer:
        return {unit: int(float(value)) for unit, value in _BUSY.findall(answer.read().decode())}


@pytest.mark.parametrize("units", [1, 2, 4])
def test_kernel_time_is_nearly_divided_by_the_number_of_compute_units(tmp_path: Path, units: int) -> None:
    """The kernel time of a load is that of its busiest unit: with all units fed alike it is the sum over their number."""
    build("facile", repository=tmp_path, compute_units=units)
    rows = log_flat_events(1, seed=21).rows[:ROWS]
    with served(tmp_path) as server:
        model = describe_model(server.grpc, "facile")
        load = send_events(server.grpc, model, [rows] * EVENTS, clients=4 * units)
        busy = busy_cycles(server.metrics)
    assert len(busy) == units
    assert sum(busy.values()) / max(busy.values()) >= 0.8 * units, busy
    assert check_against_csim("facile", model, np.tile(rows, (EVENTS, 1)), np.concatenate(load.outputs)) == EVENTS * ROWS
