# SPDX-License-Identifier: Apache-2.0
"""hls4ml's TimeDistributed: the layers inside it, whose stages take the steps of a row as images, one after the other.

In hls4ml's graph a TimeDistributed is two layers, NAME and NAME_end. The C++ computes what is between them in a loop over the
steps (nnet_time_distributed.h). The tensors between them have the shape of one step there, and `(steps, *image)` here.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from hypersonic.hls.model_graph import is_end
from hypersonic.hls.network.attributes import refuse, shape_text
from hypersonic.hls.network.base import Layer, Tensor
from hypersonic.hls.network.registry import layer_of


def over_steps(tensor: Tensor, steps: int) -> Tensor:
    """Return a step's tensor as all steps, `(steps, *image)`; with 0 steps, the tensor itself."""
    return replace(tensor, shape=(steps, *tensor.image)) if steps else tensor


def check_passed(layer: Any, x: Tensor, y: Tensor) -> None:
    """Raise UnsupportedLayerError for a TimeDistributed of hls4ml's graph that casts, or has another number of elements."""
    if x.precision != y.precision:
        raise refuse(
            layer,
            f"it reads {x.precision} and its own result is {y.precision}, with which hls4ml's C++ does not compile; give both "
            "the same type",
        )
    steps, sizes = int(layer.get_attr("n_time_steps")), [prod(map(int, layer.get_input_variable().shape)), y.size]
    step, all_steps = sizes if is_end(layer) else sizes[::-1]
    if steps * step != all_steps:
        raise refuse(layer, f"hls4ml gives it the shape {shape_text(y.shape)}, which is not that of {steps} steps")


def check_inside(layer: Any, read: tuple[Layer, ...]) -> None:
    """Raise UnsupportedLayerError if a layer inside a TimeDistributed cannot be computed step by step."""
    if not all(layer_of(one).by_image for one in read):
        raise refuse(
            layer, "it is inside a TimeDistributed, where the cores compute products, pooling, activations and Reshape"
        )
