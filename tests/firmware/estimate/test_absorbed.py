# SPDX-License-Identifier: Apache-2.0
"""Flip-flops that go into a DSP48E2 or a block RAM."""

from __future__ import annotations

from hypersonic.firmware.estimate.absorbed import absorb
from hypersonic.firmware.estimate.cells import Cell
from hypersonic.firmware.estimate.logic_path import longest_paths


def row(d: str, q: str, bits: int = 2, enable: str = "$true") -> list[Cell]:
    """Flip-flops from the bits of net d to those of net q."""
    ports = {"C": "clk", "CE": enable, "R": "$false"}
    return [Cell("FDRE", ports | {"D": f"{d}[{bit}]", "Q": f"{q}[{bit}]"}) for bit in range(bits)]


def multiplier(a: str, b: str, p: str, bits: int = 2) -> Cell:
    """A DSP48E2 whose A repeats the sign in the bits above."""
    pins = {f"A[{bit}]": f"{a}[{min(bit, bits - 1)}]" for bit in range(4)} | {f"A[{bit}]": "$false" for bit in range(4, 6)}
    pins |= {f"B[{bit}]": f"{b}[{bit}]" for bit in range(bits)} | {f"P[{bit}]": f"{p}[{bit}]" for bit in range(bits)}
    return Cell("DSP48E2", {"CLK": "clk"} | pins, dict.fromkeys(("AREG", "BREG", "MREG", "PREG"), 0))


def registers(cells: list[Cell]) -> dict[str, int]:
    (found,) = (cell.parameters for cell in cells if cell.type in {"DSP48E2", "RAMB18E2"})
    return found


def test_the_rows_around_a_multiplier_become_its_four_registers() -> None:
    cells = [*row("x", "a"), *row("w", "b"), multiplier("a", "b", "p"), *row("p", "m"), *row("m", "y"), *row("y", "z")]
    after, gone = absorb(cells)
    assert (gone, registers(after)) == (8, dict.fromkeys(("AREG", "BREG", "MREG", "PREG"), 1))
    (dsp,) = (cell for cell in after if cell.type == "DSP48E2")
    assert [dsp.ports[pin] for pin in ("A[0]", "A[3]", "A[4]", "B[1]", "P[0]")] == ["x[0]", "x[1]", "$false", "w[1]", "y[0]"]
    assert longest_paths(cells)[0].estimated_ns < 1 < longest_paths([multiplier("a", "b", "p")])[0].estimated_ns


def test_what_others_read_too_or_what_has_another_enable_stays_outside() -> None:
    shared = Cell("LUT1", {"I0": "a[0]", "O": "n"})
    after, gone = absorb([*row("x", "a"), shared, *row("w", "b"), multiplier("a", "b", "p")])
    assert (gone, registers(after)["AREG"], registers(after)["BREG"]) == (2, 0, 1)
    mixed = [*row("p", "m", 1), Cell("FDRE", {"C": "clk", "CE": "other", "R": "$false", "D": "p[1]", "Q": "m[1]"})]
    assert absorb([multiplier("a", "b", "p"), *mixed])[1] == 0
    assert absorb([multiplier("a", "b", "p"), *row("p", "m", 1), Cell("LUT1", {"I0": "p[1]", "O": "n"})])[1] == 0


def test_the_row_behind_a_block_ram_is_its_output_register() -> None:
    ram = Cell(
        "RAMB18E2", {"CLKARDCLK": "clk", "ADDRARDADDR[0]": "x"} | {f"DOUTADOUT[{bit}]": f"word[{bit}]" for bit in range(2)}
    )
    after, gone = absorb([ram, *row("word", "q"), *row("q", "y")])
    assert (gone, registers(after)) == (2, {"DO_REG": 1})
    read = Cell("LUT1", {"I0": "word[1]", "O": "n"})
    assert absorb([ram, *row("word", "q"), read])[1] == 0
    assert longest_paths([ram, *row("word", "q")])[0].estimated_ns < longest_paths([ram, read])[0].estimated_ns


def test_a_row_between_two_cells_goes_into_one_of_them() -> None:
    cells = [multiplier("a", "b", "p"), *row("p", "m"), multiplier("m", "c", "r")]
    after, gone = absorb(cells)
    first, second = (cell for cell in after if cell.type == "DSP48E2")
    assert gone == 2
    assert first.parameters["MREG"] + second.parameters["AREG"] == 1
    assert first.ports["P[0]"] == second.ports["A[0]"], "the first one's result reaches the second one"


def test_multipliers_with_the_same_operand_take_a_row_each() -> None:
    rows = [*row("x", "a"), *row("x", "c"), *row("w", "b"), *row("w", "d")]
    assert absorb([*rows, multiplier("a", "b", "p"), multiplier("c", "d", "r")])[1] == 8
