# SPDX-License-Identifier: Apache-2.0
"""--auth-token-file: bearer tokens, one on each line. Blank lines and lines that begin with # are ignored."""

from __future__ import annotations

import hashlib
import hmac
import logging
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.errors import CredentialsError, StartError
from hypersonic.server.wire.security.watched import WatchedFiles, report_left_out

_LOG = logging.getLogger(__name__)
#: shorter tokens can be guessed
_MIN_CHARS = 16


class TokenList(NamedTuple):
    """The contents of a token file.

    Attributes:
        digests: SHA-256 of each token.
        wrong: why each other line is not a token.
    """

    digests: tuple[bytes, ...]
    wrong: tuple[str, ...]


class BearerTokens:
    """Accepts the tokens of a file. They are kept as SHA-256 digests; a token is compared with all of them in constant time.

    A wrong line is an error at start. In a file that changes later, it is left out and reported. The other lines are used, so
    that a token that the file no longer has is dropped in any case.
    """

    kind = "bearer token"

    def __init__(self, path: Path) -> None:
        """Read the tokens. Raises StartError for a file that cannot be read, has no token, or has a wrong line."""
        self._path = path
        self._list = WatchedFiles((path,), lambda contents: parse_tokens(contents[0]), self._report)
        tokens = self._list.value
        if tokens.wrong:
            raise StartError(f"{path}: {tokens.wrong[0]}")
        if not tokens.digests:
            raise StartError(f"{path} has no token, expected one of {_MIN_CHARS} characters or more on a line of its own")

    def accept(self, token: str) -> None:
        """Return for a known token. Raises CredentialsError (UNAUTHENTICATED, 401)."""
        digest = hashlib.sha256(token.encode()).digest()
        if not sum(hmac.compare_digest(digest, known) for known in self._list.value.digests):
            raise CredentialsError("bearer token is not known")

    def fits(self, token: str) -> bool:
        """Return True, because any text may be such a token."""
        return bool(token)

    def _report(self, changed: TokenList) -> None:
        report_left_out(_LOG, self._path, changed.wrong)
        if not changed.digests:
            _LOG.warning("%s has no token: no bearer token is accepted", self._path)


def parse_tokens(text: bytes) -> TokenList:
    """Return the tokens of a file, which may be none.

    Raises ValueError, which names the line but not its text, if there are lines and none of them is a token: the file is then
    not a token file.
    """
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    tokens = [(number, line) for number, line in lines if line and not line.startswith(b"#")]
    wrong = tuple(
        f"line {number} is not a token, expected {_MIN_CHARS} ASCII characters or more without spaces"
        for number, line in tokens
        if not _is_token(line)
    )
    if wrong and len(wrong) == len(tokens):
        raise ValueError(wrong[0])
    return TokenList(tuple(hashlib.sha256(line).digest() for _, line in tokens if _is_token(line)), wrong)


def _is_token(line: bytes) -> bool:
    return len(line) >= _MIN_CHARS and line.isascii() and b" " not in line
