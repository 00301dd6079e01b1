# SPDX-License-Identifier: Apache-2.0
"""--auth-jwks-file: JSON Web Tokens signed by one of a site's public keys (RFC 7517, 7518, 8037, 8725).

A key's type decides what it may verify, never the token: a public key is no HMAC secret, and `none` is no algorithm.
Texts are those of Envoy's jwt_authn filter, which many sites have in front of their servers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersonic.server.errors import StartError
from hypersonic.server.security.policy import CredentialsError, ForbiddenError
from hypersonic.server.security.watched import WatchedFiles

#: clocks of issuer and server may differ by as much
LEEWAY_S = 30
#: verified tokens remembered until they expire: a signature costs 50-100 us, a look-up 2 us
_REMEMBERED = 4096
_MIN_RSA_BITS = 2048
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
#: (kty, crv) -> algorithms
_ALGORITHMS = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_FORM = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"


def _pyjwt() -> Any:
    try:
        return importlib.import_module("jwt")
    except ImportError as error:
        raise StartError("--auth-jwks-file needs PyJWT: pip install 'hypersonic[jwt]'") from error


@dataclass(frozen=True)
class PublicKey:
    """One key of the set. algorithms: what it may verify. key: PyJWT's."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any


class KeySet:
    """The keys of one state of the file, and the tokens they have verified. A file read again is a new set."""

    def __init__(self, keys: Sequence[PublicKey]) -> None:
        self._keys = tuple(keys)
        self._verified: OrderedDict[bytes, float] = OrderedDict()  # SHA-256 of the token -> until when it is good
        self._lock = threading.Lock()

    def candidates(self, algorithm: str, kid: str | None) -> Iterator[PublicKey]:
        """Keys that may have signed; a kid on both sides must be the same."""
        for key in self._keys:
            if algorithm in key.algorithms and (kid is None or key.kid is None or key.kid == kid):
                yield key

    def knows(self, digest: bytes, now_s: float) -> bool:
        """Whether this token was verified before and has not expired since."""
        with self._lock:
            until_s = self._verified.get(digest)
            if until_s is None:
                return False
            if until_s <= now_s:
                del self._verified[digest]
                return False
            self._verified.move_to_end(digest)
            return True

    def remember(self, digest: bytes, until_s: float) -> None:
        """The one asked for least recently makes room."""
        with self._lock:
            self._verified[digest] = until_s
            if len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)


class JsonWebTokens:
    """Tokens of one issuer for one of `audiences`; exp is required, nbf and iat are checked where they are given."""

    missing = "Jwt is missing"

    def __init__(self, path: Path, issuer: str, audiences: Sequence[str]) -> None:
        """Raises StartError for a file that is no set of public keys."""
        if not issuer or not audiences:
            raise StartError(
                "--auth-jwks-file needs --auth-issuer and --auth-audience: without them a token that the same keys signed for "
                "another service would open this one"
            )
        _pyjwt()
        self._issuer, self._audiences = issuer, list(audiences)
        self._keys = WatchedFiles((path,), lambda contents: KeySet(parse_jwks(contents[0])))

    def accept(self, token: str) -> None:
        """Raises CredentialsError, or ForbiddenError for a good token made for another audience."""
        keys, now_s = self._keys.value, time.time()
        digest = hashlib.sha256(token.encode()).digest()
        if not keys.knows(digest, now_s):
            keys.remember(digest, self._verify(token, keys) + LEEWAY_S)

    def _verify(self, token: str, keys: KeySet) -> float:
        """When it expires, seconds since the epoch."""
        algorithm, kid = _header(token)
        error = CredentialsError("Jwks doesn't have key to match kid or alg from Jwt")
        for key in keys.candidates(algorithm, kid):
            try:
                return float(self._claims(token, key, algorithm)["exp"])
            except CredentialsError as refusal:
                error = refusal
        raise error

    def _claims(self, token: str, key: PublicKey, algorithm: str) -> dict[str, Any]:
        jwt = _pyjwt()
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key.key, algorithms=[algorithm], issuer=self._issuer, audience=self._audiences, leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )  # fmt: skip
        except jwt.InvalidAudienceError as error:
            raise ForbiddenError("Audiences in Jwt are not allowed") from error
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CredentialsError(_text(error, jwt)) from error
        return claims


def _text(error: Exception, jwt: Any) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"Jwt payload [{error.claim}] field is required"
    texts = (
        (jwt.ExpiredSignatureError, "Jwt is expired"),
        (jwt.ImmatureSignatureError, "Jwt not yet valid"),
        (jwt.InvalidIssuerError, "Jwt issuer is not configured"),
        (jwt.InvalidIssuedAtError, "Jwt payload [iat] field is not an integer"),
        (jwt.InvalidSignatureError, "Jwt verification fails"),
    )
    return next((text for kind, text in texts if isinstance(error, kind)), "Jwt verification fails")


def _header(token: str) -> tuple[str, str | None]:
    """(alg, kid) as the token claims them. Raises CredentialsError."""
    header = _json_header(token)
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str):
        raise CredentialsError("Jwt header [alg] field is required and must be a string")
    if algorithm not in _SUPPORTED or "crit" in header:
        raise CredentialsError("Jwt header [alg] is not supported")
    if kid is not None and not isinstance(kid, str):
        raise CredentialsError("Jwt header [kid] field is not a string")
    return algorithm, kid


def _json_header(token: str) -> dict[str, Any]:
    head, dots = token.partition(".")[0], token.count(".")
    if dots != 2:
        raise CredentialsError(_FORM)
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except binascii.Error as error:
        raise CredentialsError("Jwt header is an invalid Base64url encoded") from error
    except (ValueError, RecursionError) as error:
        raise CredentialsError("Jwt header is an invalid JSON") from error
    if not isinstance(header, dict):
        raise CredentialsError("Jwt header is an invalid JSON")
    return header


_SUPPORTED = frozenset(name for names in _ALGORITHMS.values() for name in names)


def parse_jwks(text: bytes) -> list[PublicKey]:
    """The signing keys of a JWK set (RFC 7517). Raises ValueError naming the key that is not a public one we can use."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deeply for a JSON Web Key set") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError('is no JSON Web Key set, expected {"keys": [...]}')
    keys = [_key(entry, number) for number, entry in enumerate(entries) if entry.get("use", "sig") == "sig"]
    if not keys:
        raise ValueError("holds no key to verify signatures with")
    return keys


def _key(entry: dict[str, Any], number: int) -> PublicKey:
    kind = entry.get("kty"), entry.get("crv")
    allowed = next((names for known, names in _ALGORITHMS.items() if kind == known), None)
    if allowed is None:
        raise ValueError(
            f"key {number} is of type {kind[0]!r} {kind[1] or ''}, expected RSA, EC (P-256, P-384, P-521) or Ed25519"
        )
    if "d" in entry:
        raise ValueError(f"key {number} is a private key: it belongs to the issuer, publish its public half here")
    if entry.get("alg") is not None:
        allowed = tuple(name for name in allowed if name == entry["alg"])
    if not allowed:
        raise ValueError(f"key {number}: its algorithm {entry['alg']!r} does not fit its type {kind[0]}")
    return PublicKey(_kid(entry, number), allowed, _load(entry, allowed[0], number))


def _kid(entry: dict[str, Any], number: int) -> str | None:
    kid = entry.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError(f"key {number}: kid is {kid!r}, expected a string")
    return kid


def _load(entry: dict[str, Any], algorithm: str, number: int) -> Any:
    jwt = _pyjwt()
    try:
        key = jwt.PyJWK.from_dict(entry, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise ValueError(f"key {number} cannot be read: {error}") from error
    if entry["kty"] == "RSA" and key.key_size < _MIN_RSA_BITS:
        raise ValueError(f"key {number} is an RSA key of {key.key_size} bits, expected {_MIN_RSA_BITS} or more")
    return key
