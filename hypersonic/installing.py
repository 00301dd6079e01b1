# SPDX-License-Identifier: Apache-2.0
"""How the extras of this package are installed, for messages. No package index has it: it comes from a clone or as a wheel."""

from __future__ import annotations

#: what pip is given for this package, and where
SOURCE, PLACE = ".", "in a clone of hypersonic"


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, and where it works."""
    return f"pip install '{SOURCE}[{extra}]' {PLACE}"
