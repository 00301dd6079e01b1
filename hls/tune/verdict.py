# SPDX-License-Identifier: Apache-2.0
"""The verdict of a build on a description, with what to write instead: the answer of converting.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypersonic.hls.errors import Edit


@dataclass(frozen=True)
class Verdict:
    """The verdict on a description that converts.

    Attributes:
        refused: why a build refuses it; "" if it does not.
        is_far: only because it is far from the trained model.
        loss: the rms difference from the trained model over the answers' spread, or the share of rows with another class, of
            the worst output.
        edits: wider types for numbers that would wrap or exceed their type, in the model's names.
        binding: the layer in which the difference begins, and begin: a sentence about it; "" if the loss is within the limit or
            no layer is known.
        table: a larger table for the layer with the largest difference among those with a table; it need not be the binding
            one.
    """

    refused: str
    is_far: bool
    loss: float
    edits: tuple[Edit, ...]
    binding: str
    begin: str
    table: tuple[Edit, ...] = ()


#: the verdict on a description that converts and is not compared with the trained model
CONVERTS = Verdict("", is_far=False, loss=0.0, edits=(), binding="", begin="")


def verdict_from_json(value: Mapping[str, Any]) -> Verdict:
    """Return the verdict whose asdict() is given."""
    return Verdict(**{**value, **{name: tuple(map(edit_from_json, value[name])) for name in ("edits", "table")}})


def edit_from_json(value: Mapping[str, Any]) -> Edit:
    """Return the edit whose asdict() is given."""
    return Edit(tuple(value["place"]), value["value"])
