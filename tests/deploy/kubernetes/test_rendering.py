# SPDX-License-Identifier: Apache-2.0
"""The real kubectl renders every overlay and component; Kubernetes' own schemas and ours accept the result."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.kubernetes.programs import (
    DEPLOY,
    HERE,
    KUBERNETES,
    OVERLAYS,
    ROOT,
    Manifest,
    RenderError,
    binary,
    check_schema,
    container,
    kustomize,
    one,
    validate,
)

CUSTOM = {"PodMonitor", "ScaledObject", "PrometheusRule"}
#: most seconds until a client that asks for addresses no longer gets that of a pod that has left: EndpointSlice, CoreDNS' TTL
#: (5 s), and a poll of the client
NAMES_S = 10
#: gRPC closes a connection within 10 % of its age
JITTER = 1.1
SITE = "site.yaml"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of deploy/ that a test may edit: its folder kubernetes."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    return tmp_path / "deploy" / "kubernetes"


def edit(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    assert count == 1, (file, pattern)
    file.write_text(text)


def seconds(text: str) -> float:
    return float(text) / 1000


def option(manifests: list[Manifest], name: str) -> str:
    (value,) = [arg.partition("=")[2] for arg in container(manifests)["args"] if arg.startswith(f"--{name}=")]
    return value


def test_the_overlays_are_those_of_the_folder() -> None:
    assert sorted(path.name for path in (KUBERNETES / "overlays").iterdir()) == sorted(OVERLAYS)


def test_kubernetes_and_our_schemas_accept_every_object(
    farms: dict[str, list[Manifest]], monitoring: list[Manifest], tmp_path: Path
) -> None:
    everything = [*monitoring, *(each for farm in farms.values() for each in farm)]
    verdicts = validate(everything, tmp_path)
    assert len(verdicts) == len(everything)
    for name, verdict in verdicts.items():
        assert verdict == ("no schema" if name.partition("/")[0] in CUSTOM else "passed"), (name, verdict)
    own = [(each, HERE / "schemas" / f"{each['kind'].lower()}.json") for each in everything if each["kind"] in CUSTOM]
    boards = [
        (json.loads(file.read_text()), HERE / "schemas" / "dashboard.json") for file in (DEPLOY / "grafana").glob("*.json")
    ]
    assert len(own) == 2 * len(OVERLAYS) + 1
    assert len(boards) == 3
    assert check_schema([*own, *boards], tmp_path) == []


def test_the_schemas_find_a_field_that_does_not_exist(farms: dict[str, list[Manifest]], tmp_path: Path) -> None:
    scaled = json.loads(json.dumps(one(farms["u250"], "ScaledObject")))
    scaled["spec"]["minReplicas"] = scaled["spec"].pop("minReplicaCount")
    errors = check_schema([(scaled, HERE / "schemas" / "scaledobject.json")], tmp_path)
    assert len(errors) == 2
    assert "'minReplicas' was unexpected" in "".join(errors)
    bad = json.loads(json.dumps(one(farms["u250"], "Deployment")))
    bad["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    assert "redinessProbe" in validate([bad], tmp_path)["Deployment/hypersonic-u250"]


@pytest.mark.parametrize("repository", ["repository-pvc", "repository-cvmfs", "repository-init"])
@pytest.mark.parametrize("overlay", ["u250", "emulated"])
def test_every_repository_fits_every_overlay(copy: Path, tmp_path: Path, overlay: str, repository: str) -> None:
    kustomization = copy / "overlays" / overlay / "kustomization.yaml"
    edit(kustomization, r"components/repository-pvc .*$", f"components/{repository}")
    if repository == "repository-cvmfs":
        edit(copy / "overlays" / overlay / SITE, "repository: /repository$", "repository: /cvmfs/cms.cern.ch/models")
    manifests = kustomize(kustomization.parent)
    assert "passed" in validate(manifests, tmp_path)[f"Deployment/hypersonic-{overlay}"]
    server = container(manifests)
    (mount,) = [each for each in server["volumeMounts"] if each["name"] == "repository"]
    (where,) = [each["value"] for each in server["env"] if each["name"] == "MODEL_REPOSITORY"]
    assert mount["readOnly"]
    assert f"{where}/".startswith(f"{mount['mountPath']}/")
    pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "repository"]
    kind = {"repository-pvc": "persistentVolumeClaim", "repository-cvmfs": "hostPath", "repository-init": "emptyDir"}[
        repository
    ]
    assert kind in volume
    for each in pod.get("initContainers", []):
        assert each["securityContext"] == server["securityContext"]
        assert each["resources"]["limits"] == each["resources"]["requests"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_server_runs_without_rights_and_writes_only_to_tmp(farms: dict[str, list[Manifest]], overlay: str) -> None:
    """The Pod Security Standard `restricted`, and a read-only root file system."""
    pod = one(farms[overlay], "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    server = container(farms[overlay])
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [each["mountPath"] for each in server["volumeMounts"] if not each.get("readOnly")]
    assert writable == ["/tmp"]
    assert {each["name"]: each["value"] for each in server["env"] if "value" in each}["HOME"] == "/tmp"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_requests_equal_limits_and_only_cards_overlays_ask_for_a_card(farms: dict[str, list[Manifest]], overlay: str) -> None:
    resources = container(farms[overlay])["resources"]
    assert resources["limits"] == resources["requests"]
    cards = [name for name in resources["limits"] if "/" in name]
    assert cards == {
        "u250": ["amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"],
        "u55c": ["amd.com/xilinx_u55c_gen3x16_xdma_base_3-0"],
    }.get(overlay, [])
    assert all(resources["limits"][card] == "1" for card in cards)


def test_the_name_of_the_card_is_one_variable(copy: Path) -> None:
    edit(copy / "overlays" / "u250" / SITE, r"card: \{.*$", 'card: {amd.com/other-1: "2"}')
    resources = container(kustomize(copy / "overlays" / "u250"))["resources"]
    assert resources["limits"] == resources["requests"] == {"amd.com/other-1": "2", "cpu": 4, "memory": "8Gi"}
    names = [line for file in copy.rglob("*.yaml") for line in file.read_text().splitlines() if "{amd.com/" in line]
    assert len(names) == 2, "one for each of two overlays"


@pytest.mark.parametrize("variable", ["card", "tolerations", "cpu", "memory", "farm", "namespace", "repository", "prometheus"])
def test_a_variable_that_is_not_set_is_an_error_that_names_it(copy: Path, variable: str) -> None:
    edit(copy / "overlays" / "u250" / SITE, rf"^  {variable}:.*$", "")
    with pytest.raises(RenderError, match=f"fieldPath `spec.{variable}` is missing for replacement source Site"):
        kustomize(copy / "overlays" / "u250")


@pytest.mark.parametrize("given", ["maintenance: 10%, update: 5%", "maintenance: 3, update: 2"])
def test_a_site_says_how_many_servers_may_be_away(copy: Path, tmp_path: Path, given: str) -> None:
    """For the maintenance of nodes and in a rolling update, also in a farm that keeps cards free for updates."""
    away = yaml.safe_load(f"{{{given}}}")
    edit(copy / "overlays" / "u250" / SITE, r"away: \{.*$", f"away: {{{given}}}")
    manifests = kustomize(copy / "overlays" / "u250")
    assert set(validate(manifests, tmp_path).values()) == {"passed", "no schema"}
    assert one(manifests, "PodDisruptionBudget")["spec"]["maxUnavailable"] == away["maintenance"]
    update = {"maxSurge": 0, "maxUnavailable": away["update"]}
    assert one(manifests, "Deployment")["spec"]["strategy"]["rollingUpdate"] == update
    edit(copy / "overlays" / "u250" / "kustomization.yaml", "(  - ../../components/)card$", r"\1card\n\1surge")
    update = {"maxSurge": away["update"], "maxUnavailable": 0}
    assert one(kustomize(copy / "overlays" / "u250"), "Deployment")["spec"]["strategy"]["rollingUpdate"] == update


@pytest.mark.parametrize("name", ["maintenance", "update"])
def test_a_share_that_is_not_set_is_an_error_that_names_it(copy: Path, name: str) -> None:
    edit(copy / "overlays" / "u250" / SITE, rf"\b{name}: \d+%,? ?", "")
    with pytest.raises(RenderError, match=rf"fieldPath `spec\.away\.{name}` is missing"):
        kustomize(copy / "overlays" / "u250")


@pytest.mark.parametrize("overlay", ["u250", "u55c"])
def test_a_server_with_a_card_may_have_processors_of_its_own_and_runs_on_tainted_nodes(
    farms: dict[str, list[Manifest]], overlay: str
) -> None:
    """The kubelet's CPU and memory managers want whole processors, and limits that equal requests."""
    resources = container(farms[overlay])["resources"]
    assert resources["limits"] == resources["requests"]
    assert isinstance(resources["limits"]["cpu"], int)
    pod = one(farms[overlay], "Deployment")["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"key": "amd.com/fpga", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_wrong_overlay_is_an_error_that_names_it() -> None:
    with pytest.raises(RenderError, match=r"not a valid directory.*overlays/u251"):
        kustomize(KUBERNETES / "overlays" / "u251")


def test_a_card_without_a_name_is_an_error_that_names_the_variable(copy: Path) -> None:
    edit(copy / "overlays" / "u250" / SITE, r"card: \{.*$", "card: {}")
    with pytest.raises(RenderError, match=r"fieldPath `spec\.card` is missing"):
        kustomize(copy / "overlays" / "u250")


def test_a_misspelt_component_is_an_error_that_names_it(copy: Path) -> None:
    edit(copy / "overlays" / "u250" / "kustomization.yaml", "components/card$", "components/cards")
    with pytest.raises(RenderError, match="components/cards"):
        kustomize(copy / "overlays" / "u250")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_objects_of_a_farm_find_its_servers_and_no_others(farms: dict[str, list[Manifest]], overlay: str) -> None:
    manifests = farms[overlay]
    own = {"app.kubernetes.io/name": "hypersonic", "app.kubernetes.io/instance": f"hypersonic-{overlay}"}
    deployment = one(manifests, "Deployment")
    assert deployment["spec"]["template"]["metadata"]["labels"] == own
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"][0]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
        one(manifests, "Service")["spec"]["selector"],
        one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one(manifests, "PodMonitor")["spec"]["selector"]["matchLabels"],
    ]
    assert all(each == own for each in selectors)
    assert one(manifests, "ScaledObject")["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (trigger,) = one(manifests, "ScaledObject")["spec"]["triggers"]
    assert f'{{release="{own["app.kubernetes.io/instance"]}",namespace="sonic"}}' in trigger["metadata"]["query"]
    assert {each["metadata"]["namespace"] for each in manifests} == {"sonic"}, "kubectl refuses another one"
    assert "Site" not in {each["kind"] for each in manifests}


def test_kubectl_refuses_another_namespace_than_that_of_the_autoscalers_query(
    farms: dict[str, list[Manifest]], tmp_path: Path
) -> None:
    (file := tmp_path / "deployment.yaml").write_text(yaml.safe_dump(one(farms["u250"], "Deployment")))
    argv: list[str | Path] = [binary("kubectl"), "set", "env", "--local", "-f", file, "A=b", "-o", "name"]
    assert subprocess.run([*argv, "-n", "sonic"], capture_output=True, check=False).returncode == 0
    refused = subprocess.run([*argv, "-n", "other"], capture_output=True, text=True, check=False)
    assert 'the namespace from the provided object "sonic" does not match the namespace "other"' in refused.stderr
    assert refused.returncode == 1


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_service_is_headless_and_has_triton_s_ports_by_name(farms: dict[str, list[Manifest]], overlay: str) -> None:
    service = one(farms[overlay], "Service")["spec"]
    assert service["clusterIP"] == "None"
    assert not service.get("publishNotReadyAddresses")
    assert {each["name"]: each["port"] for each in service["ports"]} == {"http": 8000, "grpc": 8001, "metrics": 8002}
    assert {each["name"]: each["containerPort"] for each in container(farms[overlay])["ports"]} == {
        "http": 8000, "grpc": 8001, "metrics": 8002,
    }  # fmt: skip
    policy = one(farms[overlay], "NetworkPolicy")["spec"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {"http", "grpc", "metrics"}
    assert policy["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_drain_fits_into_the_grace_and_clients_have_left_before_it_ends(
    farms: dict[str, list[Manifest]], overlay: str
) -> None:
    """preStop lasts until no name server gives the address, and every connection was closed by its age after that."""
    pod = one(farms[overlay], "Deployment")["spec"]["template"]["spec"]
    command = container(farms[overlay])["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    pre_stop_s = float(command[1])
    exit_s = float(option(farms[overlay], "exit-timeout-secs"))
    assert pre_stop_s >= NAMES_S + JITTER * seconds(option(farms[overlay], "grpc-max-connection-age"))
    assert pod["terminationGracePeriodSeconds"] >= pre_stop_s + exit_s + 10


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_probe_but_readiness_depends_on_a_card(farms: dict[str, list[Manifest]], overlay: str) -> None:
    server = container(farms[overlay])
    paths = {name: server[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: each["path"] for name, each in paths.items()} == {
        "startup": "/v2/health/live", "liveness": "/v2/health/live", "readiness": "/v2/health/ready",
    }  # fmt: skip
    assert all(each["port"] == "http" for each in paths.values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_rolling_update_replaces_a_share_of_the_servers_at_a_time(farms: dict[str, list[Manifest]], overlay: str) -> None:
    """Servers without a card are replaced by new ones that are ready; those with a card first free their cards."""
    update = one(farms[overlay], "Deployment")["spec"]["strategy"]["rollingUpdate"]
    with_card = overlay in {"u250", "u55c"}
    assert update == ({"maxSurge": 0, "maxUnavailable": "20%"} if with_card else {"maxSurge": "20%", "maxUnavailable": 0})
    spec = one(farms[overlay], "ScaledObject")["spec"]
    assert spec["minReplicaCount"] >= (2 if with_card else 1), "one server leaves and another one still serves"
    assert spec["maxReplicaCount"] >= spec["minReplicaCount"]
    assert "replicas" not in one(farms[overlay], "Deployment")["spec"], "applying the manifests again would undo the autoscaler"
    budget = one(farms[overlay], "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == ("34%", "AlwaysAllow")


def test_without_the_autoscaler_the_number_of_servers_is_the_deployments(copy: Path) -> None:
    edit(copy / "overlays" / "u250" / "kustomization.yaml", r"^  - ../../components/autoscaling.*\n", "")
    manifests = kustomize(copy / "overlays" / "u250")
    assert one(manifests, "Deployment")["spec"]["replicas"] == 2
    assert "ScaledObject" not in {each["kind"] for each in manifests}
    (kustomization := copy / "overlays" / "u250" / "kustomization.yaml").write_text(
        kustomization.read_text() + "replicas:\n  - {name: hypersonic, count: 4}\n"
    )
    assert one(kustomize(kustomization.parent), "Deployment")["spec"]["replicas"] == 4


def test_the_example_of_a_claim_is_the_one_that_the_servers_mount(farms: dict[str, list[Manifest]], tmp_path: Path) -> None:
    claim = yaml.safe_load((KUBERNETES / "models-claim.yaml").read_text())
    assert validate([claim], tmp_path) == {"PersistentVolumeClaim/hypersonic-models": "passed"}
    volumes = one(farms["emulated"], "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert claim["metadata"]["name"] in [each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes]


def test_options_of_containers_are_options_of_the_server(farms: dict[str, list[Manifest]]) -> None:
    texts = [arg for farm in farms.values() for arg in container(farm)["args"]]
    texts += yaml.safe_load((DEPLOY / "supersonic" / "values.yaml").read_text())["triton"]["args"]
    used = {match[0] for text in texts for match in re.finditer(r"--[a-z][a-z-]+", text)}
    argv = [sys.executable, "-m", "hypersonic.cli", "serve", "--help"]
    told = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z][a-z-]+", told.replace("-\n                        ", "-")))
    assert used
    assert used <= known


def test_the_rules_of_the_operator_are_those_of_prometheus(monitoring: list[Manifest], tmp_path: Path) -> None:
    fresh = tmp_path / "prometheusrule.yaml"
    subprocess.run([str(KUBERNETES / "monitoring" / "generate.sh"), str(fresh)], check=True)
    assert fresh.read_text() == (KUBERNETES / "monitoring" / "prometheusrule.yaml").read_text(), "run generate.sh"
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
    assert one(monitoring, "PrometheusRule")["spec"] == rules
