# SPDX-License-Identifier: Apache-2.0
"""A Sphinx extension that resolves the short names in signatures, such as `Core` for `hypersonic.hls.core.Core`.

Sphinx searches all objects for each of them, which is most of the time that the site takes, and warns of names that several
modules have. Here an index is made once; a name of several modules is shown without a link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_INDEX = "hypersonic_short_names"


class ShortNames(SphinxPostTransform):
    """Gives each short name its full one. Runs before Sphinx resolves references, whose priority is 10."""

    default_priority = 5

    def run(self, **_kwargs: Any) -> None:
        """Change the references of one page. The index is made with the first page."""
        index: dict[str, str] | None = getattr(self.env, _INDEX, None)
        if index is None:
            index = full_names(self.env.domains["py"].data["objects"])
            setattr(self.env, _INDEX, index)
        for node in self.document.findall(pending_xref):
            if node.get("refdomain") == "py" and node.hasattr("refspecific"):
                del node["refspecific"]
                short = node["reftarget"].lstrip(".")
                node["reftarget"] = index.get(short, short)


def full_names(names: Iterable[str]) -> dict[str, str]:
    """The full name of each object by its last word, without the words that several objects share."""
    sharing = defaultdict(set)
    for name in names:
        sharing[name.rpartition(".")[2]].add(name)
    return {word: sharers.pop() for word, sharers in sharing.items() if len(sharers) == 1}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(ShortNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
