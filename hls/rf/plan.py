# SPDX-License-Identifier: Apache-2.0
"""RfNetwork -> Pipeline: how many multipliers, how many elements side by side, which FIFOs.

A reuse factor is hls4ml's: the multiplications of one vector (one window) that share a multiplier; which of them a layer can do
stands in its own file (hls/rf/stages/). The layer that takes longest sets the interval of rows; everything without multipliers
gets as few lanes as keep up with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, gcd, lcm

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.rf.fifos import with_fifos
from hypersonic.hls.rf.layers import Layer, Products, RfNetwork, Tensor
from hypersonic.hls.rf.needs import divisors
from hypersonic.hls.rf.registry import check_stage, layer_type, sharing
from hypersonic.hls.rf.stage import Pipeline, Stage, Stream
from hypersonic.hls.rf.stages.fifo import fifo_stage
from hypersonic.hls.rf.stages.fork import fork_stage
from hypersonic.hls.rf.stages.lanes import lanes_stage
from hypersonic.hls.rf.top.scope import Scope

#: rows up to so many bits come and go as one beat
WHOLE_ROW_BITS = 8192


def plan(network: RfNetwork, whole_row_bits: int = WHOLE_ROW_BITS) -> Pipeline:
    """The stages, each stream made before it is read, FIFOs deep enough. Raises UnsupportedLayerError."""
    return with_fifos(build(network, whole_row_bits))


def build(network: RfNetwork, whole_row_bits: int, weight_widths: Mapping[str, int] | None = None) -> Pipeline:
    """The stages, with FIFOs of two beats in front of joins. weight_widths: of a sketch (fit/sketch.py)."""
    builder = Builder(network, whole_row_bits, weight_widths)
    for layer in network.layers:
        layer_type(layer).plan(builder, layer)
    return builder.pipeline()


class Builder:
    """Stages so far, and for each tensor the streams that have not been read yet: what the layers' own plans see of it is
    Planner (rf/stage_type.py)."""

    def __init__(self, network: RfNetwork, whole_row_bits: int, weight_widths: Mapping[str, int] | None) -> None:
        self.weight_widths = weight_widths
        self._network = network
        self._scope = Scope(len(network.layers))
        self._stages: list[Stage] = []
        self._waiting: dict[str, list[Stream]] = {}
        self._readers: dict[str, int] = {}
        for name in [t.name for layer in network.layers for t in layer.inputs] + [t.name for t in network.outputs]:
            self._readers[name] = self._readers.get(name, 0) + 1
        self.interval = interval(network)
        self._whole_row_bits = whole_row_bits
        whole = self._is_whole(network.inputs)
        self._inputs: list[Stream] = []
        for tensor in network.inputs:
            self._inputs.append(self._enter(tensor, whole=whole))

    def pipeline(self) -> Pipeline:
        tensors = self._network.outputs
        whole = self._is_whole(tensors)
        if not whole and len(tensors) > 1:
            raise UnsupportedLayerError(
                f"the outputs {', '.join(t.name for t in tensors)} have {sum(map(_bits, tensors))} bits a row, expected up to "
                f"{self._whole_row_bits} where there are several: each would wait for the one before it"
            )
        outputs = tuple(self._leave(tensor, whole=whole) for tensor in tensors)
        return Pipeline(self._network.name, tuple(self._stages), tuple(self._inputs), outputs, notes(self._network))

    # ------------------------------------------------------------------ ends
    def _is_whole(self, tensors: tuple[Tensor, ...]) -> bool:
        return sum(map(_bits, tensors)) <= self._whole_row_bits

    def _enter(self, tensor: Tensor, *, whole: bool) -> Stream:
        lanes = tensor.size if whole else self.fewest_lanes(tensor.channels, tensor.size, len(self._network.inputs))
        stream = Stream(self._scope.stream(f"x_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)
        several = not whole and len(self._network.inputs) > 1
        self.offer(tensor, self._kept(tensor, stream) if several else stream)
        return stream

    def _kept(self, tensor: Tensor, stream: Stream) -> Stream:
        """A FIFO, so that the tensors behind this one at the port do not wait for its slow reader.

        It holds a row; of the last tensor what its reader leaves while the next row's others come.
        """
        beats = stream.beats
        if tensor is self._network.inputs[-1]:
            beats = ceil(beats * sum(other.beats for other in self._inputs) / self.interval)
        kept = replace(stream, name=self._scope.stream(f"{stream.name}_kept"))
        name, depth = self._scope.stage(f"{tensor.name}_entrance"), 1 << max(1, beats.bit_length())
        self.add(fifo_stage(name, tensor.name, stream, kept, depth))
        return kept

    def _leave(self, tensor: Tensor, *, whole: bool) -> Stream:
        stream = self.take(tensor)
        return self.with_lanes(stream, tensor.size if whole else stream.lanes, tensor.name)

    # ------------------------------------------------------------------ streams
    def offer(self, tensor: Tensor, stream: Stream) -> None:
        readers = self._readers.get(tensor.name, 0)
        if readers <= 1:
            self._waiting[tensor.name] = [stream]
            return
        copies = tuple(replace(stream, name=self._scope.stream(f"{stream.name}_{index}")) for index in range(readers))
        name = self._scope.stage(f"fork_{tensor.name}")
        self.add(fork_stage(name, tensor.name, stream, copies))
        self._waiting[tensor.name] = list(copies)

    def take(self, tensor: Tensor) -> Stream:
        return self._waiting[tensor.name].pop(0)

    def with_lanes(self, stream: Stream, lanes: int, layer: str) -> Stream:
        """The stream in beats of `lanes` elements; by way of the greatest common divisor where neither divides the other, or of
        the least common multiple where so few lanes would not keep up."""
        if stream.lanes == lanes:
            return stream
        few, many, size = gcd(stream.lanes, lanes), lcm(stream.lanes, lanes), stream.beats * stream.lanes
        if few not in (stream.lanes, lanes):
            slow = size // few > self.interval and size % many == 0
            stream = self.with_lanes(stream, many if slow else few, layer)
        name = self._scope.stream(f"{stream.name}_l{lanes}")
        converted = Stream(name, stream.precision, lanes, stream.beats * stream.lanes // lanes)
        self.add(lanes_stage(self._scope.stage(f"lanes_{name}"), layer, stream, converted))
        return converted

    def fewest_lanes(self, channels: int, elements_a_row: int, beats_an_element: int = 1) -> int:
        """The fewest lanes, a divisor of channels, that move a row within the interval."""
        fitting = [d for d in divisors(channels) if elements_a_row // d * beats_an_element <= self.interval]
        return fitting[0] if fitting else channels

    def take_elements(self, tensor: Tensor, period: int) -> Stream:
        """The tensor at the fewest lanes that keep up and go with the producer's; period: what lanes have to divide."""
        stream = self.take(tensor)
        fewest = self.fewest_lanes(period, tensor.size)
        fewest = next((d for d in divisors(period) if d >= fewest and gcd(d, stream.lanes) in (d, stream.lanes)), fewest)
        # the producer's own lanes save a conversion where they are not far more
        own = period % stream.lanes == 0 and fewest <= stream.lanes <= 2 * fewest
        return stream if own else self.with_lanes(stream, fewest, tensor.name)

    # ------------------------------------------------------------------ for the layers' own plans
    def stage_name(self, name: str) -> str:
        return self._scope.stage(name)

    def stream_name(self, name: str) -> str:
        return self._scope.stream(name)

    def result(self, layer: Layer, lanes: int) -> Stream:
        tensor = layer.y
        return Stream(self._scope.stream(f"s_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)

    def buffered(self, stream: Stream, layer: str, side: str) -> Stream:
        """Behind a FIFO of two beats, to which fifos.py gives the depth it needs."""
        kept = replace(stream, name=self._scope.stream(f"{stream.name}_{layer}_{side}"))
        self.add(fifo_stage(self._scope.stage(f"{layer}_fifo_{side}"), layer, stream, kept, 2))
        return kept

    def add(self, stage: Stage) -> None:
        self._stages.append(check_stage(stage))

    def finish(self, layer: Layer, stage: Stage) -> None:
        self.add(stage)
        self.offer(layer.y, stage.outputs[0])


def _bits(tensor: Tensor) -> int:
    return tensor.size * tensor.precision.width


# ---------------------------------------------------------------- reuse factors
def interval(network: RfNetwork) -> int:
    """Clocks a row takes in the layer that takes longest."""
    return max((_layer_clocks(layer) for layer in network.layers), default=1)


def _layer_clocks(layer: Layer) -> int:
    if not isinstance(layer, Products):
        return 1
    shared = sharing(layer)
    return shared.vectors(layer) * shared.taken(layer)


def notes(network: RfNetwork) -> tuple[str, ...]:
    """Settings that the user asked for and did not get."""
    return tuple(text for layer in network.layers if (text := _note(layer)))


def _note(layer: Layer) -> str:
    if not isinstance(layer, Products) or (taken := sharing(layer).taken(layer)) == layer.requested:
        return ""
    return (
        f"layer {layer.name!r}: ReuseFactor is {layer.requested}, hls4ml takes {layer.reuse_factor}, the core {taken}, the "
        "nearest that it can do"
    )
