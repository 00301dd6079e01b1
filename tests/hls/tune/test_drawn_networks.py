# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build` never refuses what `hypersonic new` writes, whatever ranges a network's numbers have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.session import run_keras_2

HERE = Path(__file__).resolve().parent

#: networks; `python -m tests.hls.tune.drawn_networks DIRECTORY COUNT FIRST` draws others
COUNT = 20

pytestmark = pytest.mark.whole("hls", "requirements.lock", "tests/hls/tune/drawn_networks.py")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    written = tmp_path_factory.mktemp("drawn")
    run_keras_2(HERE / "drawn_networks.py", written, str(COUNT))
    return dict(json.loads((written / "verdicts.json").read_text()))


def test_no_yaml_that_new_writes_is_refused(verdicts: dict[str, Any]) -> None:
    assert len(verdicts) == COUNT
    assert not {seed: each for seed, each in verdicts.items() if each["build"]}


def test_new_finds_types_for_every_network(verdicts: dict[str, Any]) -> None:
    assert not {seed: each for seed, each in verdicts.items() if each["new"]}
    # "new" judges probabilities by their worst difference: where they hardly vary, its rms is a large share of the spread
    numbers = {seed: each for seed, each in verdicts.items() if each["layers"][-1] == "Dense"}
    assert len(numbers) > COUNT / 2
    assert not {seed: each for seed, each in numbers.items() if not each.get("loss", 1) <= 0.05}
