# SPDX-License-Identifier: Apache-2.0
"""One row of the table in docs/coming-from-triton.md: where this server answers differently from tritonserver 2.51 on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Difference(NamedTuple):
    """cases: names of cases, or beginnings of names before a `*`; at least one case of each differs."""

    about: str
    triton: str
    ours: str
    why: str
    cases: tuple[str, ...]


#: subject -> its rows
Subjects = Mapping[str, Sequence[Difference]]


def tables(subjects: Subjects) -> str:
    """As Markdown: a heading and a table for each subject."""
    return "\n\n".join(f"### {subject}\n\n{_table(rows)}" for subject, rows in subjects.items())


def _table(differences: Iterable[Difference]) -> str:
    rows = [("what", "tritonserver 2.51", "hypersonic", "why"), ("---",) * 4, *(d[:4] for d in differences)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
