# SPDX-License-Identifier: Apache-2.0
"""The values for SuperSONIC's chart, by a schema of our own, and with the chart that HYPERSONIC_SUPERSONIC_CHART names.

The chart is not in this repository, and no test needs it: the tests that render it exist only where the variable is set. They
remove the chart's dependencies (Grafana, Prometheus, ..) from a copy, since the values do not switch them on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.kubernetes.autoscaler import decide
from tests.deploy.kubernetes.programs import DEPLOY, HERE, Manifest, RenderError, binary, check_schema, rendered, validate
from tests.deploy.kubernetes.promql import evaluate, series

SHIPPED = DEPLOY / "supersonic"
CHART = os.environ.get("HYPERSONIC_SUPERSONIC_CHART", "")
#: terminationGracePeriodSeconds of the chart
GRACE_S = 60


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SHIPPED / "values.yaml").read_text())
    return found


def test_the_values_have_the_form_that_the_chart_reads(tmp_path: Path) -> None:
    with_share = {**values(), **yaml.safe_load((SHIPPED / "busy-share.yaml").read_text())}
    schema = HERE / "schemas" / "supersonic-values.json"
    assert check_schema([(values(), schema), (with_share, schema)], tmp_path) == []
    broken = {**with_share, "serverLoadThreshold": 0.8}
    assert "0.8 is not of type 'integer'" in "".join(check_schema([(broken, schema)], tmp_path))


def test_requests_and_limits_of_the_card_are_equal() -> None:
    resources = values()["triton"]["resources"]
    assert resources["limits"] == resources["requests"]
    assert [name for name in resources["limits"] if "/" in name] == ["amd.com/xilinx_u55c_gen3x16_xdma_base_3-0"]


def test_the_wait_and_the_exit_timeout_fit_into_the_charts_grace() -> None:
    (script,) = values()["triton"]["args"]
    (wait_s,) = re.findall(r"sleep (\d+); kill", script)
    (exit_s,) = re.findall(r"--exit-timeout-secs=(\d+)", script)
    assert int(wait_s) + int(exit_s) + 5 <= GRACE_S
    assert int(wait_s) >= 15, "Envoy asks for names every 5 s, and they may be as old again"


def check(chart: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SHIPPED / "check.sh"), str(chart)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name: supersonic\nversion: 0.3.1\n", ""),
        ("name: supersonic\nversion: 0.10.0\n", ""),
        (
            "name: supersonic\nversion: 0.2.9\n",
            r"is version '0\.2\.9' of SuperSONIC's chart, expected 0\.3\.1 or newer: helm pull",
        ),
        ("name: grafana\nversion: 8.9.0\n", "is the chart 'grafana', expected supersonic"),
        (None, r"has no Chart\.yaml"),
    ],
)
def test_a_chart_that_is_too_old_is_an_error_that_says_what_to_do(tmp_path: Path, text: str | None, error: str) -> None:
    if text is not None:
        (tmp_path / "Chart.yaml").write_text(text)
    done = check(tmp_path)
    assert done.returncode == (1 if error else 0)
    assert re.search(error, done.stderr)


@pytest.mark.parametrize("words", [(), ("",), ("-h",), ("a", "b")])
def test_the_check_without_a_chart_says_how_it_is_used(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(SHIPPED / "check.sh"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == (0 if words == ("-h",) else 2)
    assert (done.stdout + done.stderr).startswith("usage: check.sh CHART\n")
    assert "helm pull fastml/supersonic --version 0.3.1 --untar" in done.stdout + done.stderr


def test_helm_is_the_real_one(tmp_path: Path) -> None:
    """It renders a chart of our own, and refuses a value that its schema does not know."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 1.0.0\n")
    (tmp_path / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}}\n"
    )
    (tmp_path / "values.schema.json").write_text('{"properties": {"size": {"type": "integer"}}}')
    (made,) = rendered(binary("helm"), "template", "sonic", tmp_path, "--set", "size=3")
    assert (made["metadata"]["name"], made["data"]) == ("sonic", {"size": "3"})
    with pytest.raises(RenderError, match="size"):
        rendered(binary("helm"), "template", "sonic", tmp_path, "--set", "size=large")


if CHART:

    @pytest.fixture
    def chart(tmp_path: Path) -> Path:
        assert check(Path(CHART)).returncode == 0
        copy = tmp_path / "chart"
        shutil.copytree(CHART, copy)
        about = yaml.safe_load((copy / "Chart.yaml").read_text())
        del about["dependencies"]
        (copy / "Chart.yaml").write_text(yaml.safe_dump(about))
        (copy / "Chart.lock").unlink(missing_ok=True)
        return copy

    def render(chart: Path, *more: str) -> list[Manifest]:
        files = [word for name in ("values.yaml", *more) for word in ("-f", str(SHIPPED / name))]
        return rendered(binary("helm"), "template", "sonic", chart, *files)

    def test_the_real_chart_runs_this_server(chart: Path, tmp_path: Path) -> None:
        manifests = render(chart)
        verdicts = validate(manifests, tmp_path)
        assert {verdict for name, verdict in verdicts.items() if not name.startswith("ScaledObject")} == {"passed"}
        (pod,) = [
            each["spec"]["template"]["spec"]
            for each in manifests
            if each["metadata"]["name"] == "sonic-triton" and each["kind"] == "Deployment"
        ]
        assert pod["terminationGracePeriodSeconds"] == GRACE_S
        (server,) = pod["containers"]
        given = values()["triton"]
        assert (server["command"], server["args"], server["resources"]) == (given["command"], given["args"], given["resources"])
        assert server["readinessProbe"]["exec"]["command"] == given["readinessProbe"]["command"]
        assert server["startupProbe"]["httpGet"]["path"] == "/v2/health/live"
        (mount,) = server["volumeMounts"]
        assert (mount["mountPath"], mount["readOnly"]) == ("/repository", True)

    @pytest.mark.parametrize("more", [(), ("busy-share.yaml",)])
    def test_the_real_chart_scales_by_a_query_that_works(chart: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
        (scaled,) = [each for each in render(chart, *more) if each["kind"] == "ScaledObject"]
        query = scaled["spec"]["triggers"][0]["metadata"]["query"].strip()
        busy, waiting = "fpga_compute_unit_busy_seconds_total", "nv_inference_queue_duration_us"
        others = {"hypersonic_instance_busy_seconds_total": 0.0}
        wanted = []
        for share, waiting_us in ((0.0, 0.0), (1.0, 200_000.0)):
            given = series("a", {**others, busy: share, waiting: waiting_us}, "sonic")
            wanted.append(decide(scaled, 4, evaluate(given, [query], tmp_path)[query]))
        assert wanted == ([1, 5] if more else [1, 8])
