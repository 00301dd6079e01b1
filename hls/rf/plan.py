# SPDX-License-Identifier: Apache-2.0
"""Plans a Pipeline for a Network: the number of multipliers, the lanes of each stream, and the FIFOs.

A reuse factor is defined as in hls4ml: the multiplications of one vector (one window) that share a multiplier. The file of a
layer's stage (hls/rf/stages/) says which ones the layer supports. The slowest layer sets the interval of rows; stages without
multipliers get the fewest lanes that keep up with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, gcd, lcm

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.network.base import Layer, Multiplying, Network, Tensor
from hypersonic.hls.rf.crossings import crossed
from hypersonic.hls.rf.fifos import with_fifos
from hypersonic.hls.rf.needs import divisors
from hypersonic.hls.rf.registry import check_stage, layer_plan, sharing
from hypersonic.hls.rf.stage import Pipeline, Stage, Stream
from hypersonic.hls.rf.top.scope import Scope
from hypersonic.hls.rf.wires.fifo import fifo_stage
from hypersonic.hls.rf.wires.fork import fork_stage
from hypersonic.hls.rf.wires.lanes import lanes_stage

#: rows of up to this many bits pass the ports as one beat
WHOLE_ROW_BITS = 8192


def plan(network: Network, whole_row_bits: int = WHOLE_ROW_BITS, cuts: Sequence[str] = ()) -> Pipeline:
    """Return the pipeline for a network, with FIFOs that are deep enough. Raises UnsupportedLayerError.

    Args:
        cuts: of a core over several dies, as in DiePlan.
    """
    return with_fifos(build(network, whole_row_bits, cuts=cuts))


def build(
    network: Network, whole_row_bits: int, weight_widths: Mapping[str, int] | None = None, cuts: Sequence[str] = ()
) -> Pipeline:
    """Return the pipeline with FIFOs of two beats in front of joins.

    Args:
        weight_widths: given for a sketch (fit/sketch.py).
        cuts: of a core over several dies, as in DiePlan.
    """
    builder = Builder(network, whole_row_bits, weight_widths)
    for layer in network.layers:
        layer_plan(layer).plan(builder, layer)
    return crossed(builder.pipeline(), cuts, builder.scope)


class Builder:
    """A pipeline under construction: the stages so far and, for each tensor, the streams that are not read yet.

    The layers' plans see it as a Planner (rf/stage_type.py), which documents the methods that they call.
    """

    def __init__(self, network: Network, whole_row_bits: int, weight_widths: Mapping[str, int] | None) -> None:
        self.weight_widths = weight_widths
        self._network = network
        self.scope = Scope(len(network.layers))
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
        """Return the pipeline of all stages. Raises UnsupportedLayerError for several outputs that do not fit one beat."""
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
        stream = Stream(self.scope.stream(f"x_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)
        several = not whole and len(self._network.inputs) > 1
        self.offer(tensor, self._kept(tensor, stream) if several else stream)
        return stream

    def _kept(self, tensor: Tensor, stream: Stream) -> Stream:
        """Put a FIFO behind an input, so that the inputs after it at the port do not wait for its slow reader.

        The FIFO holds a row. For the last input it holds the part of a row that is unread when the next row's others arrive.
        """
        beats = stream.beats
        if tensor is self._network.inputs[-1]:
            beats = ceil(beats * sum(other.beats for other in self._inputs) / self.interval)
        kept = replace(stream, name=self.scope.stream(f"{stream.name}_kept"))
        name, depth = self.scope.stage(f"{tensor.name}_entrance"), 1 << max(1, beats.bit_length())
        self.add(fifo_stage(name, tensor.name, stream, kept, depth))
        return kept

    def _leave(self, tensor: Tensor, *, whole: bool) -> Stream:
        stream = self.take(tensor)
        return self.with_lanes(stream, tensor.size if whole else stream.lanes, tensor.name)

    # ------------------------------------------------------------------ streams
    def offer(self, tensor: Tensor, stream: Stream) -> None:
        """Make `stream` available to all readers of the tensor, through a fork if there are several."""
        readers = self._readers.get(tensor.name, 0)
        if readers <= 1:
            self._waiting[tensor.name] = [stream]
            return
        copies = tuple(replace(stream, name=self.scope.stream(f"{stream.name}_{index}")) for index in range(readers))
        name = self.scope.stage(f"fork_{tensor.name}")
        self.add(fork_stage(name, tensor.name, stream, copies))
        self._waiting[tensor.name] = list(copies)

    def take(self, tensor: Tensor) -> Stream:
        """Return a stream of the tensor for one reader; every reader takes its own."""
        return self._waiting[tensor.name].pop(0)

    def with_lanes(self, stream: Stream, lanes: int, layer: str) -> Stream:
        """Return the stream in beats of `lanes` elements.

        If neither number of lanes divides the other, it is converted to their greatest common divisor first, or to their least
        common multiple if so few lanes would not keep up.
        """
        if stream.lanes == lanes:
            return stream
        few, many, size = gcd(stream.lanes, lanes), lcm(stream.lanes, lanes), stream.beats * stream.lanes
        if few not in (stream.lanes, lanes):
            slow = size // few > self.interval and size % many == 0
            stream = self.with_lanes(stream, many if slow else few, layer)
        name = self.scope.stream(f"{stream.name}_l{lanes}")
        converted = Stream(name, stream.precision, lanes, stream.beats * stream.lanes // lanes)
        self.add(lanes_stage(self.scope.stage(f"lanes_{name}"), layer, stream, converted))
        return converted

    def fewest_lanes(self, channels: int, elements_a_row: int, beats_an_element: int = 1) -> int:
        """Return the smallest divisor of `channels` that is enough lanes to move a row within the interval."""
        fitting = [d for d in divisors(channels) if elements_a_row // d * beats_an_element <= self.interval]
        return fitting[0] if fitting else channels

    def take_elements(self, tensor: Tensor, period: int) -> Stream:
        """Return a stream of the tensor with the fewest lanes that keep up and convert easily.

        Args:
            period: a multiple of the lanes.
        """
        stream = self.take(tensor)
        fewest = self.fewest_lanes(period, tensor.size)
        fewest = next((d for d in divisors(period) if d >= fewest and gcd(d, stream.lanes) in (d, stream.lanes)), fewest)
        # the producer's own lanes save a conversion if they are at most twice as many
        own = period % stream.lanes == 0 and fewest <= stream.lanes <= 2 * fewest
        return stream if own else self.with_lanes(stream, fewest, tensor.name)

    # ------------------------------------------------------------------ for the layers' own plans
    def stage_name(self, name: str) -> str:
        """Return an identifier for a stage, unique in the core."""
        return self.scope.stage(name)

    def stream_name(self, name: str) -> str:
        """Return an identifier for a stream, unique in the core."""
        return self.scope.stream(name)

    def result(self, layer: Layer, lanes: int) -> Stream:
        """Return a new stream for the layer's result, with `lanes` elements per beat."""
        tensor = layer.y
        return Stream(self.scope.stream(f"s_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)

    def buffered(self, stream: Stream, layer: str, side: str) -> Stream:
        """Return the stream behind a new FIFO of two beats; fifos.py sets the depth that it needs."""
        kept = replace(stream, name=self.scope.stream(f"{stream.name}_{layer}_{side}"))
        self.add(fifo_stage(self.scope.stage(f"{layer}_fifo_{side}"), layer, stream, kept, 2))
        return kept

    def add(self, stage: Stage) -> None:
        """Append a stage. Raises UnsupportedLayerError if a number in it is too wide."""
        self._stages.append(check_stage(stage))

    def finish(self, layer: Layer, stage: Stage) -> None:
        """Append a layer's last stage and offer its output as the layer's result. Raises UnsupportedLayerError as add does."""
        self.add(stage)
        self.offer(layer.y, stage.outputs[0])


def _bits(tensor: Tensor) -> int:
    return tensor.size * tensor.precision.width


# ---------------------------------------------------------------- reuse factors
def interval(network: Network) -> int:
    """Return the clocks per row of the slowest layer."""
    return max((_layer_clocks(layer) for layer in network.layers), default=1)


def _layer_clocks(layer: Layer) -> int:
    if not isinstance(layer, Multiplying):
        return 1
    shared = sharing(layer)
    return shared.vectors(layer) * shared.taken(layer)


def notes(network: Network) -> tuple[str, ...]:
    """Return a sentence for each reuse factor that differs from the one the user asked for."""
    return tuple(text for layer in network.layers if (text := _note(layer)))


def _note(layer: Layer) -> str:
    if not isinstance(layer, Multiplying) or (taken := sharing(layer).taken(layer)) == layer.requested:
        return ""
    return (
        f"layer {layer.name!r}: ReuseFactor is {layer.requested}, hls4ml takes {layer.reuse_factor}, the core {taken}, the "
        "nearest that it can do"
    )
