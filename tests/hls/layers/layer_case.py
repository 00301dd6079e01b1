# SPDX-License-Identifier: Apache-2.0
"""A small Keras model for a row of docs/layers.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TYPE = "ap_fixed<8,4>"


@dataclass(frozen=True)
class Case:
    """A model with one layer, or a few, whose names begin with that of the case.

    shapes: of its inputs. build: (layers, name, inputs) -> output, by tf_keras or QKeras. settings: hls4ml's LayerName, by the
    end of a layer's name. x: the types of the inputs.
    """

    shapes: tuple[tuple[int, ...], ...]
    build: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    x: tuple[str, ...] = (TYPE, TYPE)


def layer(kind: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A model of one layer; every kernel and bias is random."""

    def build(layers: Any, name: str, *x: Any) -> Any:
        found = getattr(layers, kind)(*arguments, **options, name=name)
        return found(x[0] if len(x) == 1 else list(x))

    return build


def one(shape: tuple[int, ...], kind: str, *arguments: Any, **options: Any) -> Case:
    return Case((shape,), layer(kind, *arguments, **options))


def two(a: tuple[int, ...], b: tuple[int, ...], kind: str, **options: Any) -> Case:
    return Case((a, b), layer(kind, **options))
