# SPDX-License-Identifier: Apache-2.0
"""The keys, certificates and tokens of the edge, made for a test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deploy.envoy.farm import configuration

KEY = rsa.generate_private_key(65537, 2048)
STRANGER = rsa.generate_private_key(65537, 2048)
TEXT = configuration("edge-tls-jwt.yaml")


def provider() -> dict[str, Any]:
    """The token's issuer and audience in the configuration."""
    (listener, _) = yaml.safe_load(TEXT)["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    found: dict[str, Any] = manager["http_filters"][0]["typed_config"]["providers"]["site"]
    return found


def token(key: rsa.RSAPrivateKey = KEY, lifetime_s: float = 600, **changes: object) -> str:
    site, now = provider(), int(time.time())
    claims = {"iss": site["issuer"], "aud": site["audiences"][0], "sub": "job", "iat": now - 1000, "exp": now + lifetime_s}
    return jwt.encode({**claims, **changes}, key, "RS256", headers={"kid": "1"})


def write_keys(directory: Path, host: str, authority: trustme.CA) -> None:
    """Write the files that the configuration names."""
    directory.mkdir(exist_ok=True)
    key = jwt.get_algorithm_by_name("RS256").to_jwk(KEY.public_key(), as_dict=True)
    (directory / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "1", "use": "sig"}]}))
    certificate = authority.issue_cert(host)
    certificate.cert_chain_pems[0].write_to_path(str(directory / "tls.crt"))
    certificate.private_key_pem.write_to_path(str(directory / "tls.key"))
    authority.cert_pem.write_to_path(str(directory / "ca.crt"))
