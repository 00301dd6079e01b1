# SPDX-License-Identifier: Apache-2.0
"""Parses --grpc-restricted-protocol and --http-restricted-api: `<group>,<group>:<key>=<value>`, with Triton's error texts.

The header that a caller has to send is `triton-grpc-protocol-<key>` on gRPC, and `<key>` on HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypersonic.server.errors import StartError
from hypersonic.server.wire.security.groups import RESTRICTABLE, Group
from hypersonic.server.wire.security.policy import Restriction

_GRPC_PREFIX = "triton-grpc-protocol-"


def grpc_restrictions(settings: Sequence[str]) -> Mapping[Group, Restriction]:
    """Parse the values of --grpc-restricted-protocol. Raises StartError with Triton's text."""
    return _restrictions(settings, "--grpc-restricted-protocol", "protocol", _grpc_restriction)


def http_restrictions(settings: Sequence[str]) -> Mapping[Group, Restriction]:
    """Parse the values of --http-restricted-api. Raises StartError with Triton's text."""
    return _restrictions(settings, "--http-restricted-api", "api", _http_restriction)


def _grpc_restriction(key: str, value: str) -> Restriction:
    header = _GRPC_PREFIX + key
    return Restriction(header.lower(), value, f"This protocol is restricted, expecting header '{header}'")


def _http_restriction(key: str, value: str) -> Restriction:
    return Restriction(key.lower(), value, f"This API is restricted, expecting header '{key}'")


def _restrictions(
    settings: Sequence[str], option: str, what: str, restriction: Callable[[str, str], Restriction]
) -> Mapping[Group, Restriction]:
    restrictions: dict[Group, Restriction] = {}
    for setting in settings:
        names, key, value = _parts(setting, option)
        for name in names.split(","):
            group = _group(name, what)
            if group in restrictions:
                raise StartError(f"restricted {what} '{name}' can not be specified in multiple config groups")
            restrictions[group] = restriction(key, value)
    return restrictions


def _parts(setting: str, option: str) -> tuple[str, str, str]:
    names, colon, rest = setting.partition(":")
    key, equals, value = rest.partition("=")
    if not (names and colon and key and equals and value):
        raise StartError(f"{option} option format is '<config name>:<setting>=<value>'. Got {setting}")
    return names, key, value


def _group(name: str, what: str) -> Group:
    if name not in RESTRICTABLE:
        raise StartError(f"unknown restricted {what} '{name}', expected some of {', '.join(RESTRICTABLE)}")
    return Group(name)
