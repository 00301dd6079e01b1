# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus (Debian's) scrapes a running server; promtool checks what deploy/prometheus ships."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.server.conftest import Serve
from tests.support.optional import skip_without
from tests.support.waiting import wait_until

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
#: SuperSONIC's, for KEDA and Envoy's rate limiter: milliseconds of waiting per execution
QUEUE_MS = "rate(nv_inference_queue_duration_us[30s]) / (rate(nv_inference_exec_count[30s])*1000+0.001)"

pytestmark = skip_without("prometheus", "prometheus")


def promtool(*argv: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, argv)], cwd=SHIPPED, input=stdin, capture_output=True, text=True, check=False)


def test_promtool_accepts_the_shipped_configuration_and_its_rules() -> None:
    checked = promtool("check", "config", "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS" in checked.stdout


def test_each_shipped_alert_fires_when_it_should_and_not_before() -> None:
    tested = promtool("test", "rules", "rules_test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    alerts = re.findall(r"alert: (\w+)", (SHIPPED / "rules.yml").read_text())
    expected = re.findall(r"alertname: (\w+)\n\s+exp_alerts", (SHIPPED / "rules_test.yml").read_text())
    assert set(alerts) == set(expected)


class Prometheus:
    """Its HTTP API. https://prometheus.io/docs/prometheus/latest/querying/api/"""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.log: list[str] = []
        self._process = process
        self._address = ""
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._started.wait(60), self.log

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self.log.append(line)
            if match := re.search(r'msg="Listening on" address=(\S+)', line):
                self._address = match[1]
            if "Server is ready to receive web requests" in line:
                self._started.set()

    def query(self, text: str) -> dict[str, float]:
        """The value by the label `model`, or "" where there is none."""
        url = f"http://{self._address}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            result = json.load(answer)["data"]["result"]
        return {series["metric"].get("model", ""): float(series["value"][1]) for series in result}

    def wait_for(self, text: str, expected: Any) -> None:
        """Return as soon as the query's answer is `expected`; asks four times a second."""
        wait_until(lambda: self.query(text) == expected, 90, 0.25, lambda: (text, self.query(text), expected, self.log[-5:]))

    def stop(self) -> None:
        self._process.terminate()
        self._reader.join()


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[Prometheus]:
    """The shipped configuration, pointed at one server; keeps its data in `directory`."""
    config = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(SHIPPED / "rules.yml")]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    argv = ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    with subprocess.Popen(
        [*argv, "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    ) as process:
        server = Prometheus(process)
        try:
            yield server
        finally:
            server.stop()


def test_prometheus_scrapes_the_server_and_evaluates_supersonics_query(serve: Serve, tmp_path: Path) -> None:
    with (
        serve(metrics_config=("summary_latencies=true",)) as running,
        prometheus(tmp_path, running.server.addresses["Metrics Service"]) as scraping,
    ):
        scraping.wait_for('up{job="hypersonic"}', {"": 1})
        scraping.wait_for(QUEUE_MS, {"m": 0})
        scraping.wait_for("count(count by (instance) (nv_gpu_utilization))", {"": 1})
        for _ in range(4):
            running.infer(np.ones((5, 3), np.float32))
        scraping.wait_for("nv_inference_request_success", {"m": 4})
        scraping.wait_for("nv_inference_count", {"m": 20})
        scraping.wait_for("sum by (model) (nv_inference_request_duration_histogram_us_count)", {"m": 4})
        scraping.wait_for("histogram_quantile(0.5, nv_inference_request_duration_histogram_us_bucket) > bool 0", {"m": 1})
        scraping.wait_for("hypersonic:request_failures:ratio_rate5m", {"m": 0})
        scraping.wait_for('count(ALERTS{alertstate="firing"}) or vector(0)', {"": 0})
        assert not scraping.query("rate(nv_inference_request_success[30s]) < 0")


def test_promtool_parses_the_exposition(serve: Serve, tmp_path: Path) -> None:
    with serve(metrics_config=("summary_latencies=true",)) as running:
        running.infer(np.ones((5, 3), np.float32))
        with urllib.request.urlopen(running.metrics, timeout=20) as answer:
            text = answer.read().decode()
    checked = promtool("check", "metrics", stdin=text)
    assert checked.returncode in (0, 3), checked.stderr  # 3: lint, which Triton's names do not pass
    remarks = [line for line in checked.stderr.splitlines() if not line.startswith(("nv_", "error"))]
    assert not [line for line in remarks if line.startswith(("fpga_", "hypersonic_"))], remarks
    assert "error while linting" not in checked.stderr
