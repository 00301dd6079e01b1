# SPDX-License-Identifier: Apache-2.0
"""Where this server answers differently from tritonserver 2.51 on purpose, and why. docs/coming-from-triton.md has this table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Difference(NamedTuple):
    """cases: names of cases, or beginnings of names before a `*`; at least one case of each differs."""

    about: str
    triton: str
    ours: str
    why: str
    cases: tuple[str, ...]


DIFFERENCES: tuple[Difference, ...] = ()


def table(differences: Iterable[Difference]) -> str:
    """As Markdown."""
    rows = [("what", "tritonserver 2.51", "hypersonic", "why"), ("---",) * 4, *(d[:4] for d in differences)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
