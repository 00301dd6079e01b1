# SPDX-License-Identifier: Apache-2.0
"""Request parameters of any front end: the reserved ones with a meaning of their own, and those passed to the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ParameterValue = bool | int | float | str
#: a load request's parameter as received; None for a parameter without a value
LoadParameter = bool | int | float | str | bytes | None

#: the one key of this prefix that clients may send
EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
#: parameters with a meaning of their own; a forwarded header must not become one of them
RESERVED = frozenset(
    (
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "headers",
        "binary_data_output",
        EMPTY_FINAL_RESPONSE,
    )
)


class SequenceMark(NamedTuple):
    """A request's place in a sequence.

    Attributes:
        id: the correlation ID, 0 or "" for none.
    """

    id: int | str
    start: bool
    end: bool


class RequestParameters(NamedTuple):
    """A request's parameters, sorted.

    Attributes:
        timeout_us, priority: 0 for none.
        custom: the parameters that the model sees.
    """

    timeout_us: int
    priority: int
    sequence: SequenceMark | None
    custom: Mapping[str, ParameterValue]


def sort_parameters(values: Mapping[str, Any]) -> RequestParameters:
    """Separate reserved parameters from those for the model.

    Args:
        values: already checked to have the right types.
    """
    custom = {key: value for key, value in values.items() if key not in RESERVED or key == "headers"}
    mark = SequenceMark(
        values.get("sequence_id", 0), bool(values.get("sequence_start", False)), bool(values.get("sequence_end", False))
    )
    return RequestParameters(
        timeout_us=max(0, values.get("timeout", 0)),
        priority=max(0, values.get("priority", 0)),
        sequence=mark if mark.id or mark.start or mark.end else None,
        custom=custom,
    )
