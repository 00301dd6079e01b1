# SPDX-License-Identifier: Apache-2.0
"""--auth-jwks-file: JSON Web Tokens signed by one of a site's public keys (RFC 7517, 7518, 8037, 8725).

The type of a key decides the algorithms it may verify, and the token cannot choose another: a public key is never used as an
HMAC secret, and the algorithm `none` is refused. The error texts are those of Envoy's jwt_authn filter, which many sites run in
front of their servers.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypersonic.installing import pip_install
from hypersonic.server.errors import CredentialsError, ForbiddenError, StartError
from hypersonic.server.wire.security.watched import WatchedFiles, report_left_out

_LOG = logging.getLogger(__name__)
#: how much the clocks of issuer and server may differ
LEEWAY_S = 30
#: verified tokens that are remembered: checking a signature takes 50-100 us, a look-up 2 us
_REMEMBERED = 4096
_MIN_RSA_BITS = 2048
#: the latest time that is accepted: beyond it, floats cannot count seconds
_LATEST_S = (1 << 53) - 1
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
#: (kty, crv) -> algorithms
_ALGORITHMS = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_DOTS = 2
_FORM = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"


def _pyjwt() -> Any:
    try:
        return importlib.import_module("jwt")
    except ImportError as error:
        raise StartError(f"--auth-jwks-file needs PyJWT: {pip_install('jwt')}") from error


class PublicKey(NamedTuple):
    """One key of the set.

    Attributes:
        jwk: PyJWT's PyJWK.
        algorithms: those that it may verify.
    """

    jwk: Any
    algorithms: tuple[str, ...]


class SecretKeyError(ValueError):
    """A secret key, which must not be in a file of public keys."""


class Jwks(NamedTuple):
    """The contents of a JWK set.

    Attributes:
        keys: those that can verify signatures.
        left_out: why each other signing key cannot.
    """

    keys: tuple[PublicKey, ...]
    left_out: tuple[ValueError, ...] = ()

    def candidates(self, algorithm: str, kid: str | None) -> list[Any]:
        """Return the keys that may have signed a token. If both the token and the key have a kid, these must be equal."""
        return [
            jwk.key for jwk, allowed in self.keys if algorithm in allowed and (None in (kid, jwk.key_id) or kid == jwk.key_id)
        ]


class KeySet:
    """The keys of one state of the file, and the tokens that they have verified. A changed file makes a new set."""

    def __init__(self, jwks: Jwks, verify: Callable[[str, Jwks], float]) -> None:
        """Create a KeySet.

        Args:
            verify: returns when a token expires, in seconds since the epoch, or raises; only what it returns is remembered.
        """
        self.jwks = jwks
        self.expires_s = lru_cache(_REMEMBERED)(lambda token: verify(token, jwks))


class JsonWebTokens:
    """Accepts the tokens of one issuer for one of `audiences`. exp is required; nbf and iat are checked if they are present.

    A key that cannot be used is left out and reported (RFC 7517, section 5). The others are used, so that a key that the file
    no longer names is dropped in any case. At start, a secret in the file, or no usable key, is an error.
    """

    kind = "Jwt"

    def __init__(self, path: Path, issuer: str, audiences: Sequence[str]) -> None:
        """Read the keys. Raises StartError for a file that is not a set of public keys."""
        if not issuer or not audiences:
            raise StartError(
                "--auth-jwks-file needs --auth-issuer and --auth-audience: without them, a token that the same keys signed for "
                "another service would be accepted here"
            )
        _pyjwt()
        self._path, self._issuer, self._audiences = path, issuer, list(audiences)
        self._keys = WatchedFiles((path,), lambda contents: KeySet(parse_jwks(contents[0]), self._verify), self._report)
        self._check_start(self._keys.value.jwks)

    def _check_start(self, jwks: Jwks) -> None:
        secret = next((reason for reason in jwks.left_out if isinstance(reason, SecretKeyError)), None)
        if secret is not None:
            raise StartError(f"{self._path}: {secret}")
        if not jwks.keys:
            reasons = "; ".join(map(str, jwks.left_out))
            raise StartError(f"{self._path} has no key to verify signatures with{': ' * bool(reasons)}{reasons}")
        report_left_out(_LOG, self._path, list(map(str, jwks.left_out)))

    def _report(self, changed: KeySet) -> None:
        report_left_out(_LOG, self._path, list(map(str, changed.jwks.left_out)))
        if not changed.jwks.keys:
            _LOG.warning("%s has no key to verify signatures with: no Jwt is accepted", self._path)

    def accept(self, token: str) -> None:
        """Return for a valid token. Raises CredentialsError, and ForbiddenError for a valid token for another audience."""
        keys = self._keys.value
        if keys.expires_s(token) + LEEWAY_S <= time.time():
            self._verify(token, keys.jwks)  # raises the error for an expired one

    def fits(self, token: str) -> bool:
        """Return whether a token has the three sections of the compact form."""
        return token.count(".") == _DOTS

    def _verify(self, token: str, jwks: Jwks) -> float:
        """Verify a token. Returns when it expires, in seconds since the epoch. Raises CredentialsError, ForbiddenError."""
        algorithm, kid = _header(token)
        error = CredentialsError("Jwks doesn't have key to match kid or alg from Jwt")
        for key in jwks.candidates(algorithm, kid):
            try:
                claims = self._claims(token, key, algorithm)
                return {name: _seconds(claims, name) for name in ("nbf", "iat", "exp") if name in claims}["exp"]
            except CredentialsError as refusal:
                error = refusal
        raise error

    def _claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        jwt = _pyjwt()
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key, algorithms=[algorithm], issuer=self._issuer, audience=self._audiences, leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )  # fmt: skip
        except jwt.InvalidAudienceError as error:
            raise ForbiddenError("Audiences in Jwt are not allowed") from error
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CredentialsError(_text(error, jwt)) from error
        return claims


def _seconds(claims: dict[str, Any], name: str) -> float:
    """Return a claim that is a time (RFC 7519: NumericDate). Raises CredentialsError if it is not one."""
    value = claims[name]
    if type(value) not in (int, float) or not abs(value) <= _LATEST_S:
        raise CredentialsError(f"Jwt payload [{name}] field is not a time in seconds")
    return float(value)


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
    """Return (alg, kid) from the token's header. Raises CredentialsError."""
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
    if dots != _DOTS:
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


def parse_jwks(text: bytes) -> Jwks:
    """Return the signing keys of a JWK set (RFC 7517). Raises ValueError for a text that is not one."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("is nested too deeply for a JSON Web Key set") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    if entries is None or not isinstance(entries, list):
        raise ValueError('is not a JSON Web Key set, expected {"keys": [...]}')
    keys: list[PublicKey] = []
    left_out: list[ValueError] = []
    for number, entry in enumerate(entries):
        try:
            if not isinstance(entry, dict) or entry.get("use", "sig") == "sig":
                keys.append(_key(entry))
        except ValueError as error:
            left_out.append(type(error)(f"key {number} {error}"))
    return Jwks(tuple(keys), tuple(left_out))


def _key(entry: Any) -> PublicKey:
    """Return a public key. Raises ValueError for one that is not public or is not supported."""
    if not isinstance(entry, dict):
        raise ValueError(f"is {json.dumps(entry)[:40]}, expected an object")  # noqa: TRY004 - as for all that is wrong in a file
    if entry.get("kty") == "oct":
        raise SecretKeyError("is a symmetric key: anyone who can read it can sign tokens; use a public key")
    if "d" in entry:
        raise SecretKeyError("is a private key, which only the issuer may have; put its public key here")
    kind = entry.get("kty"), entry.get("crv")
    allowed = next((names for known, names in _ALGORITHMS.items() if kind == known), ())
    if not allowed:
        raise ValueError(f"is of type {kind[0]!r} {kind[1] or ''}, expected RSA, EC (P-256, P-384, P-521) or Ed25519")
    if entry.get("alg") is not None:
        allowed = tuple(name for name in allowed if name == entry["alg"])
    if not allowed:
        raise ValueError(f"is not usable: its algorithm {entry['alg']!r} does not match its type {kind[0]}")
    kid = entry.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise ValueError(f"is not usable: kid is {kid!r}, expected a string")
    try:
        jwk = _pyjwt().PyJWK.from_dict(entry, algorithm=allowed[0])
    except Exception as error:
        raise ValueError(f"cannot be read: {str(error) or type(error).__name__}") from error
    if jwk.key_type == "RSA" and jwk.key.key_size < _MIN_RSA_BITS:
        raise ValueError(f"is an RSA key of {jwk.key.key_size} bits, expected {_MIN_RSA_BITS} or more")
    return PublicKey(jwk, allowed)
