# SPDX-License-Identifier: Apache-2.0
"""PromQL expressions of what deploy/ renders: which metrics they name, and what they yield by the real promtool."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import yaml

from tests.deploy.kubernetes.programs import DEPLOY, ROOT, Manifest, one

RULES = DEPLOY / "prometheus" / "rules.yml"
#: the target's labels in Kubernetes
FARM, NAMESPACE = "hypersonic-u250", "sonic"
MINUTES = 10
STEP_S = 15

_WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "inf", "nan"}


class Expression(NamedTuple):
    """place: the file or object, and the name in it."""

    place: str
    text: str


def expressions(farms: Mapping[str, list[Manifest]], monitoring: list[Manifest]) -> list[Expression]:
    """Every expression of the rendered rules, dashboards and autoscalers, and of SuperSONIC's values."""
    found = []
    for group in one(monitoring, "PrometheusRule")["spec"]["groups"]:
        found += [Expression(rule.get("record") or rule["alert"], rule["expr"]) for rule in group["rules"]]
    for config in (each for each in monitoring if each["kind"] == "ConfigMap"):
        for name, text in config["data"].items():
            board = json.loads(text)
            for panel in board["panels"]:
                found += [Expression(f"{name}: {panel['title']} ({each['refId']})", each["expr"]) for each in panel["targets"]]
            for variable in board["templating"]["list"]:
                found += [
                    Expression(f"{name}: {variable['name']}", match)
                    for match in re.findall(r"label_values\((.+), \w+\)", variable["query"])
                ]
    for overlay, farm in farms.items():
        for trigger in one(farm, "ScaledObject")["spec"]["triggers"]:
            found.append(Expression(f"ScaledObject {overlay}", trigger["metadata"]["query"]))
    share = yaml.safe_load((DEPLOY / "supersonic" / "busy-share.yaml").read_text())
    return [*found, Expression("busy-share.yaml", share["serverLoadMetric"])]


def metrics_of(text: str) -> set[str]:
    """The names of metrics in an expression."""
    bare = re.sub(r'"(\\.|[^"])*"', "", text)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\w*\s*\()", bare)
    return {name for name in names if name.lower() not in _WORDS}


class Metric(NamedTuple):
    """A row of the tables in docs/metrics.md, which another test compares with the server's page."""

    name: str
    kind: str
    labels: tuple[str, ...]


def documented() -> dict[str, Metric]:
    """Every metric of docs/metrics.md by its name."""
    rows = re.findall(
        r"^\| `(\w+)` \| (counter|gauge|histogram|summary) \| ([^|]*)\|",
        (ROOT / "docs" / "metrics.md").read_text(),
        re.MULTILINE,
    )
    return {name: Metric(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def series(
    server: str, rates: Mapping[str, float] = MappingProxyType({}), namespace: str = NAMESPACE, release: str = FARM
) -> dict[str, str]:
    """`up` and all documented metrics of one server, as promtool's input: series -> values.

    rates: of a counter, its growth in a second; of a gauge, its value. Of others: a counter grows by 1 a second, a gauge is 1.
    """
    target = {"job": "hypersonic", "instance": f"{server}:8002", "pod": server, "namespace": namespace, "release": release}
    values = {
        "front_end": "grpc",
        "protocol": "grpc",
        "reason": "BACKEND",
        "state": "READY",
        "sensor": "fpga",
        "budget": "calls",
    }
    made = {_series("up", target): f"1x{MINUTES * 60 // STEP_S}"}
    for metric in documented().values():
        labels = {**target, **{label: values.get(label, f"{label}_1") for label in metric.labels}}
        rate = rates.get(metric.name, 1.0)
        if metric.kind == "gauge":
            made[_series(metric.name, labels)] = f"{rate:g}x{MINUTES * 60 // STEP_S}"
        elif metric.kind == "counter":
            made[_series(metric.name, labels)] = _growing(rate)
        elif metric.kind == "histogram":
            made.update({_series(f"{metric.name}_{part}", labels): _growing(rate) for part in ("sum", "count")})
            for bound, share in (("1000", 0.5), ("10000", 0.99), ("+Inf", 1.0)):
                made[_series(f"{metric.name}_bucket", {**labels, "le": bound})] = _growing(rate * share)
    return made


def _series(name: str, labels: Mapping[str, str]) -> str:
    texts = [f'{label}="{value}"' for label, value in labels.items()]
    return f"{name}{{{','.join(texts)}}}"


def _growing(rate: float) -> str:
    return f"0+{rate * STEP_S:g}x{MINUTES * 60 // STEP_S}"


def evaluate(
    given: Mapping[str, str], texts: Iterable[str], scratch: Path, at: str = f"{MINUTES - 1}m"
) -> dict[str, list[float]]:
    """The values that each expression yields at that time, by promtool with our rules. An empty list: no series."""
    wanted = list(dict.fromkeys(texts))
    impossible = [{"labels": "{impossible='1'}", "value": 77}]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [
            {
                "interval": f"{STEP_S}s",
                "input_series": [{"series": name, "values": values} for name, values in given.items()],
                "promql_expr_test": [{"expr": text, "eval_time": at, "exp_samples": impossible} for text in wanted],
            }
        ],
    }
    (file := scratch / "test.yml").write_text(yaml.safe_dump(test))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    answers = re.findall(r'^\s+expr: (".*"), time: .*\n.*\n\s+got: ?(.*)$', done.stdout + done.stderr, re.MULTILINE)
    assert [json.loads(text) for text, _ in answers] == wanted, done.stdout + done.stderr
    return {json.loads(text): _numbers(got) for text, got in answers}


def _numbers(got: str) -> list[float]:
    if got == "nil":
        return []
    return [float(number) for number in re.findall(r"\} ([-+\w.]+)(?:, |$)", got)]
