# SPDX-License-Identifier: Apache-2.0
"""Names of layers: as Keras gives them, in one another's way, and as nobody should give them."""

from __future__ import annotations

from hypothesis import strategies as st

from hypersonic.hls.names import KEYWORDS

#: as Keras numbers them
DEFAULT = [f"{kind}{number}" for kind in ("activation", "add", "dense", "conv2d") for number in ("", "_1", "_2", "_3")]

#: alike but for characters that no identifier has, or for case
ALIKE = ["a/b", "a.b", "a_b", "a b", "a:b", "a-b", "A_b", "a__b", "a_b_", "_a_b", "à_b", "a_b\n", "a_b//", "a_b\\"]

#: what the generated text has itself, or would take for a word to itself
OURS = [
    "clk", "rst_n", "s_axis_x", "axis_x", "m_axis_y", "row", "packet_s", "packets", "entrance", "fork_add", "rf_map",
    "axis_fifo", "add_fifo_a", "add_cast_a", "dense_window", "dense_weights", "activation_l1", "x", "y", "unused", "load_0",
    "beat_q", "verilator lint_off", "synopsys translate_off", "*/", "`define x", "nnet", "input_t", "w2", "layer2_t",
]  # fmt: skip

ODD = ["1", "2nd", "_", "", "日本", "ß", "x" * 300, "x" * 299 + "y", "$", "a'b", 'a"b', "%s", "{}", "{0}"]

NAMES = st.sampled_from([*DEFAULT, *ALIKE, *OURS, *ODD, *sorted(KEYWORDS)])
