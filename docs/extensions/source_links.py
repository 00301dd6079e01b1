# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension for links from pages into the source tree, such as `[events.py](../hls/zoo/facile/events.py)`.

On a code host such a link opens the file. In the built site, which has no source tree, the link's text stays, followed by the
path from the top of the repository unless the text says it.
"""

from __future__ import annotations

import posixpath
import re

from sphinx.application import Sphinx

_LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)\s]*|(?:[\w.-]+/)+[\w.-]*)\)")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name_sources(text: str, page: str) -> str:
    """Return a page's Markdown with its links out of docs/ written as paths. page: its name below docs/, without suffix."""
    fences = list(_FENCE.finditer(text))

    def written(match: re.Match[str]) -> str:
        words, target = match[1], match[2].partition("#")[0]
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/") or any(fence.start() <= match.start() < fence.end() for fence in fences):
            return match[0]
        plain = words.strip("`")
        return f"`{path}`" if path.endswith(plain.rstrip("/")) else f"{words} (`{path}`)"

    return _LINK.sub(written, text)


def _read(app: Sphinx, page: str, content: list[str]) -> None:
    if str(app.env.doc2path(page)).endswith(".md"):
        content[0] = name_sources(content[0], page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
