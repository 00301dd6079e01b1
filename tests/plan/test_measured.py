# SPDX-License-Identifier: Apache-2.0
"""A server's histograms: what is read from a metrics page, and pages that are refused."""

from __future__ import annotations

import math
import socket
from pathlib import Path

import pytest

from hypersonic.plan.errors import PlanError
from hypersonic.plan.measured import parse_service, read_service
from hypersonic.server.statistics.exposition import Family, histogram_samples, render
from tests.plan.metrics import page


def test_a_page_gives_times_rows_and_requests_of_an_execution() -> None:
    service = parse_service(page(), "facile", "here")
    assert service.bounds_s == pytest.approx((1e-4, 2e-4, 5e-4, math.inf))
    assert service.counts == (0, 100, 100, 100)
    assert (service.mean_s, service.rows, service.requests) == pytest.approx((150e-6, 16_000, 1))
    assert service.transfer_s == pytest.approx(150e-6)


def test_other_models_on_the_page_are_left_out_and_versions_are_added() -> None:
    second = page(mean_us=250.0).replace('version="1"', 'version="2"')
    service = parse_service(page() + second + page("jets", mean_us=9.0), "facile", "here")
    assert service.counts[-1] == 200
    assert service.mean_s == pytest.approx(200e-6)


def test_the_servers_own_text_is_read() -> None:
    labels = {"gpu_uuid": "GPU-0", "model": "facile", "version": "1"}
    name = "nv_inference_compute_infer_duration_histogram_us"
    family = Family(name, "histogram", "Histogram", tuple(histogram_samples(labels, [100.0, 0.5e3], [3, 4, 1], 2000.0)))
    others = "\n".join(line for line in page().splitlines() if "histogram" not in line)
    service = parse_service(render([family]) + others, "facile", "here")
    assert service.counts == (3, 7, 8)
    assert service.mean_s == pytest.approx(250e-6)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (page("jets"), "here has the histograms of jets, expected that of model 'facile'; name the model that was measured"),
        ("<html></html>", "here has no metrics of an inference server"),
        (page(requests=0), "here has 0 observations of model 'facile', expected at least one; send events first"),
        (page().replace("histogram_us_bucket", "other"), "expected this histogram of model 'facile'; start the server without"),
        (page().replace('le="200"', 'le="many"'), "has a bucket with le='many'"),
    ],
)
def test_a_page_without_this_model_says_what_it_has(text: str, error: str) -> None:
    with pytest.raises(PlanError) as raised:
        parse_service(text, "facile", "here")
    assert error in str(raised.value)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(
        PlanError, match=rf"http://127.0.0.1:{port}/metrics does not answer: .*refused; expected the metrics of a"
    ):
        read_service(f"http://127.0.0.1:{port}/metrics", "facile")
    with pytest.raises(PlanError, match="none cannot be read: No such file"):
        read_service(str(tmp_path / "none"), "facile")
