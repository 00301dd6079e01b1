# SPDX-License-Identifier: Apache-2.0
"""The ports of a core that is written."""

from __future__ import annotations

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.rf.stage import Stream
from hypersonic.hls.rf.write import port_lanes
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec


def test_a_beat_has_all_words_of_its_elements_where_a_row_has_them_in_words() -> None:
    pixels = Stream("y", FixedPoint(102, 33), lanes=3, beats=56)
    words = TensorSpec("y", (8, 7, 3, 2), FixedPoint(51, 51, signed=False))
    assert port_lanes((pixels,), Row((words,))) == (6,)
    narrow, numbers = FixedPoint(51, 20), TensorSpec("y", (8, 7, 3), FixedPoint(51, 20))
    assert port_lanes((Stream("y", narrow, lanes=3, beats=56),), Row((numbers,))) == (3,)
    assert port_lanes((Stream("y", narrow, lanes=168, beats=1),), Row((numbers,))) == ()
