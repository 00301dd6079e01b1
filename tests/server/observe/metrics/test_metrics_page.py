# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md lists exactly the families that /metrics can show, with their types, labels and texts; so do the rules."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from hypersonic.server.core.inference.card import CardReadings, CardStatus
from hypersonic.server.observe.facts import read_moment
from hypersonic.server.observe.metrics.page import Metrics, MetricsOptions
from hypersonic.server.statistics.exposition import Family
from hypersonic.server.statistics.latency_options import MetricsConfig
from tests.server.conftest import Running, Script, Serve, write_model
from tests.support.metrics_page import page

ROOT = Path(__file__).resolve().parents[4]
METRIC = re.compile(r"\b(?:nv|fpga|hypersonic)_[a-z0-9_]+")


def families(running: Running) -> dict[str, Family]:
    """All there are, those that have no series just now too."""
    metrics = Metrics(running.server.service, MetricsOptions(MetricsConfig(summary_latencies=True)))
    return {family.name: family for family in metrics._families(read_moment(running.server.service.repository))}


def test_the_page_lists_exactly_what_there_is(serve: Serve, tmp_path: Path) -> None:
    write_model(tmp_path / "models", config="response_cache { enable: true }")
    readings = CardReadings({"fpga": 70.0}, 50.0, 225.0, 0)
    card = CardStatus("FPGA-1", "u250", 1 << 30, 0, lambda _max_age_s: readings)
    with serve(Script(card=card), repository=tmp_path / "models") as running:
        running.infer(np.ones((5, 3), np.float32))
        exposed = families(running)
    listed = page()
    assert listed.keys() == exposed.keys()
    assert {name: row.text for name, row in listed.items()} == {name: family.help for name, family in exposed.items()}
    assert {name: row.kind for name, row in listed.items()} == {name: family.kind for name, family in exposed.items()}
    used = {name: frozenset(label for sample in family.samples for label in sample.labels) for name, family in exposed.items()}
    assert {name: labels for name, labels in used.items() if exposed[name].samples and labels != listed[name].labels} == {}


def test_the_shipped_rules_ask_only_for_what_there_is() -> None:
    rules = (ROOT / "deploy/prometheus/rules.yml").read_text()
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in page() else name for name in METRIC.findall(rules)}
    assert len(asked) > 10
    assert not asked - page().keys()
