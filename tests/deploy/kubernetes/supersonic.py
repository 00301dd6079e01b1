# SPDX-License-Identifier: Apache-2.0
"""SuperSONIC's real chart, rendered by the real helm as docs/kubernetes.md installs it.

The chart is not in this repository. Its folder is the one that HYPERSONIC_SUPERSONIC_CHART names; otherwise helm pulls it into
the cache. Its dependencies (Grafana, Prometheus, ..) are removed from a copy, since our values do not switch them on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.cache import cached
from tests.deploy.kubernetes.programs import DEPLOY, ROOT, Manifest, binary, rendered
from tests.support.optional import NOT_IN_ANY_PACKAGE, skip

SHIPPED = DEPLOY / "supersonic"
VERSION = "0.3.1"
RELEASE, NAMESPACE = "hypersonic-farm", "sonic"
VARIABLE = "HYPERSONIC_SUPERSONIC_CHART"
#: the API server's kinds, of which helm asks for the paths
_KINDS: Mapping[str, tuple[str, ...]] = {
    "v1": ("ConfigMap", "Service"),
    "apps/v1": ("Deployment",),
    "keda.sh/v1alpha1": ("ScaledObject",),
    "monitoring.coreos.com/v1": ("PodMonitor", "ServiceMonitor"),
    "policy/v1": ("PodDisruptionBudget",),
}


def check(chart: Path) -> subprocess.CompletedProcess[str]:
    """Run deploy/supersonic/check.sh on a chart."""
    return subprocess.run([str(SHIPPED / "check.sh"), str(chart)], capture_output=True, text=True, check=False)


def copy_of_the_chart(directory: Path) -> Path:
    """A copy of the real chart without its dependencies. Skips the test where there is none."""
    found = Path(os.environ.get(VARIABLE) or cached("supersonic-chart", [VERSION], _pull) / "supersonic")
    assert check(found).returncode == 0, check(found).stderr
    shutil.copytree(found, copy := directory / "chart")
    about = yaml.safe_load((copy / "Chart.yaml").read_text())
    about.pop("dependencies", None)
    (copy / "Chart.yaml").write_text(yaml.safe_dump(about))
    (copy / "Chart.lock").unlink(missing_ok=True)
    return copy


def _pull(directory: Path) -> None:
    source = ("--repo", "https://fastmachinelearning.org/SuperSONIC", "--version", VERSION)
    argv = [str(binary("helm")), "pull", "supersonic", *source, "--untar", "--untardir", str(directory)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        chart = f"SuperSONIC's chart {VERSION}, whose folder {VARIABLE} names"
        skip(f"{NOT_IN_ANY_PACKAGE}, {chart}: helm pull failed, {done.stderr.strip()}")


def envoy_configuration() -> str:
    """Envoy's configuration, as the command of docs/kubernetes.md makes it."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    command = re.search(r"^python3 deploy/envoy/(generate\.py .+) > envoy\.yaml$", page, re.MULTILINE)
    assert command is not None, "docs/kubernetes.md does not say how envoy.yaml is made"
    generate = [sys.executable, *command[1].split()]
    return subprocess.run(generate, cwd=DEPLOY / "envoy", capture_output=True, text=True, check=True).stdout


def install(chart: Path, *more: str, data: Path, post_render: bool = True) -> list[Manifest]:
    """The objects that `helm install` of docs/kubernetes.md would create.

    Args:
        more: files of values beside values.yaml.
        data: an empty folder, where helm keeps its plugins.
    """
    helm, kubectl = binary("helm"), binary("kubectl")
    environ = ["env", f"HELM_DATA_HOME={data}", f"KUBECTL={kubectl}"]
    files = [word for name in ("values.yaml", *more) for word in ("-f", str(SHIPPED / name))]
    renderer: list[str] = []
    if post_render:
        argv = [*environ, str(helm), "plugin", "install", str(SHIPPED / "render")]
        subprocess.run(argv, capture_output=True, text=True, check=True)
        renderer = ["--post-renderer", "hypersonic"]
    with _cluster({"hypersonic-envoy": {"envoy.yaml": envoy_configuration()}}) as address:
        server = ["--dry-run=server", "--disable-openapi-validation", "--kube-apiserver", address, "--kube-token", "none"]
        return rendered(*environ, helm, "template", RELEASE, chart, "--namespace", NAMESPACE, *files, *renderer, *server)


@contextmanager
def _cluster(config_maps: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The address of an API server that has these ConfigMaps and nothing else: the chart looks one of them up."""
    answers = _discovery()
    for name, data in config_maps.items():
        found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
        answers[f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"] = found

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(found or missing).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def _discovery() -> dict[str, Any]:
    groups = [version for version in _KINDS if "/" in version]
    answers: dict[str, Any] = {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {"name": each.partition("/")[0], "versions": [{"groupVersion": each, "version": each.partition("/")[2]}]}
                for each in groups
            ],
        },
    }
    for version, kinds in _KINDS.items():
        answers[f"/apis/{version}" if "/" in version else f"/api/{version}"] = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": version,
            "resources": [
                {"name": f"{each.lower()}s", "singularName": each.lower(), "namespaced": True, "kind": each, "verbs": ["get"]}
                for each in kinds
            ],
        }
    return answers


def deployment(manifests: list[Manifest], component: str) -> Manifest:
    """The Deployment of the servers (triton) or of Envoy (envoy)."""
    (found,) = [
        each
        for each in manifests
        if each["kind"] == "Deployment" and each["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    return found


def pod_of(manifests: list[Manifest], component: str) -> Manifest:
    """The pod's template of that Deployment."""
    template: Manifest = deployment(manifests, component)["spec"]["template"]
    return template
