# SPDX-License-Identifier: Apache-2.0
"""The same requests to the real tritonserver and to ours, on equal repositories of python-backend models."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hypersonic.server.arguments import add_arguments
from tests.reference import batching
from tests.reference.cases import admin as admin_cases
from tests.reference.cases import control as control_cases
from tests.reference.cases import http as http_cases
from tests.reference.cases import infer as infer_cases
from tests.reference.cases import model as model_cases
from tests.reference.cases import region as region_cases
from tests.reference.cases import settings as settings_cases
from tests.reference.cases import statistics as statistics_cases
from tests.reference.cases.infer import Case
from tests.reference.compare import check, matches
from tests.reference.difference import tables
from tests.reference.differences.every import DIFFERENCES, REFUSED_OPTIONS, SUBJECTS
from tests.reference.pair import Pairs, Side
from tests.support.environments import Program

pytestmark = pytest.mark.whole("client", "server", "tests/reference")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-triton.md"
MODULES = {
    "infer": infer_cases,
    "admin": admin_cases,
    "model": model_cases,
    "http": http_cases,
    "region": region_cases,
    "settings": settings_cases,
}


def _on_wire(case: Case, side: Side) -> Any:
    return case(side.wire)


def of_wires(cases: Mapping[str, Case]) -> dict[str, Callable[[Side], Any]]:
    return {name: partial(_on_wire, case) for name, case in cases.items()}


@pytest.mark.parametrize("module", MODULES)
def test_requests_are_answered_alike(pair: Pairs, module: str) -> None:
    check(pair, of_wires(MODULES[module].cases()))


def test_requests_are_batched_alike(pair: Pairs) -> None:
    check(pair, batching.cases())


def test_requests_are_counted_alike(pair: Pairs) -> None:
    check(pair, statistics_cases.cases())


def test_models_are_controlled_alike(controlled: Pairs) -> None:
    check(controlled, {f"control: {name}": case for name, case in control_cases.cases().items()})


def test_no_case_is_listed_twice_and_every_listed_one_exists() -> None:
    named = [pattern for difference in DIFFERENCES for pattern in difference.cases]
    assert len(named) == len(set(named))
    existing = {name for module in MODULES.values() for name in module.cases()}
    existing |= {*batching.cases(), *statistics_cases.cases(), *(f"control: {name}" for name in control_cases.cases())}
    assert [p for p in named if not any(matches(p, name) for name in existing)] == []


def test_the_page_for_operators_has_the_same_tables() -> None:
    assert tables(SUBJECTS) in PAGE.read_text()


def test_every_option_of_tritonserver_is_known_and_those_listed_are_refused(reference: Program) -> None:
    environ = {**os.environ, **reference.env}
    help_run = subprocess.run([reference.argv[0], "--help"], env=environ, capture_output=True, text=True, check=False)
    theirs = set(re.findall(r"^\s*(--[a-z0-9-]+)", help_run.stdout + help_run.stderr, re.MULTILINE))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    ours = {option for action in parser._actions for option in action.option_strings}
    assert len(theirs) > 80
    assert theirs <= ours
    page = PAGE.read_text()
    for option in REFUSED_OPTIONS:
        with pytest.raises(SystemExit):
            parser.parse_args(["--model-repository=m", option])
        assert f"`{option}`" in page
