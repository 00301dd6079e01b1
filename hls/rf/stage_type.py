# SPDX-License-Identifier: Apache-2.0
"""Types that describe a kind of stage. Each file of hls/rf/stages/ defines a STAGE with them; registry.py collects these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hypersonic.hls.network.base import Layer, Multiplying, OneInput, Tensor, TwoInputs
from hypersonic.hls.resources import NOTHING, Amounts
from hypersonic.hls.rf.parts.limits import NO_LIMIT, Limit, Numbers
from hypersonic.hls.rf.stage import Stage, Stream

L = TypeVar("L", bound=OneInput | TwoInputs)
P = TypeVar("P", bound=Multiplying)


class Planner(Protocol):
    """The interface that a layer's plan uses to add stages; Builder in plan.py implements it."""

    @property
    def weight_widths(self) -> Mapping[str, int] | None:
        """For a sketch (fit/sketch.py), whose memories are empty, layer name -> bits of its weights; None otherwise."""

    @property
    def interval(self) -> int:
        """Clocks per row of the slowest layer."""

    def stage_name(self, name: str) -> str:
        """Return an identifier for a stage, unique in the core."""

    def stream_name(self, name: str) -> str:
        """Return an identifier for a stream, unique in the core."""

    def take(self, tensor: Tensor) -> Stream:
        """Return a stream of the tensor for one reader; every reader takes its own."""

    def take_elements(self, tensor: Tensor, period: int) -> Stream:
        """Return a stream of the tensor with the fewest lanes that keep up and convert easily.

        Args:
            period: a multiple of the lanes.
        """

    def with_lanes(self, stream: Stream, lanes: int, layer: str) -> Stream:
        """Return the stream in beats of `lanes` elements."""

    def buffered(self, stream: Stream, layer: str, side: str) -> Stream:
        """Return the stream behind a new FIFO, for an input of a join.

        Args:
            side: "a" or "b".
        """

    def fewest_lanes(self, channels: int, elements_a_row: int) -> int:
        """Return the smallest divisor of `channels` that is enough lanes to move a row within the interval."""

    def result(self, layer: Layer, lanes: int) -> Stream:
        """Return a new stream for the layer's result, with `lanes` elements per beat."""

    def add(self, stage: Stage) -> None:
        """Append a stage that is not the last of its layer. Raises UnsupportedLayerError if a number in it is too wide."""

    def finish(self, layer: Layer, stage: Stage) -> None:
        """Append a layer's last stage, whose output is the result. Raises UnsupportedLayerError as add does."""

    def offer(self, tensor: Tensor, stream: Stream) -> None:
        """Make the stream of a tensor available to all its readers."""


@dataclass(frozen=True)
class Sharing(Generic[P]):
    """How a layer's multiplications share multipliers.

    Attributes:
        taken: layer -> clocks of one vector (or of one pixel's channels), which is the supported reuse factor nearest to the
            one asked for.
        vectors: layer -> vectors per row.
        choices: layer -> {supported reuse factor: clocks per row, including its window}.
    """

    taken: Callable[[P], int]
    vectors: Callable[[P], int]
    choices: Callable[[P], dict[int, int]]


@dataclass(frozen=True)
class LayerPlan(Generic[L]):
    """How a kind of layer becomes stages.

    Attributes:
        noun: its class.
        plan: adds its stages.
        sharing: for subclasses of Products and PairProducts.
        check: raises UnsupportedLayerError for a layer that the stages do not compute exactly.
    """

    noun: type[L]
    plan: Callable[[Planner, L], None]
    sharing: Sharing[Any] | None = None
    check: Callable[[L], None] = lambda _: None


@dataclass(frozen=True)
class StageType:
    """A kind of stage.

    Attributes:
        modules: RTL modules of hls/rtl that it instantiates.
        cost: estimated resources of one stage, with weights in block RAM, or in LUTs if there are few.
        limits: widths of numbers inside it.
        layer: None for a stage between layers.
        text: yields its instance, if that has other ports than streams.
        long: parameters of 64 bits; all others are SystemVerilog's int.
    """

    modules: tuple[str, ...]
    cost: Callable[[Stage, Numbers], Amounts]
    limits: tuple[Limit, ...]
    layer: LayerPlan[Any] | None = None
    text: Callable[[Stage], Iterator[str]] | None = None
    long: tuple[str, ...] = ()


def no_stage(layer: LayerPlan[Any]) -> StageType:
    """Return the StageType of a layer that is only wires."""
    return StageType((), lambda _stage, _numbers: NOTHING, NO_LIMIT, layer)
