# SPDX-License-Identifier: Apache-2.0
"""Request parameters, whichever front end they came through: those with a meaning of their own, and the model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ParameterValue = bool | int | float | str
#: of a load request, as it came: None where the request names none
LoadParameter = bool | int | float | str | bytes | None

#: the one key of this prefix that clients may send
EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
#: parameters with a meaning of their own; a header must not become one of them
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
    """A request's place in a sequence. id: 0 or "" is none."""

    id: int | str
    start: bool
    end: bool


class RequestParameters(NamedTuple):
    """timeout_us, priority: 0 = none. custom: what the model gets to see."""

    timeout_us: int
    priority: int
    sequence: SequenceMark | None
    custom: Mapping[str, ParameterValue]


def sort_parameters(values: Mapping[str, Any]) -> RequestParameters:
    """values: of the right types already."""
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
