# SPDX-License-Identifier: Apache-2.0
"""A figure of `hypersonic bench sharing`, and the interface of a part of the bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One measured number. text: the number as the table shows it. target: what it should be, in words. met: whether it is."""

    name: str
    value: float
    text: str
    target: str
    met: bool


class Part(Protocol):
    """A module of bench/sharing/parts. TITLE: one line about what it measures."""

    TITLE: str

    def measure(self, progress: Progress) -> list[Figure]:
        """Measure, and call progress with a line for each step that takes long."""
        ...
