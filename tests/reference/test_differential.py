# SPDX-License-Identifier: Apache-2.0
"""The same requests to the real tritonserver and to ours, on equal repositories of python-backend models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.reference import admin_cases, batching, control_cases, http_cases, infer_cases, model_cases
from tests.reference.compare import check
from tests.reference.conftest import Pair, Side
from tests.reference.differences import DIFFERENCES, table
from tests.reference.infer_cases import Case

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-triton.md"
MODULES = {"infer": infer_cases, "admin": admin_cases, "model": model_cases, "http": http_cases}


def of_wires(cases: Mapping[str, Case]) -> dict[str, Callable[[Side], Any]]:
    return {name: lambda side, case=case: case(side.wire) for name, case in cases.items()}


@pytest.mark.parametrize("module", MODULES)
def test_requests_are_answered_alike(pair: Pair, module: str) -> None:
    check(pair, of_wires(MODULES[module].cases()))


def test_requests_are_batched_and_counted_alike(pair: Pair) -> None:
    def run(side: Side, name: str) -> Any:
        model, queued, first_rows = batching.SCENARIOS[name]
        return batching.scenario(side.wire, side.repository, model, queued, first_rows)

    check(pair, {f"batching: {name}": lambda side, name=name: run(side, name) for name in batching.SCENARIOS})


def test_models_are_controlled_alike(controlled: Pair) -> None:
    check(controlled, {f"control: {name}": case for name, case in control_cases.cases().items()})


def test_durations_of_ours_are_sums_of_what_the_requests_took(pair: Pair) -> None:
    (found,) = pair.hypersonic.wire.rpc("ModelStatistics", name="addsub")["model_stats"]
    stats = {key: int(value.get("ns", 0)) for key, value in found["inference_stats"].items()}
    parts = [stats[key] for key in ("queue", "compute_input", "compute_infer", "compute_output")]
    assert stats["success"] > 0
    assert sum(parts) <= stats["success"]


def test_no_case_is_listed_twice_and_every_listed_one_exists() -> None:
    named = [pattern for difference in DIFFERENCES for pattern in difference.cases]
    assert len(named) == len(set(named))


def test_the_page_for_operators_has_the_same_table() -> None:
    assert table(DIFFERENCES) in PAGE.read_text()
