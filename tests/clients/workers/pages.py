# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the client's pages, and servers in place of those that the pages name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.scripted_server import Script, scripted_server

DOCS = Path(__file__).resolve().parents[3] / "docs"
_BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: a server of the pages, but not the end of a longer name
_ADDRESS = re.compile(r"(?<![\w.])(a|b|localhost):8001\b")


@dataclass(frozen=True)
class Block:
    """A code block. mark: the comment above it. language: what follows its backticks."""

    mark: str
    language: str
    text: str


def read_blocks(name: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall((DOCS / name).read_text())]


@dataclass(frozen=True)
class Servers:
    """Two servers with FACILE's names and shapes, whose answer is twice the input."""

    a: str
    b: str

    def named_in(self, text: str) -> str:
        """The text with these servers in place of the page's."""
        return _ADDRESS.sub(lambda match: self.b if match[1] == "b" else self.a, text)


@contextmanager
def page_servers() -> Iterator[Servers]:
    """Run the two servers."""
    scripts = [Script(models=("facile",), max_batch_size=16_384, columns=18, tensors=("input", "output")) for _ in range(2)]
    with scripted_server(scripts[0]) as a, scripted_server(scripts[1]) as b:
        yield Servers(a, b)
