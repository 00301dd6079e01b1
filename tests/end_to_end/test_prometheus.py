# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus (Debian's) scrapes running servers, also with models that take turns; promtool checks deploy/prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml

from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.conftest import Serve
from tests.support.optional import skip_without
from tests.support.server_program import program
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

    def query(self, text: str, at_s: float | None = None) -> dict[str, float]:
        """The value by the label `model`, or "" where there is none.

        Args:
            at_s: the time of the query, now if None.
        """
        asked = {"query": text} | ({} if at_s is None else {"time": str(at_s)})
        url = f"http://{self._address}/api/v1/query?{urllib.parse.urlencode(asked)}"
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


@pytest.fixture
def turning(tmp_path: Path, image: bytes) -> Path:
    """A repository of four models with an xclbin each, which take turns."""
    models = Repository(tmp_path / "models")
    for number, name in enumerate("abcd"):
        parameters = {"card_policy": "on_demand", "card_residency_ms": "200"}
        models.publish(name, linked(image, digest=f"{number:064x}"), parameters=parameters)
    return models.place


def ask(address: str, seed: int, requests: int) -> Counter[str]:
    """Send requests to models that a client chooses at random; return how many each was sent. Every answer is checked."""
    sent: Counter[str] = Counter()
    with triton.InferenceServerClient(address, channel_args=[("grpc.use_local_subchannel_pool", 1)]) as client:
        for value, name in enumerate(np.random.default_rng(seed).choice(list("abcd"), requests, p=[0.5, 0.3, 0.1, 0.1])):
            x = np.zeros((1, 18), np.float32)
            x[0, 0] = value
            tensor = triton.InferInput("x", [1, 18], "FP32")
            tensor.set_data_from_numpy(x)
            assert client.infer(str(name), [tensor], client_timeout=120).as_numpy("y")[0, 0] == 2 * value
            sent[str(name)] += 1
    return sent


def test_the_increase_of_models_that_take_turns_is_the_number_of_requests_and_their_waits_are_load(
    turning: Path, tmp_path: Path
) -> None:
    """Four models of four xclbins on two emulated cards, which are loaded in half a second."""
    environment = {"HYPERSONIC_EMU_DEVICES": "2", "HYPERSONIC_EMU_LOAD_MS": "500"}
    success = "nv_inference_request_success"
    with (
        program(f"--model-repository={turning}", environment=environment) as running,
        prometheus(tmp_path, running.ports["Metrics Service"]) as scraping,
    ):
        scraping.wait_for(success, dict.fromkeys("abcd", 0))
        with ThreadPoolExecutor(6) as clients:
            asked = [clients.submit(ask, running.grpc, seed, 75) for seed in range(6)]
            sent = sum((each.result(300) for each in asked), Counter[str]())
        assert sent.total() == 450
        scraping.wait_for(success, dict(sent))
        last_s = scraping.query(f"max(timestamp({success}))")[""]  # there, increase() extrapolates nothing
        for family in (success, "nv_inference_count", "nv_inference_request_duration_histogram_us_count"):
            increase = scraping.query(f"sum by (model) (increase({family}[1h]))", last_s)
            assert {model: round(value, 3) for model, value in increase.items()} == dict(sent), family
            assert set(scraping.query(f"count by (model) (last_over_time({family}[1h]))").values()) == {1}, "one series a model"
        waited = scraping.query("sum(increase(fpga_model_card_wait_seconds_total[1h]))", last_s)[""]
        busy = scraping.query("sum(increase(fpga_compute_unit_busy_seconds_total[1h]))", last_s)[""]
        assert waited > busy, "the cards were loaded most of the time"
        most = scraping.query("max_over_time(hypersonic:busy_share:rate1m[1h])")[""]
        assert most > scraping.query("max(max_over_time(fpga_compute_unit_busy_ratio[1h]))")[""]
        assert scraping.query('count(ALERTS{alertstate="firing"}) or vector(0)') == {"": 0}
