# SPDX-License-Identifier: Apache-2.0
"""--auth-token-file: bearer tokens, one a line; blank lines and lines that begin with # are comments."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from hypersonic.server.errors import StartError
from hypersonic.server.security.policy import CredentialsError
from hypersonic.server.security.watched import WatchedFiles

#: shorter ones are guessed
_MIN_CHARS = 16


class BearerTokens:
    """Tokens are kept as SHA-256 digests and compared in constant time, all of them, whichever fits."""

    missing = "bearer token is missing"

    def __init__(self, path: Path) -> None:
        """Raises StartError for a file that cannot be read, holds no token or a short one."""
        self._digests = WatchedFiles((path,), lambda contents: parse_tokens(contents[0]))
        if not self._digests.value:
            raise StartError(f"{path} holds no token, expected one of {_MIN_CHARS} characters or more on a line of its own")

    def accept(self, token: str) -> None:
        """Raises CredentialsError."""
        digest = hashlib.sha256(token.encode()).digest()
        if not sum(hmac.compare_digest(digest, known) for known in self._digests.value):
            raise CredentialsError("bearer token is not known")


def parse_tokens(text: bytes) -> tuple[bytes, ...]:
    """The tokens' digests; none at all means that nobody gets in. Raises ValueError naming the line, never the token."""
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    tokens = [(number, line) for number, line in lines if line and not line.startswith(b"#")]
    for number, token in tokens:
        if len(token) < _MIN_CHARS or not token.isascii() or b" " in token:
            raise ValueError(f"line {number} is no token, expected {_MIN_CHARS} ASCII characters or more without spaces")
    return tuple(hashlib.sha256(token).digest() for _, token in tokens)
