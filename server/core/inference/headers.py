# SPDX-License-Identifier: Apache-2.0
"""Request headers that become request parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypersonic.server.core.inference.parameters import RESERVED, ParameterValue
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
