# SPDX-License-Identifier: Apache-2.0
"""RfNetwork -> Pipeline: how many multipliers, how many elements side by side, which FIFOs.

The layer that takes longest sets the interval of rows (rf/fit/shapes.py); everything without multipliers gets as few lanes as
keep up with it.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, gcd, lcm

import numpy as np

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import Constants
from hypersonic.hls.rf.fifos import with_fifos
from hypersonic.hls.rf.fit.shapes import dense_shape, depthwise_lanes, divisors, interval, notes
from hypersonic.hls.rf.layers import (
    Concatenate,
    Dense,
    Depthwise,
    Embedding,
    GlobalPool,
    Layer,
    Map,
    MapFunction,
    Merge,
    Pool,
    PoolOperation,
    Reshape,
    RfNetwork,
    Softmax,
    Table,
    Tensor,
    Upsample,
    Window,
    ZeroPad,
    layer_inputs,
)
from hypersonic.hls.rf.parts import windows
from hypersonic.hls.rf.parts.limits import check_stage
from hypersonic.hls.rf.stage import Pipeline, Stage, Stream
from hypersonic.hls.rf.stages import dense as products
from hypersonic.hls.rf.stages import map as elements
from hypersonic.hls.rf.top.scope import Scope

#: rows up to so many bits come and go as one beat
WHOLE_ROW_BITS = 8192


def plan(network: RfNetwork, whole_row_bits: int = WHOLE_ROW_BITS) -> Pipeline:
    """The stages, each stream made before it is read, FIFOs deep enough. Raises UnsupportedLayerError."""
    builder = Builder(network, whole_row_bits)
    for layer in network.layers:
        builder.add(layer)
    return with_fifos(builder.pipeline())


class Builder:
    """Stages so far, and for each tensor the streams that have not been read yet. fit/sketch.py leaves their contents out."""

    def __init__(self, network: RfNetwork, whole_row_bits: int) -> None:
        self._network = network
        self._scope = Scope(len(network.layers))
        self._stages: list[Stage] = []
        self._waiting: dict[str, list[Stream]] = {}
        self._readers: dict[str, int] = {}
        for name in [t.name for layer in network.layers for t in layer_inputs(layer)] + [t.name for t in network.outputs]:
            self._readers[name] = self._readers.get(name, 0) + 1
        self._interval = interval(network)
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
        lanes = tensor.size if whole else self._lanes(tensor.channels, tensor.size, len(self._network.inputs))
        stream = Stream(self._scope.stream(f"x_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)
        several = not whole and len(self._network.inputs) > 1
        self._offer(tensor, self._kept(tensor, stream) if several else stream)
        return stream

    def _kept(self, tensor: Tensor, stream: Stream) -> Stream:
        """A FIFO, so that the tensors behind this one at the port do not wait for its slow reader.

        It holds a row; of the last tensor what its reader leaves while the next row's others come.
        """
        beats = stream.beats
        if tensor is self._network.inputs[-1]:
            beats = ceil(beats * sum(other.beats for other in self._inputs) / self._interval)
        kept = replace(stream, name=self._scope.stream(f"{stream.name}_kept"))
        name, depth = self._scope.stage(f"{tensor.name}_entrance"), 1 << max(1, beats.bit_length())
        self._stages.append(check_stage(elements.fifo_stage(name, tensor.name, stream, kept, depth)))
        return kept

    def _leave(self, tensor: Tensor, *, whole: bool) -> Stream:
        stream = self._take(tensor)
        return self._with_lanes(stream, tensor.size if whole else stream.lanes, tensor.name)

    # ------------------------------------------------------------------ streams
    def _offer(self, tensor: Tensor, stream: Stream) -> None:
        readers = self._readers.get(tensor.name, 0)
        if readers <= 1:
            self._waiting[tensor.name] = [stream]
            return
        copies = tuple(replace(stream, name=self._scope.stream(f"{stream.name}_{index}")) for index in range(readers))
        name = self._scope.stage(f"fork_{tensor.name}")
        self._stages.append(check_stage(elements.fork_stage(name, tensor.name, stream, copies)))
        self._waiting[tensor.name] = list(copies)

    def _take(self, tensor: Tensor) -> Stream:
        return self._waiting[tensor.name].pop(0)

    def _with_lanes(self, stream: Stream, lanes: int, layer: str) -> Stream:
        """The stream in beats of `lanes` elements; by way of the greatest common divisor where neither divides the other, or of
        the least common multiple where so few lanes would not keep up."""
        if stream.lanes == lanes:
            return stream
        few, many, size = gcd(stream.lanes, lanes), lcm(stream.lanes, lanes), stream.beats * stream.lanes
        if few not in (stream.lanes, lanes):
            slow = size // few > self._interval and size % many == 0
            stream = self._with_lanes(stream, many if slow else few, layer)
        name = self._scope.stream(f"{stream.name}_l{lanes}")
        made = Stream(name, stream.precision, lanes, stream.beats * stream.lanes // lanes)
        self._stages.append(check_stage(elements.lanes_stage(self._scope.stage(f"lanes_{name}"), layer, stream, made)))
        return made

    def _lanes(self, channels: int, elements_a_row: int, beats_an_element: int) -> int:
        """The fewest lanes, a divisor of channels, that move a row within the interval."""
        fitting = [d for d in divisors(channels) if elements_a_row // d * beats_an_element <= self._interval]
        return fitting[0] if fitting else channels

    def _take_elements(self, tensor: Tensor, period: int) -> Stream:
        """The tensor at the fewest lanes that keep up and go with the producer's; period: what lanes have to divide."""
        stream = self._take(tensor)
        fewest = self._lanes(period, tensor.size, 1)
        fewest = next((d for d in divisors(period) if d >= fewest and gcd(d, stream.lanes) in (d, stream.lanes)), fewest)
        # the producer's own lanes save a conversion where they are not far more
        own = period % stream.lanes == 0 and fewest <= stream.lanes <= 2 * fewest
        return stream if own else self._with_lanes(stream, fewest, tensor.name)

    def _made(self, layer: Layer, lanes: int) -> Stream:
        tensor = layer.y
        return Stream(self._scope.stream(f"s_{tensor.name}"), tensor.precision, lanes, tensor.size // lanes)

    def _append(self, layer: Layer, stage: Stage) -> None:
        self._stages.append(check_stage(stage))
        self._offer(layer.y, stage.outputs[0])

    # ------------------------------------------------------------------ layers
    def add(self, layer: Layer) -> None:
        if isinstance(layer, Reshape):
            self._offer(layer.y, self._take(layer.x))
        elif isinstance(layer, Dense):
            self._dense(layer)
        elif isinstance(layer, Depthwise):
            lanes = depthwise_lanes(layer)
            seen = self._window(layer, layer.x, layer.window, lanes, 0)
            self._append(layer, products.depthwise_stage(self._scope.stage(layer.name), layer, seen, self._made(layer, lanes)))
        elif isinstance(layer, Pool):
            self._pool(layer)
        elif isinstance(layer, Merge | Concatenate):
            self._join(layer)
        else:
            self._simple(layer)

    def _dense(self, layer: Dense) -> None:
        shape = dense_shape(layer)
        if layer.window is None:
            x = self._with_lanes(self._take(layer.x), shape.p, layer.name)
        else:
            x = self._window(layer, layer.x, layer.window, shape.p // layer.window.kernel[0], 0)
        self._append(layer, self._mac(layer, x, self._made(layer, shape.q)))

    def _mac(self, layer: Dense, x: Stream, y: Stream) -> Stage:
        order = np.arange(layer.n_in)
        if layer.window is not None:
            order = windows.window_order(layer.x, layer.window, x.lanes // layer.window.kernel[0])
        return products.mac_stage(self._scope.stage(layer.name), layer, x, y, order)

    def _window(self, layer: Layer, tensor: Tensor, seen: Window, lanes: int, pad_value: int) -> Stream:
        x = self._with_lanes(self._take(tensor), lanes, layer.name)
        height, width = windows.window_shape(tensor, seen)
        beats = height * width * (tensor.channels // lanes) * seen.kernel[1]
        name = self._scope.stream(f"s_{layer.y.name}_window")
        y = Stream(name, tensor.precision, lanes * seen.kernel[0], beats)
        name, kept = self._scope.stage(f"{layer.name}_window"), self._lines(tensor, seen, lanes)
        self._stages.append(check_stage(windows.window_stage(name, layer.name, x, tensor, seen, pad_value, y, kept)))
        return y

    def _lines(self, tensor: Tensor, seen: Window, lanes: int) -> tuple[int, int]:
        """Lines of memory, and the clocks from row to row with them."""
        return windows.fewest_lines(tensor, seen, lanes, self._interval)

    def _pool(self, layer: Pool) -> None:
        seen, kind = layer.window, layer.x.precision
        beats = layer.y.size * seen.kernel[1]
        lanes = self._lanes(layer.x.channels, max(beats, layer.x.size), 1)
        pad_value = 1 << (kind.width - 1) if layer.operation is PoolOperation.MAX else 0
        x = self._window(layer, layer.x, seen, lanes, pad_value)
        self._append(layer, elements.pool_stage(self._scope.stage(layer.name), layer, x, self._made(layer, lanes)))

    def _join(self, layer: Merge | Concatenate) -> None:
        common = layer.y.channels
        if isinstance(layer, Concatenate):
            common = gcd(layer.a.channels, layer.b.channels)
        lanes = self._lanes(common, layer.y.size, 1)
        sides = []
        for side, tensor in (("a", layer.a), ("b", layer.b)):
            stream = self._take(tensor)
            if isinstance(layer, Concatenate) and tensor.precision != layer.y.precision:
                stream = self._cast(layer, tensor, stream, side)
            stream = self._with_lanes(stream, lanes, layer.name)
            kept = replace(stream, name=self._scope.stream(f"{stream.name}_{layer.name}_{side}"))
            name = self._scope.stage(f"{layer.name}_fifo_{side}")
            self._stages.append(check_stage(elements.fifo_stage(name, layer.name, stream, kept, 2)))
            sides.append(kept)
        (a, b), name = sides, self._scope.stage(layer.name)
        if isinstance(layer, Concatenate):
            self._append(layer, elements.concat_stage(name, layer, a, b, self._made(layer, lanes)))
        else:
            self._append(layer, elements.merge_stage(name, layer, a, b, self._made(layer, lanes)))

    def _cast(self, layer: Layer, tensor: Tensor, stream: Stream, side: str) -> Stream:
        none = Constants(np.zeros(0, dtype=np.int64), 0)
        cast = Tensor(f"{tensor.name}_cast", tensor.shape, layer.y.precision)
        name = self._scope.stage(f"{layer.name}_cast_{side}")
        y = replace(stream, name=self._scope.stream(f"{stream.name}_{name}"), precision=layer.y.precision)
        work = Map(layer.name, tensor, cast, MapFunction.LINEAR, none, none)
        self._stages.append(check_stage(elements.map_stage(name, work, stream, y)))
        return y

    def _simple(self, layer: Layer) -> None:
        name = self._scope.stage(layer.name)
        match layer:
            case Map():
                x = self._take_elements(layer.x, _period(layer))
                stage = elements.map_stage(name, layer, x, self._made(layer, x.lanes))
            case Table():
                x = self._take_elements(layer.x, layer.x.size)
                stage = elements.table_stage(name, layer, x, self._made(layer, x.lanes))
            case GlobalPool():
                x = self._take_elements(layer.x, layer.x.channels)
                stage = elements.global_pool_stage(name, layer, x, self._made(layer, x.lanes))
            case Upsample():
                x = self._with_lanes(self._take(layer.x), self._lanes(layer.x.channels, layer.y.size, 1), layer.name)
                stage = elements.upsample_stage(name, layer, x, self._made(layer, x.lanes))
            case ZeroPad():
                x = self._with_lanes(self._take(layer.x), self._lanes(layer.x.channels, layer.y.size, 1), layer.name)
                stage = elements.pad_stage(name, layer, x, self._made(layer, x.lanes))
            case Embedding():
                x = self._with_lanes(self._take(layer.x), 1, layer.name)
                lanes = self._lanes(layer.y.channels, layer.y.size, 1)
                stage = elements.embed_stage(name, layer, x, self._made(layer, lanes))
            case Softmax():
                x = self._take_elements(layer.x, layer.x.channels)
                stage = elements.softmax_stage(name, layer, x, self._made(layer, x.lanes))
            case _:
                raise TypeError(f"layer {layer.name!r}: {type(layer).__name__} has no stage")
        self._append(layer, stage)


def _bits(tensor: Tensor) -> int:
    return tensor.size * tensor.precision.width


def _period(layer: Map) -> int:
    """What the lanes of a map have to divide: the elements after which its constants come again."""
    sizes = [values.raw.size for values in (layer.scale, layer.bias) if values.raw.size > 1]
    return max(sizes, default=layer.x.size)
