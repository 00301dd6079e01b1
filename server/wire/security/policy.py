# SPDX-License-Identifier: Apache-2.0
"""Policy: the credentials that a front end requires of a caller. authorise() is the only place that decides.

::

    group of the RPC or path -> credentials (bearer token or JWT) unless the group is exempt -> the group's own header

A group of None stands for an RPC or path that has no group. It is never exempt.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hypersonic.server.errors import AuthorisationError, CredentialsError, ForbiddenError, RestrictedError
from hypersonic.server.wire.security.groups import RPCS, Group

#: (name in lower case, value) pairs, as in gRPC's metadata; values of `-bin` headers are bytes
Headers = Iterable[tuple[str, str | bytes]]
#: the longest token that is accepted. Real ones are shorter, and JSON is parsed from it
MAX_TOKEN_CHARS = 16_384
_SCHEME = "bearer "


class Credentials(Protocol):
    """One kind of bearer token.

    Attributes:
        kind: its name in errors.
    """

    kind: str

    def fits(self, token: str) -> bool:
        """Return whether a token has the form of this kind. The caller is then told why it is not accepted as one."""

    def accept(self, token: str) -> None:
        """Return for a valid token.

        Raises CredentialsError (UNAUTHENTICATED, 401) or ForbiddenError (PERMISSION_DENIED, 403).
        """


@dataclass(frozen=True)
class Restriction:
    """A header (name in lower case) and the value that it must have.

    Attributes:
        text: the error for a caller without it.
    """

    header: str
    value: str
    text: str

    def met_by(self, headers: Headers) -> bool:
        """Return whether the first header of that name, as in Triton, has the value. Compares in constant time."""
        sent = next((value for name, value in headers if name == self.header), None)
        return isinstance(sent, str) and hmac.compare_digest(sent.encode(), self.value.encode())


@dataclass(frozen=True)
class Policy:
    """The requirements of one front end.

    Attributes:
        restrictions: group -> header.
        credentials: a caller needs one of them.
        exempt: groups that need no credentials.
    """

    restrictions: Mapping[Group, Restriction] = field(default_factory=dict)
    credentials: tuple[Credentials, ...] = ()
    exempt: frozenset[Group] = frozenset()

    @property
    def active(self) -> bool:
        """True if the policy can refuse any call."""
        return bool(self.restrictions or self.credentials)

    def guards(self, group: Group | None) -> bool:
        """Return whether a call of this group needs credentials or a header."""
        return group in self.restrictions or (bool(self.credentials) and group not in self.exempt)


def authorise(policy: Policy, group: Group | None, headers: Headers) -> None:
    """Return if the call may proceed.

    Raises AuthorisationError: CredentialsError (UNAUTHENTICATED, 401), ForbiddenError (PERMISSION_DENIED, 403) or
    RestrictedError (UNAVAILABLE, 403, as in Triton).
    """
    if policy.credentials and group not in policy.exempt:
        _authenticate(policy.credentials, headers)
    restriction = policy.restrictions.get(group) if group is not None else None
    if restriction is not None and not restriction.met_by(headers):
        raise RestrictedError(restriction.text)


def authorise_rpc(policy: Policy, path: str, headers: Headers) -> None:
    """Authorise a gRPC call of a method that the server has.

    Raises AuthorisationError.

    Args:
        path: /package.Service/Method.
    """
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
    """Return the token of the header `authorization: Bearer ...`, None if there is none.

    Raises CredentialsError for several headers, and for a token that is too long or not ASCII.
    """
    sent = [value for name, value in headers if name == "authorization"]
    if len(sent) > 1:  # a proxy and this server could use different ones
        raise CredentialsError("more than one authorization header")
    if not sent or not isinstance(sent[0], str) or sent[0][: len(_SCHEME)].lower() != _SCHEME:
        return None
    token = sent[0][len(_SCHEME) :].strip()
    if len(token) > MAX_TOKEN_CHARS or not token.isascii():
        raise CredentialsError(f"the bearer token is longer than {MAX_TOKEN_CHARS} characters or not ASCII")
    return token or None
