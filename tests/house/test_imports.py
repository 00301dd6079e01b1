# SPDX-License-Identifier: Apache-2.0
"""Modules import one way: no two reach each other, not even inside a function or under TYPE_CHECKING."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hls", "firmware", "host", "server", "client", "sim")
PACKAGE = "hypersonic"

#: module -> the modules of ours that it imports, wherever in its text
Graph = dict[str, set[str]]


def sources(root: Path) -> dict[str, Path]:
    """Every module of ours by its dotted name, and its file."""
    package = [(file, (PACKAGE, file.stem)) for file in sorted((root / PACKAGE).glob("*.py"))]
    rooms = [
        (file, (PACKAGE, *file.relative_to(root).with_suffix("").parts))
        for room in ROOMS
        for file in sorted((root / room).rglob("*.py"))
    ]
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): file for file, parts in (*package, *rooms)}


def import_graph(files: dict[str, Path]) -> Graph:
    graph: Graph = {}
    for name, file in files.items():
        tree = ast.parse(file.read_text(), str(file))
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        graph[name] = {found for asked in _asked(tree, package) if (found := _module(asked, files)) and found != name}
    return graph


def _asked(tree: ast.Module, package: str) -> Iterator[str]:
    """Every dotted name that an import statement names: `from a import b` may mean the module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _module(asked: str, files: dict[str, Path]) -> str | None:
    """The module of ours that holds the name, None for somebody else's."""
    while asked and asked not in files:
        asked = asked.rpartition(".")[0]
    return asked or None


def components(graph: Graph) -> list[list[str]]:
    """Strongly connected modules (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            place = stack.index(name)
            found.append(sorted(stack[place:]))
            del stack[place:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def cycles(graph: Graph) -> list[str]:
    """Each cycle with the imports that close it."""
    return [
        "\n".join(f"  {name} imports {', '.join(sorted(graph[name] & set(group)))}" for name in group)
        for group in components(graph)
        if len(group) > 1
    ]


def test_no_two_modules_import_each_other() -> None:
    found = cycles(import_graph(sources(ROOT)))
    assert not found, f"{len(found)} cycles; move what both need to a module below them:\n" + "\n\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import hypersonic.hls.low",
        "from hypersonic.hls import low",
        "from hypersonic.hls.low import NUMBER",
        "from .low import NUMBER",
        "from . import low",
        "def late():\n    from hypersonic.hls.low import NUMBER",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from hypersonic.hls.low import Noun",
    ],
)
def test_a_cycle_is_seen_however_the_import_is_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "hls").mkdir()
    (tmp_path / "hls/low.py").write_text("from hypersonic.hls import high\nNUMBER = 1\n")
    (tmp_path / "hls/high.py").write_text(f"import json\n{text}\n")
    (said,) = cycles(import_graph(sources(tmp_path)))
    assert said.splitlines() == [
        "  hypersonic.hls.high imports hypersonic.hls.low",
        "  hypersonic.hls.low imports hypersonic.hls.high",
    ]
