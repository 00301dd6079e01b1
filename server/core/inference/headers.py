# SPDX-License-Identifier: Apache-2.0
"""Request headers that become request parameters, and the one that requests of sequences need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypersonic.server.core.inference.parameters import RESERVED, ParameterValue
from hypersonic.server.core.inference.request import InferRequest
from hypersonic.server.errors import InvalidRequestError


def forward_headers(headers: Iterable[tuple[str, str]], pattern: re.Pattern[str] | None) -> dict[str, ParameterValue]:
    """Return the headers that the pattern selects, as parameters.

    Args:
        pattern: of --http-header-forward-pattern or --grpc-header-forward-pattern, None if the option is not set.

    Raises:
        InvalidRequestError: (INVALID_ARGUMENT, 400) for a header whose name is a reserved parameter.
    """
    if pattern is None:
        return {}
    parameters: dict[str, ParameterValue] = {key: value for key, value in headers if pattern.search(key)}
    for key in parameters:
        if key in RESERVED or key.startswith("triton_"):
            raise InvalidRequestError(f"header '{key}' cannot be forwarded: '{key}' is a reserved request parameter")
    return parameters


def check_sequence_header(request: InferRequest, headers: Iterable[tuple[str, object]], name: str) -> None:
    """Check that a unary request of a sequence has the header by which a balancer finds the server with its state.

    Args:
        headers: (name in lower case, value) pairs.
        name: of --sequence-header, "" = none is needed.

    Raises:
        InvalidRequestError: (INVALID_ARGUMENT, 400).
    """
    if name and request.sequence is not None and all(key != name for key, _ in headers):
        raise InvalidRequestError(
            f"a request of a sequence has no header '{name}', by which the balancer before this server sends all requests of a "
            "sequence to one server: give all of them the same text in it, or send them on one stream (ModelStreamInfer)"
        )
