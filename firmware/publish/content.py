# SPDX-License-Identifier: Apache-2.0
"""The content of a file of a published version: bytes, or another file that is copied."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

#: a file's content, or where it is
Content = bytes | Path


def opened(content: Content) -> io.BufferedReader | io.BytesIO:
    """To be read from its beginning, and closed. Raises OSError."""
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def digest(content: Content) -> tuple[int, str]:
    """Bytes and sha256, read piece by piece. Raises OSError."""
    with opened(content) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return file.seek(0, io.SEEK_END), sha256
