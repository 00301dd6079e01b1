# SPDX-License-Identifier: Apache-2.0
"""The tables of differences to tritonserver, and the page that shows them; no server is needed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.reference.cases import every
from tests.reference.compare import matches
from tests.reference.difference import tables
from tests.reference.differences.every import DIFFERENCES, SUBJECTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-triton.md"


def test_no_case_is_listed_twice() -> None:
    rows = Counter(pattern for difference in DIFFERENCES for pattern in difference.cases)
    assert [pattern for pattern, count in rows.items() if count > 1] == []


def test_every_listed_case_exists() -> None:
    existing = every.names()
    patterns = [pattern for difference in DIFFERENCES for pattern in difference.cases]
    assert [p for p in patterns if not any(matches(p, name) for name in existing)] == []


def test_the_page_for_operators_has_the_same_tables() -> None:
    assert tables(SUBJECTS) in PAGE.read_text()
