# SPDX-License-Identifier: Apache-2.0
"""Every message that docs/errors.md quotes is one of the source: some literal holds its words, in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house.graph import ROOT
from tests.house.tracked import tracked_files

PAGE = (ROOT / "docs" / "errors.md").read_text()
_ROOMS = ("hls", "firmware", "host", "server", "client", "plan", "sim", "triton", "hypersonic")
_HOLE = "\0"


def quoted(page: str) -> list[str]:
    """The messages of the page: what stands between backticks in the first column of its tables of messages."""
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 2]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def literals_of(text: str) -> Iterator[str]:
    """The strings of a Python text; a variable part of one is a NUL. Docstrings are left out."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield re.sub(r"%\d*(?:\.\d+)?[a-z]|\{[^{}]*\}", _HOLE, node.value)


@cache
def literals() -> frozenset[str]:
    files = [file for file in tracked_files() if file.relative_to(ROOT).parts[0] in _ROOMS and not file.is_symlink()]
    strings = {string for file in files if file.suffix == ".py" for string in literals_of(file.read_text())}
    others = [file for file in files if file.suffix in {".cpp", ".h"}]
    others += [ROOT / "Makefile", ROOT / "deploy" / "environment.sh", ROOT / "deploy" / "tools.sh"]
    return frozenset(strings | {line for file in others for line in file.read_text().splitlines()})


def is_said(message: str, strings: frozenset[str]) -> bool:
    """Return whether one of the strings has the message's words between `...`, in this order."""
    words = [part.strip(" ") for part in message.split("...") if part.strip(" ,:;.'")]
    return bool(words) and any(has_in_order(string, words) for string in strings)


def has_in_order(string: str, words: list[str]) -> bool:
    end = 0
    for word in words:
        start = string.find(word, end)
        if start < 0:
            return False
        end = start + len(word)
    return True


@pytest.mark.parametrize("message", quoted(PAGE))
def test_every_quoted_message_is_one_of_the_source(message: str) -> None:
    assert max(map(len, message.split("..."))) >= 8, "quote more of it"
    assert is_said(message, literals())


def test_a_message_that_nobody_says_is_found() -> None:
    strings = frozenset(literals_of('"""the card is gone"""\nraise E(f"card {n} is lost: " f"reset it")\nlog("at %s", x)'))
    assert is_said("card ... is lost: reset it", strings)
    assert is_said("at ...", strings)
    for other in ("card 0 is lost: reset it", "the card is gone", "reset it, card ...", "..."):
        assert not is_said(other, strings), other


def test_the_page_has_a_section_for_each_stage() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    stages = ["Installing", "Converting", "Building", "Linking", "The card", "Serving", "Requests", "Clients", "Planning"]
    assert headings == stages
    assert len(quoted(PAGE)) > 100
