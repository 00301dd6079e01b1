# SPDX-License-Identifier: Apache-2.0
"""The parts of a stage: each file of hls/rf/stages/ puts them together as its STAGE, and registry.py collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.layers import Layer, OneInput, Products, Tensor, TwoInputs
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Limit, Numbers
from hypersonic.hls.rf.stage import Stage, Stream

L = TypeVar("L", bound=OneInput | TwoInputs)
P = TypeVar("P", bound=Products)

#: a layer of hls4ml's ModelGraph, the tensors it reads, its result -> the layer, or several one behind another
Reader = Callable[..., Layer | tuple[Layer, ...]]


class Planner(Protocol):
    """Stages so far, and the streams that wait for a reader; plan.py's Builder."""

    @property
    def weight_widths(self) -> Mapping[str, int] | None:
        """Of a sketch (fit/sketch.py), which holds no numbers: layer name -> bits of its weights. None: memories are filled."""

    @property
    def interval(self) -> int:
        """Clocks a row takes in the layer that takes longest."""

    def stage_name(self, name: str) -> str:
        """An identifier that no other stage has."""

    def stream_name(self, name: str) -> str:
        """An identifier that no other stream has."""

    def take(self, tensor: Tensor) -> Stream:
        """The tensor's stream, for one reader."""

    def take_elements(self, tensor: Tensor, period: int) -> Stream:
        """The tensor at the fewest lanes that keep up and go with the producer's; period: what lanes have to divide."""

    def with_lanes(self, stream: Stream, lanes: int, layer: str) -> Stream:
        """The stream in beats of `lanes` elements."""

    def buffered(self, stream: Stream, layer: str, side: str) -> Stream:
        """The stream behind a FIFO, as a join's inputs are."""

    def fewest_lanes(self, channels: int, elements_a_row: int) -> int:
        """A divisor of channels: the fewest lanes that move a row within the interval."""

    def result(self, layer: Layer, lanes: int) -> Stream:
        """The stream that a layer makes."""

    def add(self, stage: Stage) -> None:
        """A stage between others of its layer. Raises UnsupportedLayerError where a number in it is too wide."""

    def finish(self, layer: Layer, stage: Stage) -> None:
        """A layer's last stage, whose output is its result. Raises UnsupportedLayerError likewise."""

    def offer(self, tensor: Tensor, stream: Stream) -> None:
        """The stream that holds a tensor, for all who read it."""


@dataclass(frozen=True)
class Sharing(Generic[P]):
    """How a layer's multiplications share multipliers.

    taken: clocks of one vector, or of one pixel's channels: the reuse factor there is, the nearest to the one asked for.
    vectors: such in a row. choices: each reuse factor there is -> clocks of a row in this layer, its window's among them.
    """

    taken: Callable[[P], int]
    vectors: Callable[[P], int]
    choices: Callable[[P], dict[int, int]]


@dataclass(frozen=True)
class LayerType(Generic[L]):
    """The layer that a stage computes.

    plan: adds its stages. readers: hls4ml's class names of it. activations: the functions of hls4ml's activation layers that
    are this layer. sharing: of Products.
    """

    noun: type[L]
    plan: Callable[[Planner, L], None]
    readers: Mapping[str, Reader] = field(default_factory=dict)
    activations: Mapping[str, Reader] = field(default_factory=dict)
    sharing: Sharing[Any] | None = None


@dataclass(frozen=True)
class StageType:
    """modules: which of hls/rtl it is instances of. cost: of one, weights in block RAM, or LUTs where they are few. limits: of
    numbers inside it. layer: None for what stands between layers. text: its instance where that is none of streams alone.
    long: parameters of 64 bits; all others are SystemVerilog's int.
    """

    modules: tuple[str, ...]
    cost: Callable[[Stage, Numbers], Amounts]
    limits: tuple[Limit, ...]
    layer: LayerType[Any] | None = None
    text: Callable[[Stage], Iterator[str]] | None = None
    long: tuple[str, ...] = ()


def no_stage(layer: LayerType[Any]) -> StageType:
    """Of a layer that is wires alone."""
    return StageType((), lambda _stage, _numbers: NOTHING, NO_LIMIT, layer)
