# SPDX-License-Identifier: Apache-2.0
"""The register map: what is written from it, and what XRT expects of it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from hypersonic.firmware.kernel import registers

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("file", [file.relative_to(ROOT) for file in registers.products(ROOT)], ids=str)
def test_the_written_files_are_those_in_the_tree(file: Path) -> None:
    text = registers.products(ROOT)[ROOT / file]
    assert (ROOT / file).read_text() == text, f"{file} is stale: python -m hypersonic.firmware.kernel.registers"


def test_registers_stand_in_order_without_overlap() -> None:
    for before, after in pairwise(registers.REGISTERS):
        assert before.offset + 4 * before.words <= after.offset, f"{before.name} runs into {after.name}"
    last = registers.REGISTERS[-1]
    assert last.offset + 4 * last.words <= registers.ADDRESS_RANGE


def test_every_offset_is_a_word_of_its_own_and_named_as_the_constant() -> None:
    assert all(register.offset % 4 == 0 for register in registers.REGISTERS)
    for register in registers.REGISTERS:
        assert getattr(registers, register.name) == register.offset


def test_control_block_and_arguments_are_where_xrt_looks_for_them() -> None:
    offsets = [registers.CONTROL, registers.GIE, registers.IER, registers.ISR, registers.X, registers.Y, registers.ROWS]
    assert offsets == [0x00, 0x04, 0x08, 0x0C, 0x10, 0x1C, 0x28]
    bits = [registers.AP_START, registers.AP_DONE, registers.AP_IDLE, registers.AP_READY, registers.AP_CONTINUE]
    assert bits == [1, 2, 4, 8, 16]


def test_the_rtl_constants_are_word_addresses() -> None:
    words = dict(re.findall(r"localparam logic \[9:0\] (\w+) += 10'h([0-9a-f]+);", registers.systemverilog()))
    assert int(words["ROWS"], 16) * 4 == registers.ROWS
    assert int(words["Y_HIGH"], 16) * 4 == registers.Y + 4
    assert len(words) == sum(register.words for register in registers.REGISTERS)


def test_the_documentation_names_every_register_and_bit() -> None:
    text = registers.markdown()
    for register in registers.REGISTERS:
        assert f"| {register.name} |" in text
        assert all(bit.text in text for bit in register.bits)
