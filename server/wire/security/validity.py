# SPDX-License-Identifier: Apache-2.0
"""Reads the validity period of certificates, and logs a warning outside it.

The times are read from the certificate's DER encoding (RFC 5280, 4.1.2.5), because the ssl module gives them only for a peer's
certificate.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_LOG = logging.getLogger(__name__)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_UTC_TIME, _VERSION = 0x17, 0xA0
#: the most certificates of a chain that are read
_MOST = 16


class Validity(NamedTuple):
    """The validity period of a certificate, both ends included."""

    begins: datetime
    ends: datetime


class Lifetimes:
    """The validity periods of the certificates of one file. Any thread may use it."""

    def __init__(self, path: Path, pem: bytes) -> None:
        """Create a Lifetimes.

        Args:
            path: named in the log.
            pem: the file's contents.
        """
        self._path = path
        self._certificates = tuple(validities(pem))
        self._reported = ""

    def check(self) -> None:
        """Log once that a certificate is not valid now. It is cheap enough to be called at each handshake."""
        now = datetime.now(UTC)
        reason = next((text for at, valid in enumerate(self._certificates) if (text := _out_of_time(at, valid, now))), "")
        if reason and reason != self._reported:
            _LOG.warning("%s: %s; clients will refuse it; renew it", self._path, reason)
        self._reported = reason


def _out_of_time(index: int, valid: Validity, now: datetime) -> str:
    which = "the certificate" if index == 0 else f"certificate {index + 1} of the chain"
    if now > valid.ends:
        return f"{which} expired on {valid.ends:%Y-%m-%d %H:%M} UTC"
    return f"{which} is not valid before {valid.begins:%Y-%m-%d %H:%M} UTC" if now < valid.begins else ""


def validities(pem: bytes) -> Iterator[Validity]:
    """Yield the validity periods of the certificates in a PEM file, in order, up to the first that cannot be read."""
    for match in list(_PEM.finditer(pem))[:_MOST]:
        try:
            yield _validity(base64.b64decode(match[1]))
        except (ValueError, IndexError):  # OpenSSL decides whether it is a certificate
            return


def _validity(der: bytes) -> Validity:
    """Parse a certificate. Raises ValueError or IndexError for bytes that are not one."""
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # TBSCertificate
    if der[at] == _VERSION:
        at = _element(der, at)[2]
    for _ in ("serialNumber", "signature", "issuer"):
        at = _element(der, at)[2]
    _, at, _ = _element(der, at)  # Validity
    tag, start, end = _element(der, at)
    begins = _time(tag, der[start:end])
    tag, start, end = _element(der, end)
    return Validity(begins, _time(tag, der[start:end]))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return (tag, start of the contents, end of the contents) of the DER element at an offset."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[start : start + count], "big"), start + count
    if start + length > len(der):
        raise ValueError("cut off")
    return tag, start, start + length


def _time(tag: int, text: bytes) -> datetime:
    """Parse a time. A UTCTime has two digits of the year, for 1950 to 2049; a GeneralizedTime has all four."""
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
