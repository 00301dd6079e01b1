# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension that shows plain-text docstrings as they are written.

Our docstrings are plain text: paragraphs, `code` in single backquotes, lists with dashes, and indented blocks for tables and
commands. autodoc reads reStructuredText, where an asterisk or an underscore is markup, so each docstring is translated first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

_CODE = re.compile(r"(``[^`]+``|`[^`\n]+`)")
_MARKUP = re.compile(r"([\\*_|`<>:\[\]])")


def to_rst(lines: Sequence[str]) -> list[str]:
    """Return the lines of a plain-text docstring as lines of reStructuredText.

    A block that is indented becomes a literal block, a paragraph keeps its words, and list items stay list items.
    """
    rst: list[str] = []
    for kind, block in _blocks(lines):
        rst += ["::", "", *(f"   {line}".rstrip() for line in block)] if kind == "literal" else _text(block)
        rst.append("")
    return rst


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Split into blocks of one kind each: literal, item or text."""
    kinds = list(_kinds(lines))
    for kind, group in groupby(range(len(lines)), key=lambda i: kinds[i]):
        block = [lines[i] for i in group]
        if kind != "blank":
            yield kind.partition(" ")[0], block


def _kinds(lines: Sequence[str]) -> Iterator[str]:
    """The kind of each line. An indented line belongs to the list item above it, if any."""
    kind, items = "blank", 0
    for i, line in enumerate(lines):
        indented = line.startswith(" ")
        if not line.strip():
            following = next((later for later in lines[i:] if later.strip()), "")
            kind = kind if kind == "literal" and following.startswith(" ") else "blank"
        elif line.startswith(("- ", "* ")):
            items += 1
            kind = f"item {items}"
        elif indented and not kind.startswith("item"):
            kind = "literal"
        elif not indented:
            kind = "text"
        yield kind


def _text(block: Sequence[str]) -> list[str]:
    first, *others = (line.strip() for line in block)
    if block[0].startswith(("- ", "* ")):
        return [f"- {escape(first[2:])}", *(f"  {escape(line)}" for line in others)]
    return [escape(line) for line in (first, *others)]


def escape(text: str) -> str:
    """Return text in which only `code` is markup."""
    parts = _CODE.split(text)
    return "".join(f"``{part.strip('`').strip()}``" if i % 2 else _MARKUP.sub(r"\\\1", part) for i, part in enumerate(parts))


def _translate(_app: Sphinx, _kind: str, _name: str, _object: object, _options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _translate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
