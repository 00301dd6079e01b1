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
from tests.reference.cases import control as control_cases
from tests.reference.cases import statistics as statistics_cases
from tests.reference.cases.every import MODULES
from tests.reference.cases.infer import Case
from tests.reference.compare import check
from tests.reference.differences.every import REFUSED_OPTIONS
from tests.reference.pair import Pairs, Side
from tests.support.environments import Program

pytestmark = pytest.mark.whole("client", "server", "tests/reference")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-triton.md"


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
