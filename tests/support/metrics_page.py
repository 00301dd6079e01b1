# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|( [\w`, ]*)? \| (.*) \|$", re.MULTILINE)


class Listed(NamedTuple):
    """A row of the page."""

    kind: str
    labels: frozenset[str]
    text: str


def page() -> Mapping[str, Listed]:
    rows = ROW.findall(PAGE.read_text())
    assert len({name for name, *_ in rows}) == len(rows), "a metric is listed twice"
    return {name: Listed(kind, frozenset(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
