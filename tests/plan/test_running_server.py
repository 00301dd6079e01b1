# SPDX-License-Identifier: Apache-2.0
"""A plan with the service times of a real server, with a backend in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hypersonic import cli
from hypersonic.plan.measured import read_service
from tests.server.conftest import Serve


def test_a_plan_reads_what_a_server_has_measured(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.json"
    with serve() as running:
        argv = ["plan", "m", "--metrics", running.metrics, "--input-bytes", "12", "--output-bytes", "4", "--jobs", "10"]
        assert cli.main(argv) == 2
        assert "has 0 observations of model 'm', expected at least one; send events first" in capsys.readouterr().err
        for _ in range(20):
            running.infer(np.ones((50, 3), np.float32))
        service = read_service(running.metrics, "m")
        assert cli.main([*argv, "--no-simulation", "--json", str(out)]) == 0
        assert cli.main(["plan", "facile", *argv[2:]]) == 2
        assert cli.main(["plan", "m", "--metrics", running.metrics, "--jobs", "10"]) == 2
    assert cli.main(["plan", "--file", str(out), "--no-simulation"]) == 0, "the server is not asked again"
    printed = capsys.readouterr()
    assert "has its times, but not the bytes of a row; give them with --input-bytes and --output-bytes" in printed.err
    assert "has the histograms of m, expected that of model 'facile'" in printed.err
    assert (service.rows, service.requests, service.counts[-1]) == (50, 1, 20)
    assert 0 < service.mean_s < service.bounds_s[-1]
    data = json.loads(out.read_text())
    assert data["inputs"]["workload"]["rows"] == 50
    assert data["marks"]["workload.rows"] == {"basis": "measured", "source": running.metrics}
    (units,) = [limit for limit in data["limits"] if limit["part"] == "compute units"]
    assert units["events_per_s"] == pytest.approx(data["cards"] / service.mean_s)
    assert units["basis"] == "measured"
