# SPDX-License-Identifier: Apache-2.0
"""Makes the security policies from the options: one each for gRPC, HTTP and metrics, with the same credentials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypersonic.server.errors import StartError
from hypersonic.server.options import Options
from hypersonic.server.repository.control_mode import ModelControlOptions
from hypersonic.server.wire.security.groups import Group
from hypersonic.server.wire.security.keys import JsonWebTokens
from hypersonic.server.wire.security.policy import Credentials, Policy
from hypersonic.server.wire.security.restrictions import grpc_restrictions, http_restrictions
from hypersonic.server.wire.security.tokens import BearerTokens


class Policies(NamedTuple):
    """The policy of each front end. The metrics port asks for the same credentials and has no restricted groups."""

    grpc: Policy
    http: Policy
    metrics: Policy


def policies(options: Options) -> Policies:
    """Return the policies that the options ask for.

    Raises StartError for options that contradict each other and for files that cannot be used.
    """
    credentials = tuple(_credentials(options))
    exempt = frozenset(_groups(options.auth_exempt))
    return Policies(
        grpc=Policy(grpc_restrictions(options.grpc_restricted_protocol), credentials, exempt),
        http=Policy(http_restrictions(options.http_restricted_api), credentials, exempt),
        metrics=Policy({}, credentials, exempt),
    )


def every_port_guards(options: Options, asked: Policies, group: Group) -> bool:
    """Return whether gRPC and HTTP, unless they are switched off, ask callers of this group for a token, a header or a client
    certificate.
    """
    by_grpc = not options.allow_grpc or options.grpc_use_ssl_mutual or asked.grpc.guards(group)
    by_http = not options.allow_http or bool(options.http_root_cert) or asked.http.guards(group)
    return by_grpc and by_http


def model_control(options: Options, asked: Policies) -> ModelControlOptions:
    """Return the options of model control. Load requests may contain python code if the options allow it, or if every port
    asks for credentials before it accepts them.
    """
    control = options.model_control
    allowed = control.override.allow_python or every_port_guards(options, asked, Group.MODEL_REPOSITORY)
    return replace(control, override=replace(control.override, allow_python=allowed))


def _credentials(options: Options) -> Iterator[Credentials]:
    if options.auth_token_file:
        yield BearerTokens(Path(options.auth_token_file))
    if options.auth_jwks_file:
        yield JsonWebTokens(Path(options.auth_jwks_file), options.auth_issuer, options.auth_audience)
    elif options.auth_issuer or options.auth_audience:
        raise StartError("--auth-issuer and --auth-audience say which JSON Web Tokens are accepted; they need --auth-jwks-file")


def _groups(names: Sequence[str]) -> Iterator[Group]:
    for name in names:
        try:
            yield Group(name)
        except ValueError as error:
            raise StartError(f"--auth-exempt: unknown protocol group {name!r}, expected some of {', '.join(Group)}") from error
