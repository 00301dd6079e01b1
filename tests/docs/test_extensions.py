# SPDX-License-Identifier: Apache-2.0
"""The Sphinx extensions of the documentation site."""

from __future__ import annotations

import pytest

from docs.extensions.short_names import full_names
from docs.extensions.source_links import name_sources


@pytest.mark.parametrize(
    ("link", "written"),
    [
        ("[events.py](../hls/zoo/facile/events.py)", "`hls/zoo/facile/events.py`"),
        ("[the zoo](../hls/zoo)", "the zoo (`hls/zoo`)"),
        ("[hls/](../hls)", "`hls`"),
        ("[zoo.md](zoo.md)", "[zoo.md](zoo.md)"),
        ("[a picture](zoo/jets.png)", "[a picture](zoo/jets.png)"),
        ("[the site](https://example.org/a/b)", "[the site](https://example.org/a/b)"),
    ],
)
def test_links_out_of_the_pages_become_paths(link: str, written: str) -> None:
    assert name_sources(f"See {link}.", "page") == f"See {written}."


def test_code_blocks_keep_their_links() -> None:
    block = "text\n\n```\n[x](../hls/x.py)\n```\n"
    assert name_sources(block, "page") == block


def test_a_short_name_of_one_object_is_its_full_name_and_one_of_several_is_left() -> None:
    names = ["hypersonic.hls.core.Core", "hypersonic.hls.wire.Dims", "hypersonic.server.tensors.Dims", "hypersonic"]
    assert full_names(names) == {"Core": "hypersonic.hls.core.Core", "hypersonic": "hypersonic"}
