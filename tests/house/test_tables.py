# SPDX-License-Identifier: Apache-2.0
"""Every table of the documentation is rendered as one, with all its cells: a bar inside a cell would break its row."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def cells(line: str) -> int:
    """The number of cells of a row as it is written; the parser itself drops cells beyond those of the header."""
    split = escapedSplit(line.strip())
    return len(split) - (not split[0]) - (not split[-1])


def problems(text: str) -> list[str]:
    """The rows whose number of cells differs from the header's, and the rows that are not part of a table."""
    lines = text.splitlines()
    found, outside = list[str](), {number for number, line in enumerate(lines) if line.lstrip().startswith("|")}
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map is None:
            continue
        first, last = token.map
        if token.type in {"table_open", "fence", "code_block"}:
            outside -= set(range(first, last))
        if token.type == "table_open":
            rows = [number for number in range(first, last) if cells(lines[number]) != cells(lines[first])]
            found += [f"line {n + 1}: {cells(lines[n])} cells, expected {cells(lines[first])}" for n in rows]
    return [*found, *(f"line {number + 1} is not in a table" for number in sorted(outside))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_a_table_has_as_many_cells_as_its_header(page: Path) -> None:
    assert not problems(page.read_text())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("| a | b |\n|---|---|\n| 1 | x << 16 | y |\n", ["line 3: 3 cells, expected 2"]),
        ("| a | b |\n|---|---|\n| 1 |\n", ["line 3: 1 cells, expected 2"]),
        ("| a | b |\n|---|\n", ["line 1 is not in a table", "line 2 is not in a table"]),
        ("| a | b |\n|---|---|\n| 1 | x \\| y |\n| | |\n\n```\n| c |\n```\n", []),
    ],
)
def test_a_broken_row_is_found(text: str, problem: list[str]) -> None:
    assert problems(text) == problem
