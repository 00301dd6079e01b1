# SPDX-License-Identifier: Apache-2.0
"""Amounts of what a part is made of: sums, comparison with a budget, texts, JSON."""

from __future__ import annotations

import json
from math import inf

from hypersonic.hls.resources import KINDS, LABELS, NOTHING, Amounts, amount_text

PART = Amounts(lut=12_000, ff=8_000, dsp=2, bram36=22.5)


def test_amounts_add_up() -> None:
    assert sum([PART, PART], NOTHING) == PART.times(2) == Amounts(lut=24_000, ff=16_000, dsp=4, bram36=45)


def test_a_budget_says_what_it_lacks() -> None:
    budget = Amounts(lut=12_000, ff=7_999, dsp=4, bram36=22)
    assert PART.exceeding(budget) == ("ff", "bram36")
    assert not PART.fits(budget)
    assert PART.fits(PART)
    assert PART.fullest(Amounts(lut=24_000, ff=8_000, dsp=4, bram36=45)) == (1.0, "ff")
    assert PART.fullest(Amounts(lut=24_000, ff=16_000, bram36=45)) == (inf, "dsp")
    assert PART.percent_of(Amounts(lut=24_000, ff=9_000)) == {"lut": 50, "ff": 88.9}


def test_amounts_are_read_as_they_were_written() -> None:
    assert Amounts.from_json(json.loads(json.dumps(PART.to_json()))) == PART
    assert list(NOTHING.to_json()) == list(KINDS) == list(LABELS)
    assert NOTHING.to_json() == {"lut": 0, "ff": 0, "dsp": 0, "bram36": 0, "uram": 0}


def test_people_read_whole_numbers_and_halves() -> None:
    assert PART.texts() == ["12,000", "8,000", "2", "22.5", "0"]
    assert amount_text(1_234_567.0) == "1,234,567"
    assert Amounts(lut=1039.2, ff=0.1, dsp=3, bram36=1.5).texts() == ["1,040", "1", "3", "1.5", "0"]
