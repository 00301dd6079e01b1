# SPDX-License-Identifier: Apache-2.0
"""The warnings of this project among those that were recorded, whatever other packages and Pythons warn of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import hypersonic

_PACKAGE = Path(hypersonic.__file__).parent


def texts_of_own(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """Return the texts of the warnings that a module of this project gave."""
    return [str(warning.message) for warning in caught if Path(warning.filename).is_relative_to(_PACKAGE)]
