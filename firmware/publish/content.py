# SPDX-License-Identifier: Apache-2.0
"""The content of one file of a published version: bytes, or the path of a file that is copied."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

#: the bytes of a file, or the path of a file that holds them
Content = bytes | Path


def opened(content: Content) -> io.BufferedReader | io.BytesIO:
    """The content as a binary stream at its beginning, which the caller closes. Raises OSError."""
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def digest(content: Content) -> tuple[int, str]:
    """The content's size in bytes and its SHA-256 in hexadecimal; a file is read in pieces. Raises OSError."""
    with opened(content) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return file.seek(0, io.SEEK_END), sha256
