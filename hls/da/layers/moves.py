# SPDX-License-Identifier: Apache-2.0
"""Layers that only move numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from hypersonic.hls.da.graph import AdderGraph
from hypersonic.hls.da.numbers import Number, Numbers, zero
from hypersonic.hls.da.places import taken
from hypersonic.hls.network.layers.concatenate import Concatenate
from hypersonic.hls.network.layers.permute import Permute
from hypersonic.hls.network.layers.reshape import Reshape
from hypersonic.hls.network.layers.upsample import Upsample
from hypersonic.hls.network.layers.zero_pad import ZeroPad


def _concatenate(graph: AdderGraph, layer: Concatenate, a: Numbers, b: Numbers) -> Iterable[Number]:
    del graph
    runs = [prod(tensor.shape[layer.axis :]) for tensor in layer.inputs]
    turns = zip(*(_runs(numbers, run) for numbers, run in zip((a, b), runs, strict=True)), strict=True)
    return [y for left, right in turns for y in (*left, *right)]


def _runs(numbers: Numbers, length: int) -> Iterable[Numbers]:
    return (numbers[at : at + length] for at in range(0, len(numbers), length))


def _reshape(_graph: AdderGraph, _layer: Reshape, x: Numbers) -> Iterable[Number]:
    return x


def _permute(graph: AdderGraph, layer: Permute, x: Numbers) -> Iterable[Number]:
    del graph
    return [x[place] for place in layer.places.tolist()]


def _upsample(graph: AdderGraph, layer: Upsample, x: Numbers) -> Sequence[Number]:
    image = np.arange(prod(layer.x.image)).reshape(layer.x.image)
    return taken(x, image.repeat(layer.factor[0], axis=0).repeat(layer.factor[1], axis=1), zero(graph))


def _zeropad(graph: AdderGraph, layer: ZeroPad, x: Numbers) -> Sequence[Number]:
    top, bottom, left, right = layer.pad
    image = np.arange(prod(layer.x.image)).reshape(layer.x.image)
    return taken(x, np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=-1), zero(graph))


UNROLL = {Concatenate: _concatenate, Reshape: _reshape, Permute: _permute, Upsample: _upsample, ZeroPad: _zeropad}
