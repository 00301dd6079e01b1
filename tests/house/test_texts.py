# SPDX-License-Identifier: Apache-2.0
"""Pages, docstrings and comments name only files and modules of ours that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.graph import PACKAGE, ROOT, read_sources
from tests.house.tracked import tracked_files

HOUSE = ROOT / "tests" / "house"

#: files that are checked as a whole, because no parser here separates their comments
_WHOLE = {".md", ".toml", ".tcl", ".sv", ".svh", ".v", ".vlt", ".f", ".sby", ".cpp", ".hpp", ".h", ".yaml", ".yml", ".sh", ""}

_KINDS = "py|pyi|sv|svh|cpp|tcl|toml|vlt|md"
_HEADERS = "h|hpp"  # without a folder they are the system's, and hls4ml's
_FILE = re.compile(
    rf"(?<![\w.<>*{{}}$/@-])((?:\w[\w.-]*/)+[a-z_][a-z0-9_-]*\.(?:{_KINDS}|{_HEADERS})|[a-z_][a-z0-9_-]*\.(?:{_KINDS}))"
    r"(?![\w/*-]|\.\w)"
)
_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
_MODULE = re.compile(rf"(?<![\w./-]){PACKAGE}((?:\.\w+)+)")

#: files that do not exist in this repository: generated ones, examples and files of other projects
_NOT_OURS = {
    "cl_hypersonic.sv",  # an F2 design's, as are its scripts
    "build/scripts/synth_cl_hypersonic.tcl",
    "synth_cl_hypersonic.tcl",
    "pulse_rows.py",  # saved by the reader of the tutorial and the pages after it, as are the next seven
    "ask.py",
    "ask_both.py",
    "ask_card.py",
    "many_requests.py",
    "figures.py",
    "write_onnx.py",
    "from_python.py",
    "yaml.py",  # a user's, in the working directory
    "_server.py",  # grpcio's
}


class Mention(NamedTuple):
    """A name in a text. place: file and line."""

    place: str
    name: str


@cache
def read_texts(file: Path) -> list[tuple[int, str]]:
    """(line number, line) of what people read of a file: a Python file's docstrings and comments, the whole of others."""
    lines = list(enumerate(file.read_text().splitlines(), 1))
    if file.suffix != ".py":
        return lines
    comments = [(number, match[1]) for number, line in lines if (match := _COMMENT.search(line))]
    docstrings = [
        pair
        for node in _docstrings(ast.parse(file.read_text()))
        for pair in enumerate(str(node.value).splitlines(), node.lineno)
    ]
    return comments + docstrings


def _docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    body = getattr(node, "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        yield body[0].value
    for inner in body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(inner)


def mentions(pattern: re.Pattern[str], files: list[Path], root: Path = ROOT) -> Iterator[Mention]:
    for file in files:
        for number, line in read_texts(file) if pattern.search(file.read_text()) else ():
            yield from (Mention(f"{file.relative_to(root)}:{number}", name) for name in pattern.findall(line))


@cache
def texts() -> list[Path]:
    """The changelog is left out, because it may name files of old releases."""
    files = [file for file in tracked_files() if file.suffix in {".py", *_WHOLE} and file.name != "CHANGELOG.md"]
    return [file for file in files if not file.is_symlink() and not file.name.startswith("LICENSE")]


@cache
def known_paths() -> frozenset[str]:
    """Every ending of every file's path: people write rf/read.py for hls/rf/read.py."""
    parts = [file.relative_to(ROOT).parts for file in tracked_files()]
    return frozenset("/".join(path[first:]) for path in parts for first in range(len(path)))


@cache
def names_in_code() -> frozenset[str]:
    """The files that strings of our code name, between quotes on a line: what it writes, and others' that it reads."""
    code = [file for file in tracked_files() if file.suffix == ".py" and HOUSE not in file.parents]
    lines = [line for file in code for line in file.read_text().splitlines() if '"""' not in line]
    strings = {string for line in lines if "." in line for string in re.findall(r"""["']([^"']*\.[^"']*)["']""", line)}
    return frozenset(name for string in strings for name in re.findall(rf"[a-z0-9_][a-z0-9_-]*\.(?:{_KINDS})\b", string))


def is_known(name: str, folders: frozenset[str]) -> bool:
    """A file of ours; or no path of ours, and a name that code of ours has in a string."""
    if name in _NOT_OURS or name in known_paths() or name.removeprefix(f"{PACKAGE}/") in known_paths():
        return True
    first, _, _ = name.partition("/")
    if first in folders:
        return False
    return Path(name).name in names_in_code() or is_header(name)


def is_header(name: str) -> bool:
    """Return whether the path is in a folder that is not ours, such as a library's."""
    return Path(name).suffix[1:] in _HEADERS.split("|")


def unknown_files(files: list[Path], root: Path = ROOT) -> list[Mention]:
    folders = frozenset(part for path in known_paths() for part in path.split("/")[:-1])
    return [mention for mention in mentions(_FILE, files, root) if not is_known(mention.name, folders)]


def test_every_file_that_a_text_names_exists() -> None:
    stale = unknown_files(texts())
    assert not stale, "\n".join(["not in the tree, nor in a string of our code:", *(" ".join(each) for each in stale)])


def test_every_module_that_a_text_names_exists() -> None:
    sources = read_sources(ROOT)
    stale = [each for each in mentions(_MODULE, texts()) if not is_in_a_module(f"{PACKAGE}{each.name}", sources)]
    assert not stale, "\n".join(f"{place} {PACKAGE}{name}" for place, name in stale)


def is_in_a_module(name: str, sources: dict[str, Path]) -> bool:
    """A module of ours, or a name that the text of one has; what may come after that (a method) is not looked for."""
    below = ""
    while name not in sources:
        name, _, below = name.rpartition(".")
    return not below or re.search(rf"\b{below}\b", sources[name].read_text()) is not None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"""As hls/rf/vanished.py does."""\n', "hls/rf/vanished.py"),
        ('"""As vanished.py does."""\n', "vanished.py"),
        ("X = 1  \N{NUMBER SIGN} see rf/vanished.sv\n", "rf/vanished.sv"),
        ('def f():\n    """See sim/emu/vanished.h."""\n', "sim/emu/vanished.h"),
    ],
)
def test_a_file_that_is_not_there_is_seen(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(text)
    assert [mention.name for mention in unknown_files([tmp_path / "module.py"], tmp_path)] == [name]
