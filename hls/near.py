# SPDX-License-Identifier: Apache-2.0
"""The known name that a mistyped one resembles, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the name that begins with the word or resembles it; "" if there is none."""
    known = list(names)
    begun = [name for name in known if len(word.strip("-")) > 1 and name.startswith(word)]
    return next(iter(begun or get_close_matches(word, known, n=1)), "")


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return "; did you mean NAME?" for the nearest name; "" if there is none."""
    near = nearest(word, names)
    return f"; did you mean {near}?" if near else ""
