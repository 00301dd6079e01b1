# SPDX-License-Identifier: Apache-2.0
"""Policy: what a front end asks of a caller before it does anything; authorise() is the one place that decides.

    group of the RPC or path -> credentials (bearer token or JWT) unless the group is exempt -> the group's own header

A group of None is an RPC or path nobody has classified: it is exempt from nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hypersonic.server.errors import AuthorisationError, CredentialsError, ForbiddenError, RestrictedError
from hypersonic.server.security.groups import RPCS, Group

#: (name in lower case, value) as gRPC's metadata has them; values of `-bin` headers are bytes
Headers = Iterable[tuple[str, str | bytes]]
#: longest token looked at; nobody's is longer, and JSON is parsed from it
MAX_TOKEN_CHARS = 16_384
_SCHEME = "bearer "


class Credentials(Protocol):
    """One kind of bearer token. kind: its name, for the caller."""

    kind: str

    def fits(self, token: str) -> bool:
        """Whether a token has the form of this kind: the caller is told why it is not accepted as one."""

    def accept(self, token: str) -> None:
        """Returns for a good token. Raises CredentialsError or ForbiddenError."""


@dataclass(frozen=True)
class Restriction:
    """A header (name in lower case) and the value it must have; text: what a caller without it is told."""

    header: str
    value: str
    text: str

    def met_by(self, headers: Headers) -> bool:
        """The first header of that name counts, as in Triton. In constant time."""
        sent = next((value for name, value in headers if name == self.header), None)
        return isinstance(sent, str) and hmac.compare_digest(sent.encode(), self.value.encode())


@dataclass(frozen=True)
class Policy:
    """The demands of one front end. credentials: any one of them will do. exempt: groups open without credentials."""

    restrictions: Mapping[Group, Restriction] = field(default_factory=dict)
    credentials: tuple[Credentials, ...] = ()
    exempt: frozenset[Group] = frozenset()

    @property
    def active(self) -> bool:
        """Whether it asks anything of anybody."""
        return bool(self.restrictions or self.credentials)

    def guards(self, group: Group | None) -> bool:
        """Whether a call of this group has to show anything."""
        return group in self.restrictions or (bool(self.credentials) and group not in self.exempt)


def authorise(policy: Policy, group: Group | None, headers: Headers) -> None:
    """Returns when the call may go on. Raises AuthorisationError."""
    if policy.credentials and group not in policy.exempt:
        _authenticate(policy.credentials, headers)
    restriction = policy.restrictions.get(group) if group is not None else None
    if restriction is not None and not restriction.met_by(headers):
        raise RestrictedError(restriction.text)


def authorise_rpc(policy: Policy, path: str, headers: Headers) -> None:
    """The same for a gRPC call of a method that is served. path: /package.Service/Method."""
    group = RPCS.get(path)
    if group is None:
        raise ForbiddenError(f"{path} belongs to no protocol group and is closed while a policy is set")
    if policy.guards(group):
        authorise(policy, group, headers)


def _authenticate(credentials: tuple[Credentials, ...], headers: Headers) -> None:
    token = _bearer(headers)
    if token is None:
        raise CredentialsError(f"{' or '.join(kind.kind for kind in credentials)} is missing", missing=True)
    *others, told = sorted(credentials, key=lambda kind: kind.fits(token))
    for kind in others:
        try:
            return kind.accept(token)
        except AuthorisationError:
            continue
    return told.accept(token)


def _bearer(headers: Headers) -> str | None:
    """The token of the only `authorization: Bearer ...`, None if there is no such header."""
    sent = [value for name, value in headers if name == "authorization"]
    if len(sent) > 1:  # a proxy and a server that read different ones would disagree on who calls
        raise CredentialsError("more than one authorization header")
    if not sent or not isinstance(sent[0], str) or sent[0][: len(_SCHEME)].lower() != _SCHEME:
        return None
    token = sent[0][len(_SCHEME) :].strip()
    if len(token) > MAX_TOKEN_CHARS or not token.isascii():
        raise CredentialsError(f"the bearer token is longer than {MAX_TOKEN_CHARS} characters or not ASCII")
    return token or None
