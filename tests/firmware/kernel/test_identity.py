# SPDX-License-Identifier: Apache-2.0
"""The digest of a kernel does not depend on the names that a model has for its layers, and on all else that is hardware."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypersonic.firmware.kernel.identity import nameless

LIBRARY = 'module rf_mac #(parameter int N = 1, parameter TABLE = "") (input logic clk, output logic [7:0] y); endmodule'
TEXT = """// layer 'dense_1'
module m_core (input logic clk);
  logic [7:0] s_dense_1;  /* of dense_1 */
  always_ff @(posedge clk) s_dense_1 <= 8'hff;
  rf_mac #(.N(3), .TABLE("m__dense_1.mem")) u_dense_1 (.clk(clk), .y(s_dense_1));
endmodule
"""


def digest_of(text: str, directory: Path, contents: str = "01") -> list[str]:
    memories = [directory / name for name in re.findall(r'"(m__.*)"', text)]
    for file in memories:
        file.write_text(contents)
    return nameless([text], [LIBRARY, "m"], memories)


@pytest.mark.parametrize("name", ["dense_7", "input_layer_1", "n0", "b_ff"])
def test_another_name_of_a_layer_is_the_same_kernel(tmp_path: Path, name: str) -> None:
    assert digest_of(TEXT, tmp_path) == digest_of(TEXT.replace("dense_1", name), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8'hff", "8'hfe"), ("posedge", "negedge"), (".N(3)", ".N(4)"), ("[7:0] s_dense_1", "[6:0] s_dense_1"),
        ("rf_mac #", "rf_merge #"), (".y(s_dense_1)", ".y(s_dense_2)"), ("<=", "="),
    ],
)  # fmt: skip
def test_another_circuit_is_another_kernel(tmp_path: Path, old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert digest_of(TEXT, tmp_path) != digest_of(changed, tmp_path)


def test_contents_of_a_memory_count_and_its_name_does_not(tmp_path: Path) -> None:
    one = digest_of(TEXT, tmp_path)
    assert one != digest_of(TEXT, tmp_path, "10")
    assert one == digest_of(TEXT.replace("m__dense_1.mem", "m__first.mem"), tmp_path)


def test_two_layers_that_change_places_are_another_kernel(tmp_path: Path) -> None:
    """A name stands for its first appearance, wherever it appears again."""
    two = TEXT.replace("endmodule", "  rf_mac u_last (.clk(clk), .y(s_last));\nendmodule")
    assert digest_of(two, tmp_path) == digest_of(two.replace("last", "next"), tmp_path)
    assert digest_of(two, tmp_path) != digest_of(two.replace("s_last", "s_dense_1"), tmp_path)
