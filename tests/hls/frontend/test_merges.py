# SPDX-License-Identifier: Apache-2.0
"""Merges of many tensors as pairs: no name twice, no order changed, no bit lost on the way."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.hls.fixed import FixedPoint, Overflow, Rounding
from hypersonic.hls.frontend.merges import in_tree, keep_all_bits, pair_names

#: a type by its width and the bits right of its point
fixed_point = FixedPoint.with_fraction

PRECISIONS = st.builds(FixedPoint.with_fraction, st.integers(1, 20), st.integers(-4, 24), st.booleans())


class FixedPrecisionType:
    """hls4ml's, as far as it is looked at."""

    def __init__(self, precision: FixedPoint) -> None:
        self.width, self.integer, self.signed = precision.width, precision.width - precision.fraction, precision.signed
        self.rounding_mode, self.saturation_mode, self.saturation_bits = "TRN", "WRAP", 0


def result(operation: str, a: FixedPoint, b: FixedPoint, cls: str = "pair") -> str:
    """The type that a merge of two gets: in the words given to hls4ml; "" where it keeps its own."""
    types: list[str] = []

    def told(text: str) -> Any:
        types.append(text)
        return SimpleNamespace()

    kinds = {"a": a, "b": b}
    layer = SimpleNamespace(
        name=cls,
        inputs=["a", "b"],
        get_attr={"op": operation}.__getitem__,
        get_input_variable=lambda name: SimpleNamespace(type=SimpleNamespace(precision=FixedPrecisionType(kinds[name]))),
        get_output_variable=lambda: SimpleNamespace(type=SimpleNamespace(precision=SimpleNamespace())),
    )
    backend = SimpleNamespace(convert_precision_string=told)
    keep_all_bits(SimpleNamespace(get_layers=lambda: [layer], config=SimpleNamespace(backend=backend)), {"pair"})
    return types[0] if types else ""


def parsed(text: str) -> FixedPoint:
    kind, _, inside = text.partition("<")
    width, integer, rounding, overflow = inside.rstrip(">").split(",")
    return fixed_point(int(width), int(width) - int(integer), kind == "ap_fixed", Rounding(rounding), Overflow(overflow))


@given(st.sampled_from(("add", "multiply", "maximum", "minimum", "concatenate1d")), PRECISIONS, PRECISIONS)
def test_a_pair_holds_every_number_that_it_can_come_to(operation: str, a: FixedPoint, b: FixedPoint) -> None:
    kind = parsed(result(operation, a, b))
    for x in (a.min_raw, a.max_raw):
        for y in (b.min_raw, b.max_raw):
            common = max(a.fraction, b.fraction)
            fine_x, fine_y = x << (common - a.fraction), y << (common - b.fraction)
            exact = {
                "add": [(fine_x + fine_y, common)],
                "multiply": [(x * y, a.fraction + b.fraction)],
                "maximum": [(max(fine_x, fine_y), common)],
                "minimum": [(min(fine_x, fine_y), common)],
            }.get(operation, [(fine_x, common), (fine_y, common)])
            for raw, fraction in exact:
                assert kind.cast(raw, fraction) << max(fraction - kind.fraction, 0) == raw << max(kind.fraction - fraction, 0)


def test_a_layer_of_the_model_keeps_its_own_type() -> None:
    assert result("add", fixed_point(8, 4), fixed_point(8, 4), cls="add") == ""


@pytest.mark.parametrize("count", [1, 2])
@given(tensors=st.lists(st.text(min_size=1), min_size=3, max_size=20))
def test_a_tree_keeps_the_order_and_is_as_flat_as_it_can_be(count: int, tensors: list[str]) -> None:
    levels = in_tree([(text, 0) for text in tensors], count, lambda a, b: (a[0] + b[0], max(a[1], b[1]) + 1))
    assert "".join(text for text, _ in levels) == "".join(tensors)
    assert len(levels) == count
    assert max(depth for _, depth in levels) <= (len(tensors) - 1).bit_length()


def test_names_of_pairs_are_nobody_elses() -> None:
    taken = {"add", "ADD_pair1", "add_pair3"}
    assert list(islice(pair_names("add", taken), 3)) == ["add_pair2", "add_pair4", "add_pair5"]
