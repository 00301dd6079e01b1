# SPDX-License-Identifier: Apache-2.0
"""Reads standard error while other threads write to it.

pytest's capfd rewinds and empties a file whose offset it shares with the writers. A thread that writes at that moment replaces
what is there, or its own lines are lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def standard_error(directory: Path) -> Iterator[Callable[[], str]]:
    """Send file descriptor 2 to a file below the directory. Yields a function that returns all that has been written to it."""
    file = directory / "standard_error"
    kept, opened = os.dup(2), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        yield lambda: file.read_text(errors="replace")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
