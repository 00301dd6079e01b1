# SPDX-License-Identifier: Apache-2.0
"""HTTP: health and metadata as Triton answers them, and the metrics every dashboard of the field asks for."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

from hypersonic.server.metrics import Family, render
from tests.server.conftest import Running, Script, Serve


@pytest.fixture
def running(serve: Serve) -> Iterator[Running]:
    with serve(Script(instances=2)) as server:
        yield server


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(running: Running) -> dict[str, float]:
    _, text = get(running.metrics)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}


def test_health_and_metadata(running: Running) -> None:
    assert get(f"{running.http}/v2/health/live") == (200, "")
    assert get(f"{running.http}/v2/health/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/versions/1/ready") == (200, "")
    assert get(f"{running.http}/v2/models/m/versions/2/ready") == (400, '{"error":"Model version not ready"}')
    assert json.loads(get(f"{running.http}/v2")[1])["name"] == "triton"
    assert json.loads(get(f"{running.http}/v2/models/m")[1])["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]


def test_errors_are_json_with_tritons_codes(running: Running) -> None:
    assert get(f"{running.http}/v2/models/n") == (404, '{"error":"Request for unknown model: \'n\' is not found"}')
    assert get(f"{running.http}/v2/models/m/versions/x")[0] == 400
    assert get(f"{running.http}/nothing") == (404, '{"error":"Not Found"}')
    assert get(running.metrics.replace("/metrics", "/v2/health/live"))[0] == 404


def test_readiness_falls_with_the_drain(running: Running) -> None:
    running.server.service.admission.close()
    assert get(f"{running.http}/v2/health/ready")[0] == 400
    assert get(f"{running.http}/v2/health/live")[0] == 200


def test_every_series_is_there_at_zero_from_load(running: Running) -> None:
    found = samples(running)
    model = 'model="m",version="1"'
    for name in (
        *("request_success", "count", "exec_count", "request_duration_us", "queue_duration_us", "pending_request_count"),
        *("compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us"),
    ):
        assert found[f"nv_inference_{name}{{{model}}}"] == 0
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        assert found[f'nv_inference_request_failure{{{model},reason="{reason}"}}'] == 0
    for unit in ("sum_1", "sum_2"):
        labels = f'{{{model},compute_unit="{unit}"}}'
        for name in ("busy_cycles_total", "runs_total", "timeouts_total"):
            assert found[f"fpga_compute_unit_{name}{labels}"] == 0
        assert found[f"fpga_compute_unit_in_service{labels}"] == 1
    assert found['nv_gpu_utilization{gpu_uuid="FPGA-test"}'] == 0


def test_counters_are_the_statistics(running: Running) -> None:
    for _ in range(3):
        running.infer(np.ones((5, 3), np.float32))
    found = samples(running)
    labels = '{model="m",version="1"}'
    assert found[f"nv_inference_request_success{labels}"] == 3
    assert found[f"nv_inference_count{labels}"] == 15
    assert found[f"nv_inference_exec_count{labels}"] == 3
    assert found[f"nv_inference_request_duration_us{labels}"] >= found[f"nv_inference_compute_infer_duration_us{labels}"]
    assert sum(value for name, value in found.items() if name.startswith("fpga_compute_unit_runs_total")) == 3
    assert sum(value for name, value in found.items() if name.startswith("fpga_compute_unit_busy_cycles_total")) == 30


def test_the_exposition_is_well_formed(running: Running) -> None:
    _, text = get(running.metrics)
    types = dict(re.findall(r"# TYPE (\S+) (counter|gauge)\n", text))
    line = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')
    for sample in (row for row in text.splitlines() if row[0] != "#"):
        match = line.fullmatch(sample)
        assert match, sample
        assert match[1] in types
    assert types["nv_inference_count"] == "counter"


def test_label_values_are_escaped() -> None:
    text = render([Family("f", "gauge", "h", (({"l": 'a"b\\c\nd'}, 0.5), ({}, 2.0)))])
    assert text == '# HELP f h\n# TYPE f gauge\nf{l="a\\"b\\\\c\\nd"} 0.5\nf 2\n'
