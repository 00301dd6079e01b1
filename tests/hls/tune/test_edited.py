# SPDX-License-Identifier: Apache-2.0
"""Values of a YAML file are changed in its text, and comments stay."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.hls.errors import Edit
from hypersonic.hls.tune.edited import edited
from hypersonic.hls.tune.settle import changes

TEXT = """# a file
name: m  # of the kernel

input:
  name: x
  precision: "ap_fixed<16,2>"  # -1 to 1
hls4ml:  # merged
  IOType: io_stream  # pixel by pixel
  Model:
    Precision: {default: "ap_fixed<16,6>"}
    Strategy: Resource
  LayerName:
    dense: {Precision: {weight: "ap_fixed<16,1>", result: "ap_fixed<16,3>"}}  # 0 to 3
    softmax:
      exp_t: "ap_fixed<18,8>"

# the gate
gate:
  rows: "rows.npy"
  # tolerance: 0.05
"""


def lines_of(edit: Edit) -> list[str]:
    text = edited(TEXT, [edit])
    return [line for line in text.splitlines() if line not in TEXT.splitlines()]


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    edit = Edit(("input", "precision"), "ap_fixed<20,2>")
    assert lines_of(edit) == ['  precision: "ap_fixed<20,2>"  # -1 to 1']


def test_a_type_joins_those_of_its_layer() -> None:
    edit = Edit(("hls4ml", "LayerName", "dense", "Precision", "accum"), "ap_fixed<20,2>")
    (line,) = lines_of(edit)
    assert line.endswith('result: "ap_fixed<16,3>", accum: "ap_fixed<20,2>"}}  # 0 to 3')


def test_a_new_layer_and_a_new_value_are_lines_behind_their_neighbours() -> None:
    assert lines_of(Edit(("hls4ml", "LayerName", "pool", "Precision", "accum"), "ap_int<9>")) == [
        '    pool: {Precision: {accum: "ap_int<9>"}}'
    ]
    assert edited(TEXT, [Edit(("gate", "tolerance"), "none")]).endswith(
        'gate:\n  rows: "rows.npy"\n  tolerance: "none"\n  # tolerance: 0.05\n'
    )


def test_a_value_that_goes_takes_its_line_and_an_empty_mapping_with_it() -> None:
    without = edited(TEXT, [Edit(("hls4ml", "IOType"), None), Edit(("hls4ml", "LayerName", "softmax", "exp_t"), None)])
    assert "IOType" not in without
    assert "softmax" not in without
    assert "# the gate" in without
    left = edited(TEXT, [Edit(("hls4ml", "LayerName", "dense", "Precision", "weight"), None)])
    assert 'dense: {Precision: {result: "ap_fixed<16,3>"}}  # 0 to 3' in left


PLACES = st.sampled_from(
    [
        ("input", "precision"),
        ("output", "datatype"),
        ("hls4ml", "IOType"),
        ("hls4ml", "Model", "Strategy"),
        ("hls4ml", "Model", "ReuseFactor"),
        ("hls4ml", "LayerName", "dense", "Precision", "weight"),
        ("hls4ml", "LayerName", "dense", "Precision", "result"),
        ("hls4ml", "LayerName", "dense", "Strategy"),
        ("hls4ml", "LayerName", "soft-max/1", "exp_t"),
        ("hls4ml", "LayerName", "softmax", "exp_t"),
        ("hls4ml", "LayerName", "softmax", "Precision", "accum"),
    ]
)


@given(st.lists(st.builds(Edit, PLACES, st.one_of(st.none(), st.integers(1, 9), st.sampled_from(["Latency", "a: b", "none"])))))
def test_the_text_holds_what_the_edits_make_of_the_mapping(edits: list[Edit]) -> None:
    wanted = yaml.safe_load(TEXT)
    for edit in edits:
        _write(wanted, edit)
    before = yaml.safe_load(TEXT)
    text = edited(TEXT, changes(before, wanted))
    assert yaml.safe_load(text) == wanted
    assert "# the gate" in text


def _write(mapping: dict[str, Any], edit: Edit) -> None:
    """The edit; a mapping of which nothing is left goes too."""
    path: list[tuple[dict[str, Any], str]] = []
    inner = mapping
    for key in edit.place[:-1]:
        path.append((inner, key))
        inner = inner.setdefault(key, {})
    if edit.value is None:
        inner.pop(edit.place[-1], None)
    else:
        inner[edit.place[-1]] = copy.copy(edit.value)
    for outer, key in reversed(path):
        if not outer[key]:
            del outer[key]
