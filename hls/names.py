# SPDX-License-Identifier: Apache-2.0
"""Identifiers from names that users chose: legal in SystemVerilog and C++, and each given once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import count

from hypersonic.hls.keywords import KEYWORDS

#: characters kept of a name, so that an identifier with all that is put around it stays a legal file name
_MAX_LENGTH = 80


class Namespace:
    """The identifiers of one scope. No two are equal, nor differ by case alone, which some file systems do not see.

    taken: identifiers that the scope has already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def identifier(self, name: str, forms: Sequence[str] = ("{}",)) -> str:
        """An identifier as like `name` as can be, numbered where that one is taken.

        forms: all that the caller makes of the identifier, "{}" standing for it; every one of them is given once.
        """
        plain = cleaned(name)
        for number in count(1):
            found = plain if number == 1 else f"{plain}_{number}"
            made = {form.format(found).lower() for form in forms}
            if not made & self._taken and not made & KEYWORDS:
                self._taken |= made
                return found
        raise AssertionError("a count ended")


def cleaned(name: str) -> str:
    """Letters of ASCII, digits and single underscores; a letter first, no underscore last. Two names may give the same."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", name[:_MAX_LENGTH]).strip("_")
    return words if words[:1].isalpha() else f"n_{words}".rstrip("_")
