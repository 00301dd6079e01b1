# SPDX-License-Identifier: Apache-2.0
"""Phrases that readers stumbled over stay rare in docs, docstrings, comments, help texts and messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.graph import ROOT
from tests.house.tracked import tracked_files

#: of each phrase, as many may remain where nothing else fits
MOST = 5

_SUFFIXES = {".md", ".py", ".sv", ".svh", ".v", ".f", ".sby", ".cpp", ".hpp", ".h", ".tcl", ".toml", ".yaml", ".yml", ".sh", ""}
#: what an earlier version said, as it said it; and this file
_LEFT_OUT = {"CHANGELOG.md", "LICENSE", "test_prose.py"}

#: name -> (the phrase, what to write instead)
PHRASES = {
    "a docstring that begins with 'What'": (re.compile(r'^\s*r?"""What\b'), "say what the thing is or does"),
    "'is no file' for 'is not a file'": (
        re.compile(
            r"(?<!there )(?<!There )\b(?:is|are|was|were|be) no "
            r"(?!(?:longer|more|less|fewer|larger|smaller|bigger|wider|better|worse|later|earlier|faster|slower|one)\b)[a-z]+"
        ),
        "'is not a ...', 'has no ...' or 'there is no ...'",
    ),
    "'hangs on' for 'depends on' or 'is still hung'": (
        re.compile(r"\bhangs? on (?!the instance|a card)", re.IGNORECASE),
        "see its name",
    ),
    "'a run of before'": (re.compile(r"\bof before\b"), "'an earlier run'"),
    "'by hls4ml's word'": (re.compile(r"\b(?:by|over) \w+(?:'s|s') words?\b"), "'as hls4ml defines it'"),
    "'put right'": (re.compile(r"\bput(?:s|ting)? right\b"), "'corrected'"),
    "'anew'": (re.compile(r"\banew\b"), "'again'"),
    "'seconds between two looks'": (re.compile(r"\btwo looks\b"), "'polling interval in seconds'"),
    "'nobody wants'": (re.compile(r"\bnobody (?:wants|looks|knows|asks)\b"), "name who does not"),
    "'said again', 'stands twice'": (re.compile(r"\bsaid (?:again|twice)\b|\bstands? (?:again|twice)\b"), "'repeated'"),
}


def texts() -> list[Path]:
    """The tracked files that people read."""
    return [f for f in tracked_files() if f.suffix in _SUFFIXES and f.name not in _LEFT_OUT and not f.is_symlink()]


def uses(phrase: re.Pattern[str]) -> Iterator[str]:
    """Each line with the phrase, with its place."""
    for file in texts():
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if phrase.search(line):
                yield f"{file.relative_to(ROOT)}:{number}: {line.strip()}"


@pytest.mark.parametrize("name", PHRASES)
def test_a_phrase_that_readers_stumbled_over_is_rare(name: str) -> None:
    phrase, instead = PHRASES[name]
    found = list(uses(phrase))
    assert len(found) <= MOST, "\n".join([f"{name}: write {instead}", *found])


def test_the_phrases_are_found_where_they_are() -> None:
    for line, count in {
        '    """What a run takes."""': 1,
        "the file is no xclbin": 1,
        "there is no card; it is no longer used": 0,
        "a run of before hangs on it": 2,
        "by hls4ml's word; begun anew": 2,
    }.items():
        assert sum(bool(phrase.search(line)) for phrase, _ in PHRASES.values()) == count, line
