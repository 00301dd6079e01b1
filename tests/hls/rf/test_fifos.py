# SPDX-License-Identifier: Apache-2.0
"""Branches that part and meet again never block one another, however slow any stage is: on paper, without clocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.hls.network.base import Network
from hypersonic.hls.rf.plan import plan
from tests.hls.rf.sketch import Drawing
from tests.hls.rf.untimed import blocks, drawn_cuts


@st.composite
def networks(draw: st.DrawFn) -> Network:
    drawing = Drawing(draw(st.integers(1, 2)), draw(st.sampled_from((1, 2))))
    for _ in range(draw(st.integers(1, 9))):
        x, other = (draw(st.sampled_from(drawing.tensors[-5:])) for _ in range(2))
        kind = draw(st.sampled_from(("relu", "convolution", "down_and_up", "add", "concatenate")))
        if kind == "convolution":
            drawing.convolution(x, (draw(st.integers(1, 5)), draw(st.integers(1, 3))), draw(st.sampled_from((1, 4))))
        elif kind == "concatenate" and x.channels + other.channels <= 8:
            drawing.concatenate(x, other)
        elif kind == "add" and x.channels == other.channels:
            drawing.add(x, other)
        elif kind == "down_and_up":
            drawing.down_and_up(x)
        else:
            drawing.relu(x)
    return drawing.network()


@settings(max_examples=60)
@given(networks(), st.sampled_from((0, 1 << 20)))
def test_no_network_blocks_whatever_its_branches(network: Network, whole_row_bits: int) -> None:
    assert blocks(plan(network, whole_row_bits)) == ""


@settings(max_examples=30)
@given(networks(), st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_no_network_blocks_over_several_dies(network: Network, where: list[float]) -> None:
    assert blocks(plan(network, cuts=drawn_cuts(plan(network), where))) == ""


@pytest.mark.parametrize("chain", [1, 10, 20])
def test_a_branch_around_the_fork_is_waited_for_too(chain: int) -> None:
    """Both sides of the last join come from the fork behind the chain; but one also waits for lines of the image before it."""
    drawing = Drawing(size=(8, 16))
    first = before = drawing.relu(drawing.inputs[0])
    slow = drawing.convolution(first, (7, 1))
    for _ in range(chain):
        before = drawing.relu(before)
    drawing.add(before, drawing.add(slow, before))
    assert blocks(plan(drawing.network())) == ""
