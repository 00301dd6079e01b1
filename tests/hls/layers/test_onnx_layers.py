# SPDX-License-Identifier: Apache-2.0
"""docs/layers.md, ONNX operators: each row is a small graph, described as `hypersonic new` does. Where the page says "exact",
the core's integers are those of hls4ml's C++, and the answers are not far from onnxruntime's; where it says "refused", the
error contains the page's reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.hls.layers.layer_session import COLUMNS
from tests.hls.layers.onnx_layer_rows import CASES
from tests.support.session import run_keras_2

pytestmark = [pytest.mark.whole, pytest.mark.timeout(2700)]  # one process converts the graph of every row

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "layers.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def table() -> dict[str, list[str]]:
    """Label of a row -> its cells: what it becomes, and one for each column."""
    rows = [[cell.replace("`", "") for cell in match.groups()] for match in _ROW.finditer(PAGE.read_text())]
    return {label: cells for label, *cells in rows[1:] if set(label) != {"-"}}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("onnx_layers") / "said.json"
    run_keras_2(Path(__file__).with_name("onnx_layer_session.py"), out)
    return dict(json.loads(out.read_text()))


def test_the_page_has_a_row_for_each_graph_and_no_other_word_in_a_cell() -> None:
    assert table().keys() == CASES.keys()
    for label, (_, *cells) in table().items():
        assert all(re.fullmatch(r'exact|refused: ".+"', cell) for cell in cells), label


@pytest.mark.parametrize("label", CASES)
def test_each_cell_of_an_operator_is_what_the_page_says(said: dict[str, Any], label: str) -> None:
    for column, cell in zip(COLUMNS, table()[label][1:], strict=True):
        if cell == "exact":
            assert said[label][column] == "exact", column
            assert said[label][f"{COLUMNS[column][1]} far"] == "", column
        else:
            assert cell.removeprefix("refused: ").strip('"') in said[label][column], column
