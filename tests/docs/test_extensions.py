# SPDX-License-Identifier: Apache-2.0
"""The Sphinx extensions of the documentation site."""

from __future__ import annotations

import pytest
from docutils.core import publish_doctree
from docutils.nodes import bullet_list, literal, literal_block, paragraph
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.extensions.plain_docstrings import to_rst
from docs.extensions.short_names import full_names
from docs.extensions.source_links import name_sources


def test_a_plain_docstring_keeps_its_words_its_code_and_its_tables() -> None:
    lines = [
        "The first line, with *args and a_name_.",
        "",
        "Sets `x` and ``y``:",
        "    name   meaning",
        "",
        "    other  meaning",
        "- an item",
        "  of two lines",
        "- another item",
        "",
        "The end.",
    ]
    tree = publish_doctree("\n".join(to_rst(lines)), settings_overrides={"report_level": 1, "halt_level": 1})
    assert next(node.astext() for node in tree.findall(paragraph)) == "The first line, with *args and a_name_."
    assert [node.astext() for node in tree.findall(literal)] == ["x", "y"]
    assert [node.astext() for node in tree.findall(literal_block)] == ["name   meaning\n\nother  meaning"]
    (items,) = tree.findall(bullet_list)
    assert [" ".join(item.astext().split()) for item in items.children] == ["an item of two lines", "another item"]
    assert tree.astext().endswith("The end.")


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=60))
def test_no_text_of_a_paragraph_is_read_as_markup(text: str) -> None:
    line = "word " + text.replace("`", "'").replace("\x1f", "") + " word"
    tree = publish_doctree("\n".join(to_rst([line])), settings_overrides={"report_level": 1, "halt_level": 1})
    assert tree.astext().split() == line.split()


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


def test_sentences_about_parameters_become_a_list() -> None:
    lines = ["Build it.", "", "model: a name, or a path. target, platform: where to. Raises", "    ValueError: never."]
    tree = publish_doctree("\n".join(to_rst(lines, ["model", "target", "platform"])), settings_overrides={"report_level": 1})
    (items,) = tree.findall(bullet_list)
    assert [item.astext() for item in items.children] == [
        "model: a name, or a path.",
        "target, platform: where to. Raises ValueError: never.",
    ]


def test_an_indented_line_below_a_sentence_continues_it() -> None:
    tree = publish_doctree("\n".join(to_rst(["A sentence that is", "    long."])), settings_overrides={"report_level": 1})
    assert tree.astext() == "A sentence that is\nlong."


def test_a_short_name_of_one_object_is_its_full_name_and_one_of_several_is_left() -> None:
    names = ["hypersonic.hls.core.Core", "hypersonic.hls.wire.Dims", "hypersonic.server.tensors.Dims", "hypersonic"]
    assert full_names(names) == {"Core": "hypersonic.hls.core.Core", "hypersonic": "hypersonic"}
