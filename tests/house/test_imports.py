# SPDX-License-Identifier: Apache-2.0
"""Modules and folders import one way, in few layers and short chains; imports inside functions and for types count as well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.graph import (
    PACKAGE,
    ROOMS,
    ROOT,
    Graph,
    find_components,
    find_cycles,
    find_longest_chain,
    group_by_folder,
    imports_between,
    read_imports,
    read_sources,
)

#: folders of a room that stand on each other
MOST_LAYERS = 8

#: modules in a row, each of which imports the next; six are layers of a network that are read as others
LONGEST_CHAIN = 17


@cache
def imports() -> Graph:
    return read_imports(read_sources(ROOT))


@cache
def packages() -> list[str]:
    """Folders with modules in them."""
    return sorted(name for name, file in read_sources(ROOT).items() if file.name == "__init__.py")


def test_no_two_modules_import_each_other() -> None:
    cycles = find_cycles(imports())
    assert not cycles, f"{len(cycles)} cycles; move what both need to a module below them:\n" + "\n\n".join(cycles)


def test_no_two_folders_import_each_other() -> None:
    """The same holds for a folder and a module in the same package."""
    cycles = [cycle for package in packages() for cycle in explain_folder_cycles(package)]
    assert not cycles, f"{len(cycles)} cycles of folders:\n" + "\n\n".join(cycles)


def explain_folder_cycles(package: str) -> Iterator[str]:
    """Each cycle among the parts of a package, as the imports that close it."""
    for group in find_components(group_by_folder(imports(), package)):
        yield from filter(
            None, ["\n".join(line for a in group for b in group if a != b for line in imports_between(imports(), a, b))]
        )


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_few_layers_of_folders(room: str) -> None:
    package = f"{PACKAGE}.{room}"
    folders = frozenset(name for name in packages() if name.rpartition(".")[0] == package)
    layers = find_longest_chain(group_by_folder(imports(), package), folders)
    assert len(layers) <= MOST_LAYERS, f"{len(layers)} layers, expected {MOST_LAYERS} or fewer:\n" + "\n".join(layers)


def test_no_chain_of_imports_is_long() -> None:
    """A chain from elsewhere ends where it enters the client, a library that imports no other room; its own chains count."""

    def of_client(name: str) -> bool:
        return f"{name}.".startswith(f"{PACKAGE}.client.")

    graph = {name: {to for to in named if of_client(name) or not of_client(to)} for name, named in imports().items()}
    chain = find_longest_chain(graph)
    assert len(chain) <= LONGEST_CHAIN, (
        f"{len(chain)} modules in a row, expected {LONGEST_CHAIN} or fewer; import a noun or a Protocol of a lower module "
        "instead:\n" + "\n".join(chain)
    )


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
    (cycle,) = find_cycles(read_imports(read_sources(tmp_path)))
    assert cycle.splitlines() == [
        "  hypersonic.hls.high imports hypersonic.hls.low",
        "  hypersonic.hls.low imports hypersonic.hls.high",
    ]


@pytest.mark.parametrize("module", ["hypersonic.building.model", "hypersonic.reporting.engines"])
def test_a_command_that_draws_nothing_does_not_load_matplotlib(module: str) -> None:
    asked = [sys.executable, "-P", "-c", f"import sys, {module}; print('matplotlib' in sys.modules)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "False\n"
