# SPDX-License-Identifier: Apache-2.0
"""The imports between our modules as a graph: who imports whom, in cycles, in layers and in chains."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hls", "firmware", "host", "server", "client", "plan", "sim", "triton")
PACKAGE = "hypersonic"

#: module (or folder) -> the ones of ours that it imports, wherever in its text
Graph = dict[str, set[str]]


#: a module that imports every module of a package by its name
BY_NAME = {
    f"{PACKAGE}.cli": f"{PACKAGE}.commands",
    f"{PACKAGE}.hls.da.lower": f"{PACKAGE}.hls.da.layers",
    f"{PACKAGE}.hls.network.registry": f"{PACKAGE}.hls.network.layers",
    f"{PACKAGE}.hls.rf.registry": f"{PACKAGE}.hls.rf.stages",
}


def read_sources(root: Path) -> dict[str, Path]:
    """The files of all our modules, by dotted name."""
    package = [(file, file.relative_to(root)) for file in sorted((root / PACKAGE).rglob("*.py"))]  # follows no symlink
    rooms = [(file, PACKAGE / file.relative_to(root)) for room in ROOMS for file in sorted((root / room).rglob("*.py"))]
    named = [(file, path.with_suffix("").parts) for file, path in (*package, *rooms)]
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): file for file, parts in named}


def read_imports(files: dict[str, Path]) -> Graph:
    """The imports of every module: at its top, inside functions and under TYPE_CHECKING."""
    graph: Graph = {}
    for name, file in files.items():
        tree = ast.parse(file.read_text(), str(file))
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        modules = (_module_of(imported, files) for imported in _imported_names(tree, package))
        graph[name] = {module for module in modules if module and module != name}
    for name, named in BY_NAME.items():
        graph.get(name, set()).update(module for module in files if module.startswith(f"{named}."))
    return graph


def _imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    """Every dotted name that an import statement names: `from a import b` may mean the module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _module_of(imported: str, files: dict[str, Path]) -> str | None:
    """The module of ours that holds the name, or None if the name is not ours."""
    while imported and imported not in files:
        imported = imported.rpartition(".")[0]
    return imported or None


def find_components(graph: Graph) -> list[list[str]]:
    """Strongly connected modules (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

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
            components.append(sorted(stack[place:]))
            del stack[place:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return components


def find_cycles(graph: Graph) -> list[str]:
    """Each cycle with the imports that close it, a text."""
    return [
        "\n".join(f"  {name} imports {', '.join(sorted(graph[name] & set(group)))}" for name in group)
        for group in find_components(graph)
        if len(group) > 1
    ]


def group_by_folder(graph: Graph, package: str) -> Graph:
    """The graph of what lies directly in a package: its modules, and its folders with all that is below them as one node.

    Imports of the package's own __init__ and from outside the package are left out.
    """
    prefix = f"{package}."

    def node(name: str) -> str:
        return prefix + name.removeprefix(prefix).partition(".")[0]

    groups: Graph = {node(name): set() for name in graph if name.startswith(prefix)}
    for name in graph:
        if name.startswith(prefix):
            groups[node(name)] |= {node(other) for other in graph[name] if other.startswith(prefix)} - {node(name)}
    return groups


def imports_between(graph: Graph, one: str, other: str) -> list[str]:
    """The imports from below one folder (or module) to below another, a line each."""
    return [
        f"{name} imports {target}"
        for name in sorted(graph)
        for target in sorted(graph[name])
        if f"{name}.".startswith(f"{one}.") and f"{target}.".startswith(f"{other}.")
    ]


def find_longest_chain(graph: Graph, counted: frozenset[str] | None = None) -> list[str]:
    """The longest way along the imports of a graph without cycles; counted: what has a length, all of it unless told."""
    longest: dict[str, list[str]] = {}

    def walk(name: str) -> list[str]:
        if name not in longest:
            rest = max((walk(other) for other in sorted(graph[name])), key=len, default=[])
            longest[name] = [name, *rest] if counted is None or name in counted else rest
        return longest[name]

    return max((walk(name) for name in sorted(graph)), key=len, default=[])
