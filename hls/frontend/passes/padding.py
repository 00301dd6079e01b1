# SPDX-License-Identifier: Apache-2.0
"""The padding of convolutions in io_stream, which becomes a layer of its own in front of them.

hls4ml 1.3.0 puts that layer in front of the first layer that reads any copy of the stream. Where a stream is copied and the
convolution reads another copy, the padding goes to the wrong layer, and both read wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hls4ml.backends.vivado.passes.conv_same_pad import InsertZeroPaddingBeforeConv1D, InsertZeroPaddingBeforeConv2D
from hls4ml.model.optimizer import register_pass

#: hls4ml's passes, and the names of those that replace them
PADDINGS = {
    "vivado:insert_zero_padding_before_conv1d": "hypersonic:padded_conv1d",
    "vivado:insert_zero_padding_before_conv2d": "hypersonic:padded_conv2d",
}


def _inserted(insert: Callable[[Any, Any], bool], model: Any, node: Any) -> bool:
    """Let hls4ml insert the padding, and give it to this layer and no other. Return whether the graph has changed."""
    read = {each.name: list(each.inputs) for each in model.get_layers()}
    if not insert(model, node):
        return False
    (padding,) = (each for each in model.get_layers() if each.name not in read)
    for each in model.get_layers():
        each.inputs = read.get(each.name, each.inputs)
    node.inputs = list(padding.outputs)
    return True


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class PaddedConvolution1D(InsertZeroPaddingBeforeConv1D):  # type: ignore[misc]
    """Inserts the padding of a Conv1D."""

    def transform(self, model: Any, node: Any) -> bool:
        """Insert it in place; return whether the graph has changed."""
        return _inserted(super().transform, model, node)


class PaddedConvolution2D(InsertZeroPaddingBeforeConv2D):  # type: ignore[misc]
    """Inserts the padding of a Conv2D."""

    def transform(self, model: Any, node: Any) -> bool:
        """Insert it in place; return whether the graph has changed."""
        return _inserted(super().transform, model, node)


def register_paddings() -> None:
    """Register both passes."""
    for name, made in zip(PADDINGS.values(), (PaddedConvolution1D, PaddedConvolution2D), strict=True):
        register_pass(name.partition(":")[2], made, backend="Hypersonic")
