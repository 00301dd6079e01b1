# SPDX-License-Identifier: Apache-2.0
"""docs/layers.md: each row is a small model. Where the page says "exact", the core's integers are those of hls4ml's C++; where
it says "refused", the error contains the page's reason.

The da core's integers are those of its adder graph (tests/hls/da shows that the RTL computes them), the rf core's those of its
layers (tests/hls/rf/test_random_layers.py shows the same of its RTL).
"""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from tests.hls.layers.computed import computed
from tests.hls.layers.layer_rows import CASES
from tests.support.session import run_session

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "layers.md"
ROWS = 60
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_REFUSED = re.compile(r'^\| ([^|]+) \| ("[^|]+") \|$', re.MULTILINE)


def table() -> dict[str, list[str]]:
    """Label of a row -> its three cells. A row of the second table is refused on every core."""
    rows = [[cell.replace("`", "") for cell in match.groups()] for match in _ROW.finditer(PAGE.read_text())]
    refused = [[match[1].replace("`", ""), *3 * [f"refused: {match[2]}"]] for match in _REFUSED.finditer(PAGE.read_text())]
    return {label: cells for label, *cells in rows[1:] + refused if set(label) != {"-"}}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a session that converted every row."""
    directory = tmp_path_factory.mktemp("layers")
    (directory / "cells.json").write_text(json.dumps(table()))
    run_session(Path(__file__).with_name("layer_session.py"), directory / "cells.json", directory)
    return directory


def test_the_page_has_a_row_for_each_layer_and_no_other_word_in_a_cell() -> None:
    assert table().keys() == CASES.keys()
    for label, cells in table().items():
        assert all(re.fullmatch(r'exact|refused: ".+"', cell) for cell in cells), label


def test_a_refused_layer_is_refused_with_the_reason_on_the_page(session: Path) -> None:
    messages = json.loads((session / "messages.json").read_text())
    for label, said in messages.items():
        cells = [cell for cell in table()[label] if cell != "exact"]
        for cell, (column, message) in zip(cells, said.items(), strict=True):
            wanted = cell.removeprefix("refused: ").strip('"')
            assert wanted in message, f"{label}, {column}: {message}"


def test_an_exact_layer_gives_the_integers_of_hls4mls_cpp(session: Path) -> None:
    seen = []
    for path in sorted(session.glob("io_*/parts.pickle")):
        project = HlsProject.load(path.parent)
        x = random_rows(project)
        y = Csim(compile_csim(project, optimisation="-O0"), project).predict_raw(x)
        inputs, outputs = project.inputs.split(x), project.outputs.split(y)
        for label, column, network, taken, given in pickle.loads(path.read_bytes()):
            own = np.concatenate([inputs[k] for k in taken], axis=1)
            expected = np.concatenate([outputs[k] for k in given], axis=1)
            np.testing.assert_array_equal(computed(network, own), expected, err_msg=f"{label}, {column}")
            assert len(np.unique(expected)) > 1, f"{label}, {column}: every answer is the same"
            seen.append((label, column))
    assert len(seen) == len(set(seen)) == sum(cells.count("exact") for cells in table().values())


def test_a_layer_without_its_time_distributed_gives_the_models_answers(session: Path) -> None:
    assert json.loads((session / "unwrapped.json").read_text()) < 1e-5, "Keras sums in float32"


def test_a_layer_that_is_rewritten_gives_the_models_answers(session: Path) -> None:
    assert json.loads((session / "simplified.json").read_text()) < 1e-5, "Keras sums in float32"


def random_rows(project: HlsProject) -> NDArray[np.int64]:
    """Half of them anywhere in the range, half near zero, and both ends."""
    rng = np.random.default_rng(1)
    types = [tensor.fixed for tensor in project.inputs.tensors for _ in range(tensor.size)]
    low, high = [fixed.min_raw for fixed in types], [fixed.max_raw for fixed in types]
    x = rng.integers(low, high, (ROWS, len(types)), endpoint=True)
    x[ROWS // 2 :] >>= rng.integers(0, [fixed.width for fixed in types], (ROWS - ROWS // 2, len(types)))
    x[0], x[1] = low, high
    return x
