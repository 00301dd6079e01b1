# SPDX-License-Identifier: Apache-2.0
"""JSON Web Tokens: what is accepted, what Envoy would say to the rest, and the attacks that tokens are known for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hypersonic.server.errors import AuthorisationError, ForbiddenError, StartError
from hypersonic.server.wire.security import keys as keys_module
from hypersonic.server.wire.security import watched
from hypersonic.server.wire.security.keys import JsonWebTokens
from tests.server.conftest import Serve
from tests.server.wire.security.conftest import call, fetch

ISSUER, AUDIENCE = "https://idp.example.org", "hypersonic"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
P384_KEY = ec.generate_private_key(ec.SECP384R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
STRANGER = rsa.generate_private_key(65537, 2048)
FORM = "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"


def public(key: Any, **fields: object) -> dict[str, object]:
    algorithm = {rsa.RSAPrivateKey: "RS256", ec.EllipticCurvePrivateKey: "ES256"}
    name = next((name for kind, name in algorithm.items() if isinstance(key, kind)), "EdDSA")
    jwk = jwt.get_algorithm_by_name(name).to_jwk(key.public_key(), as_dict=True)
    return {**{k: v for k, v in jwk.items() if k != "key_ops"}, **fields}


SET = {"keys": [public(RSA_KEY, kid="r", use="sig"), public(EC_KEY, kid="e"), public(ED_KEY), {"kty": "oct", "use": "enc"}]}


def claims(**changes: object) -> dict[str, object]:
    now = int(time.time())
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "me", "exp": now + 600, "nbf": now - 5, "iat": now - 5, **changes}
    return {name: value for name, value in given.items() if value is not None}


def token(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "r", **changes: object) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": kid} if kid else {})


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(SET))
    return path


@pytest.fixture
def tokens(jwks: Path) -> JsonWebTokens:
    return JsonWebTokens(jwks, ISSUER, (AUDIENCE, "other"))


@pytest.mark.parametrize(
    "make_token",
    [
        token,
        lambda: token(kid=None),
        lambda: token(algorithm="PS384"),
        lambda: token(EC_KEY, "ES256", "e"),
        lambda: token(ED_KEY, "EdDSA", "any"),
        lambda: token(aud=["nobody", "other"]),
        lambda: token(nbf=None, iat=None),
        lambda: token(exp=int(time.time()) - 10),  # within the leeway
        lambda: token(nbf=int(time.time()) + 10),
    ],
)
def test_a_good_token_is_accepted(tokens: JsonWebTokens, make_token: Callable[[], str]) -> None:
    given = make_token()
    tokens.accept(given)
    tokens.accept(given)


def swapped(good: str, payload: dict[str, object]) -> str:
    """Another payload under a good token's signature."""
    head, _, signature = good.split(".")
    return ".".join((head, b64(json.dumps(payload).encode()), signature))


def headed(header: dict[str, object]) -> str:
    _, payload, signature = token().split(".")
    return ".".join((b64(json.dumps(header).encode()), payload, signature))


def signed_with_the_public_key() -> str:
    """The public key's text as an HMAC secret: what a verifier accepts that believes the token's own `alg`."""
    secret = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, payload = b64(b'{"alg":"HS256","kid":"r"}'), b64(json.dumps(claims()).encode())
    return f"{head}.{payload}.{b64(hmac.digest(secret, f'{head}.{payload}'.encode(), hashlib.sha256))}"


#: what a client is told, and a token that earns it
REFUSED: list[tuple[str, Callable[[], str]]] = [
    ("Jwt is expired", lambda: token(exp=int(time.time()) - 100)),
    ("Jwt not yet valid", lambda: token(nbf=int(time.time()) + 100)),
    ("Jwt not yet valid", lambda: token(iat=int(time.time()) + 100)),
    ("Jwt issuer is not configured", lambda: token(iss="https://evil")),
    ("Audiences in Jwt are not allowed", lambda: token(aud="another-service")),
    ("Jwt payload [exp] field is required", lambda: token(exp=None)),
    ("Jwt payload [iss] field is required", lambda: token(iss=None)),
    ("Jwt payload [aud] field is required", lambda: token(aud=None)),
    ("Jwt verification fails", lambda: token(STRANGER)),
    ("Jwt verification fails", lambda: token(exp="soon")),
    ("Jwt payload [exp] field is not a time in seconds", lambda: token(exp=10**400)),
    ("Jwt payload [exp] field is not a time in seconds", lambda: token(exp=str(int(time.time()) + 600))),
    ("Jwt payload [nbf] field is not a time in seconds", lambda: token(nbf=True)),
    ("Jwt not yet valid", lambda: token(nbf=10**400)),
    ("Jwt verification fails", lambda: token()[:-8] + "AAAAAAAA"),
    ("Jwt verification fails", lambda: swapped(token(), claims(sub="root"))),
    ("Jwks doesn't have key to match kid or alg from Jwt", lambda: token(EC_KEY, "ES256", "r")),
    ("Jwks doesn't have key to match kid or alg from Jwt", lambda: token(P384_KEY, "ES384", "e")),
    ("Jwt header [alg] is not supported", lambda: jwt.encode(claims(), "", "none") + "xxxx"),
    ("Jwt header [alg] is not supported", signed_with_the_public_key),
    ("Jwt header [alg] is not supported", lambda: headed({"alg": "RS256", "crit": ["exp"]})),
    ("Jwt header [alg] field is required and must be a string", lambda: headed({"kid": "r"})),
    ("Jwt header [alg] field is required and must be a string", lambda: headed({"alg": ["RS256"]})),
    ("Jwt header is an invalid JSON", lambda: "eA.y.z"),
    ("Jwt header is an invalid JSON", lambda: ".."),
    ("Jwt header is an invalid Base64url encoded", lambda: "x.y.z"),
    ("Jwt header [kid] field is not a string", lambda: headed({"alg": "RS256", "kid": 7})),
    ("Jwt header is an invalid JSON", lambda: f"{b64(b'[' * 9000)}.e30.x"),
    ("Jwt header is an invalid JSON", lambda: f"{b64(b'[]')}.e30.x"),
    (FORM, lambda: "nothing"),
    (FORM, lambda: token() + ".x"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "make_token"), REFUSED, ids=range(len(REFUSED)))
def test_every_other_token_is_refused_with_envoys_text(tokens: JsonWebTokens, text: str, make_token: Callable[[], str]) -> None:
    given = make_token()
    for _ in range(2):
        with pytest.raises(AuthorisationError) as error:
            tokens.accept(given)
        assert str(error.value) == text


#: what JSON can hold, as issuers write claims and as nobody would
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from([10**400, -(10**400), 10**16, 1e308, "9" * 11, AUDIENCE, ISSUER]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(changes=st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "iss", "aud", "sub", "jti"]), VALUES, min_size=1))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(changes={"exp": 10**400})
@example(changes={"exp": float("nan")})
@example(changes={"exp": float("inf")})
@example(changes={"exp": True})
@example(changes={"nbf": 10**400, "iat": -(10**400)})
def test_a_signed_token_is_accepted_or_refused_whatever_its_claims_are(tokens: JsonWebTokens, changes: dict[str, Any]) -> None:
    """Refused is anything without dates, issuer and audience; nothing is an error of the server."""
    payload = json.dumps({**claims(), **changes}).encode()
    head = b64(b'{"alg":"EdDSA","kid":"any"}')
    signed = f"{head}.{b64(payload)}"
    try:
        tokens.accept(f"{signed}.{b64(ED_KEY.sign(signed.encode()))}")
    except AuthorisationError:
        return
    dates = [json.loads(payload)[name] for name in ("exp", "nbf", "iat")]
    assert all(type(date) in (int, float) and date < 1 << 53 for date in dates)


def test_a_token_is_verified_once_and_not_after_it_expired(tokens: JsonWebTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[int] = []
    now = time.time()
    decode = jwt.decode
    monkeypatch.setattr(jwt, "decode", lambda *args, **kw: verified.append(1) or decode(*args, **kw))
    given = token(exp=int(now) + 60)
    for _ in range(3):
        tokens.accept(given)
    assert len(verified) == 1
    monkeypatch.setattr(time, "time", lambda: now + 60 + 31)
    monkeypatch.setattr(jwt.api_jwt, "datetime", _Later(now + 60 + 31))
    with pytest.raises(AuthorisationError, match="Jwt is expired"):
        tokens.accept(given)
    assert len(verified) == 2


class _Later:
    """datetime.now() as it will be."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def now(self, tz: object = None) -> Any:
        return self

    def timestamp(self) -> float:
        return self._now_s


def test_the_memory_of_verified_tokens_is_bounded(jwks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_REMEMBERED", 3)
    tokens, verified, decode = JsonWebTokens(jwks, ISSUER, (AUDIENCE,)), list[int](), jwt.decode
    monkeypatch.setattr(jwt, "decode", lambda *args, **kw: verified.append(1) or decode(*args, **kw))
    given = [token(sub=str(n)) for n in range(10)]
    for one in (*given, *reversed(given)):
        tokens.accept(one)
    assert len(verified) == 17


def test_a_withdrawn_key_closes_the_door_to_tokens_already_seen(jwks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens, given = JsonWebTokens(jwks, ISSUER, (AUDIENCE,)), token()
    tokens.accept(given)
    jwks.write_text(json.dumps({"keys": [public(STRANGER, kid="new")]}))
    with pytest.raises(AuthorisationError, match="Jwks doesn't have key"):
        tokens.accept(given)
    tokens.accept(token(STRANGER, kid="new"))


OTHER_KINDS = {
    "a curve nobody here knows": {"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ", "kid": "k"},
    "a kind that came later": {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AQ"},
    "a kind that is not text": {"kty": ["RSA"]},
    "an algorithm of encryption": public(RSA_KEY, alg="RSA-OAEP"),
    "a weak key": public(rsa.generate_private_key(65537, 1024)),
    "half a key": {"kty": "RSA", "n": "AQ", "e": "AQAB"},
    "a point that is not on its curve": {**public(EC_KEY), "x": b64(bytes(32)), "y": b64(bytes(32))},
    "a key without its numbers": {"kty": "OKP", "crv": "Ed25519"},
    "a kid that is a number": public(RSA_KEY, kid=7),
    "not an object": 1,
}


@pytest.mark.parametrize("other", OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_a_key_of_another_kind_leaves_the_others_and_keeps_no_withdrawn_one(
    jwks: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, other: object
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    tokens, given = JsonWebTokens(jwks, ISSUER, (AUDIENCE,)), token()
    tokens.accept(given)
    jwks.write_text(json.dumps({"keys": [other, public(STRANGER, kid="new")]}))
    tokens.accept(token(STRANGER, kid="new"))
    with pytest.raises(AuthorisationError, match="Jwks doesn't have key"):
        tokens.accept(given)
    assert f"{jwks}: key 0" in caplog.text
    assert "; it is left out" in caplog.text
    JsonWebTokens(jwks, ISSUER, (AUDIENCE,)).accept(token(STRANGER, kid="new"))


@pytest.mark.parametrize(
    "secret",
    [jwt.get_algorithm_by_name("RS256").to_jwk(RSA_KEY, as_dict=True), {"kty": "oct", "k": "c2VjcmV0"}],
    ids=["private", "symmetric"],
)
def test_a_secret_is_refused_at_start_and_left_out_later(
    jwks: Path, monkeypatch: pytest.MonkeyPatch, secret: dict[str, object]
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens = JsonWebTokens(jwks, ISSUER, (AUDIENCE,))
    jwks.write_text(json.dumps({"keys": [secret, public(STRANGER, kid="new")]}))
    tokens.accept(token(STRANGER, kid="new"))
    with pytest.raises(AuthorisationError, match="Jwks doesn't have key"):
        tokens.accept(token())
    with pytest.raises(StartError, match="key 0 is a"):
        JsonWebTokens(jwks, ISSUER, (AUDIENCE,))


@pytest.mark.parametrize("keys", [[], [OTHER_KINDS["a kind that came later"]]])
def test_a_set_that_has_lost_all_its_keys_lets_nobody_in(
    jwks: Path, monkeypatch: pytest.MonkeyPatch, keys: list[object]
) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens, given = JsonWebTokens(jwks, ISSUER, (AUDIENCE,)), token()
    tokens.accept(given)
    jwks.write_text(json.dumps({"keys": keys}))
    with pytest.raises(AuthorisationError, match="Jwks doesn't have key"):
        tokens.accept(given)


def test_a_half_written_set_keeps_what_it_said_until_it_is_whole(jwks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_INTERVAL_S", 0.0)
    tokens, given = JsonWebTokens(jwks, ISSUER, (AUDIENCE,)), token()
    text = json.dumps({"keys": [public(STRANGER, kid="new")]})
    for length in (0, 1, len(text) // 2, len(text) - 1):
        jwks.write_text(text[:length])
        tokens.accept(given)
    jwks.write_text(text)
    with pytest.raises(AuthorisationError, match="Jwks doesn't have key"):
        tokens.accept(given)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "not a JSON Web Key set"),
        ('{"keys": {}}', "not a JSON Web Key set"),
        ('{"keys": [1]}', "has no key to verify signatures with: key 0 is 1, expected an object"),
        ('{"keys": []}', "has no key to verify signatures with"),
        ('{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', "key 0 is a symmetric key"),
        ('{"keys": [{"kty": "oct2", "k": "c2VjcmV0"}]}', "key 0 is of type 'oct2' , expected RSA, EC"),
        ('{"keys": [{"kty": ["RSA"]}]}', "key 0 is of type"),
        ('{"keys": [{"kty": "RSA", "n": "AQ", "e": "AQAB"}]}', "key 0"),
        (json.dumps({"keys": [public(RSA_KEY, alg="HS256")]}), "its algorithm 'HS256' does not match its type RSA"),
        (json.dumps({"keys": [public(RSA_KEY, kid=7)]}), "kid is 7, expected a string"),
        (json.dumps({"keys": [jwt.get_algorithm_by_name("RS256").to_jwk(RSA_KEY, as_dict=True)]}), "key 0 is a private key"),
        (json.dumps({"keys": [public(rsa.generate_private_key(65537, 1024))]}), "RSA key of 1024 bits, expected 2048 or more"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_set_of_public_keys_is_refused_at_start(jwks: Path, document: str, text: str) -> None:
    jwks.write_text(document)
    with pytest.raises(StartError, match=text):
        JsonWebTokens(jwks, ISSUER, (AUDIENCE,))


def test_keys_without_issuer_or_audience_are_refused_at_start(jwks: Path) -> None:
    for issuer, audiences in (("", (AUDIENCE,)), (ISSUER, ())):
        with pytest.raises(StartError, match="--auth-jwks-file needs --auth-issuer and --auth-audience"):
            JsonWebTokens(jwks, issuer, audiences)


def test_both_front_ends_take_the_same_tokens(serve: Serve, jwks: Path, tmp_path: Path) -> None:
    plain = tmp_path / "tokens"
    plain.write_text("a-token-of-the-site-1\n")
    options = {"auth_jwks_file": str(jwks), "auth_issuer": ISSUER, "auth_audience": (AUDIENCE,), "auth_token_file": str(plain)}
    method = "/inference.GRPCInferenceService/ServerMetadata"
    rows = (
        (f"Bearer {token()}", "OK", 200, ""),
        ("Bearer a-token-of-the-site-1", "OK", 200, ""),
        ("", "UNAUTHENTICATED", 401, "bearer token or Jwt is missing"),
        ("Bearer a-token-of-the-site-2", "UNAUTHENTICATED", 401, "bearer token is not known"),
        (f"Bearer {token(exp=1)}", "UNAUTHENTICATED", 401, "Jwt is expired"),
        (f"Bearer {token(aud='x')}", "PERMISSION_DENIED", 403, "Audiences in Jwt are not allowed"),
    )
    with serve(**options) as running, grpc.insecure_channel(running.grpc) as channel:
        for value, code, status, text in rows:
            assert call(channel, method, metadata=(("authorization", value),) if value else ()) == (code, text)
            http_code, body, _ = fetch(f"{running.http}/v2", headers={"authorization": value} if value else {})
            assert http_code == status
            assert not text or body == {"error": text}


def test_another_audience_is_forbidden_and_not_unauthenticated(tokens: JsonWebTokens) -> None:
    with pytest.raises(ForbiddenError):
        tokens.accept(token(aud="another-service"))
