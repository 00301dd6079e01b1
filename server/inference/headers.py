# SPDX-License-Identifier: Apache-2.0
"""Headers of a request that become parameters of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.inference.parameters import RESERVED, ParameterValue


def forward_headers(headers: Iterable[tuple[str, str]], pattern: re.Pattern[str] | None) -> dict[str, ParameterValue]:
    """The headers that --http-header-forward-pattern or its gRPC twin makes parameters.

    Raises InvalidRequestError for a header whose name means something as a parameter.
    """
    if pattern is None:
        return {}
    parameters: dict[str, ParameterValue] = {key: value for key, value in headers if pattern.search(key)}
    for key in parameters:
        if key in RESERVED or key.startswith("triton_"):
            raise InvalidRequestError(f"header '{key}' cannot be forwarded: '{key}' is a reserved request parameter")
    return parameters
