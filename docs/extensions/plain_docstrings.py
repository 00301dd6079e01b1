# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension that shows plain-text docstrings as they are written.

Our docstrings are plain text: paragraphs, `code` in single backquotes, lists with dashes, indented blocks for tables and
commands, and sentences such as `rows: of one batch.` for parameters and fields. autodoc reads reStructuredText, where an
asterisk or an underscore is markup, so each docstring is translated first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

_CODE = re.compile(r"(``[^`]+``|`[^`\n]+`)")
_MARKUP = re.compile(r"([\\*_|`<>:\[\]])")


def to_rst(lines: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return the lines of a plain-text docstring as lines of reStructuredText.

    names: parameters or fields; a sentence that begins with one of them and a colon becomes an entry of a list. A block that
    is indented becomes a literal block, and list items stay list items.
    """
    rst: list[str] = []
    for kind, block in _blocks(lines):
        if kind == "literal":
            rst += ["::", "", *(f"   {line}".rstrip() for line in block)]
        elif kind == "item":
            first, *others = (line.strip() for line in block)
            rst += [f"- {escape(first[2:])}", *(f"  {escape(line)}" for line in others)]
        else:
            rst += _paragraph(block, names)
        rst.append("")
    return rst


def _paragraph(block: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """A paragraph; where it describes names, one list entry for each of them."""
    text = " ".join(line.strip() for line in block)
    any_name = "|".join(re.escape(name) for name in names) or r"(?!)"
    first, *entries = re.split(rf"(?:^|(?<=[.;] ))(?=(?:{any_name})(?:, (?:{any_name}))*: )", text)
    if not entries:
        yield from (escape(line.strip()) for line in block)
        return
    if first.strip():
        yield from (escape(first.strip()), "")
    for entry in entries:
        described, _, words = entry.partition(": ")
        yield f"- **{described}**: {escape(words.strip())}"


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Split into blocks of one kind each: literal, item or text."""
    kinds = list(_kinds(lines))
    for kind, group in groupby(range(len(lines)), key=lambda i: kinds[i]):
        block = [lines[i] for i in group]
        if kind != "blank":
            yield kind.partition(" ")[0], block


def _kinds(lines: Sequence[str]) -> Iterator[str]:
    """The kind of each line. An indented line belongs to what is above it, unless that ends with a colon or a blank line."""
    kind, items, above = "blank", 0, ""
    for i, line in enumerate(lines):
        indented = line.startswith(" ")
        if not line.strip():
            following = next((later for later in lines[i:] if later.strip()), "")
            kind = kind if kind == "literal" and following.startswith(" ") else "blank"
        elif line.startswith(("- ", "* ")):
            items += 1
            kind = f"item {items}"
        elif not indented:
            kind = "text"
        elif kind == "blank" or (kind == "text" and above.endswith(":")):
            kind = "literal"
        above = line.rstrip()
        yield kind


def escape(text: str) -> str:
    """Return text in which only `code` is markup."""
    parts = _CODE.split(text)
    return "".join(f"``{part.strip('`').strip()}``" if i % 2 else _MARKUP.sub(r"\\\1", part) for i, part in enumerate(parts))


def parameters(documented: object) -> list[str]:
    """The names of a callable's parameters, which for a dataclass are its fields. Empty for everything else."""
    try:
        return [name for name in inspect.signature(documented).parameters if name != "self"]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def _translate(_app: Sphinx, _kind: str, _name: str, documented: object, _options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines, parameters(documented))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _translate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
