# SPDX-License-Identifier: Apache-2.0
"""The flow with these passes in place of hls4ml's own, and the passes that only check or choose settings.

The padding of convolutions in io_stream becomes a layer of its own in front of them. hls4ml 1.3.0 puts that layer in front of
the first layer that reads any copy of the stream. Where a stream is copied and the convolution reads another copy, the padding
goes to the wrong layer, and both read wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from hls4ml.backends.vivado.passes.conv_same_pad import InsertZeroPaddingBeforeConv1D, InsertZeroPaddingBeforeConv2D
from hls4ml.model.flow import get_available_flows, get_backend_flows, get_flow, register_flow
from hls4ml.model.optimizer import OptimizerPass, register_pass

from hypersonic.hls.frontend import reuse
from hypersonic.hls.frontend.passes.bits import check_tanh_scales, move_thresholds, type_signed_bits
from hypersonic.hls.frontend.passes.gated import ALIASES
from hypersonic.hls.frontend.passes.normalizations import (
    FoldConsecutiveNormalizations,
    FoldNormalization,
    part_shared_normalization,
)
from hypersonic.hls.frontend.passes.types import (
    InferTypes,
    fix_powers_of_two,
    quantise_recurrence,
    type_normalization,
    type_softmax,
    untype_steps,
)
from hypersonic.hls.model_graph import check_arrays, check_merge, is_build, is_streamed

#: the name of the flow with these passes; config["Flows"] = [FLOW, a backend's own] applies it first
FLOW = "hypersonic:convert"

#: changes a layer in place, refuses it, or does nothing
Change = Callable[[Any], None]

#: hls4ml's passes, and the names of those that replace them
PADDINGS = {
    "vivado:insert_zero_padding_before_conv1d": "hypersonic:padded_conv1d",
    "vivado:insert_zero_padding_before_conv2d": "hypersonic:padded_conv2d",
}


def check_merged_shapes(node: Any) -> None:
    """Refuse merges of two shapes, before hls4ml stops with an AssertionError for one in io_stream."""
    if node.class_name == "Merge":
        check_merge(node)


def name_as_in_cpp(node: Any) -> None:
    """Give an activation that has two names the one that its C++ has (gated.py)."""
    if node.class_name == "Activation" and (name := ALIASES.get(str(node.get_attr("activation")))):
        node.set_attr("activation", name)


def unroll_einsum(node: Any) -> None:
    """Give an Einsum or an EinsumDense the Strategy Latency where the model's is Resource; refuse an Einsum in io_stream.

    hls4ml's templates stop with an AssertionError for the latter.
    """
    config = node.model.config
    if node.class_name == "Einsum" and is_streamed(node):
        check_arrays(node)
    if node.class_name in ("Einsum", "EinsumDense") and str(config.get_strategy(node)).lower().startswith("resource"):
        config.layer_name_strategy[node.name.lower()] = "latency"


def softmax_of_vectors(node: Any) -> None:
    """Make a Softmax of a tensor in io_parallel one of each of its vectors, as in io_stream, not one of all numbers.

    That is one over the last of several axes whose other axes hls4ml does not know, and in a build, whose backend is Vitis. The
    backend Hypersonic computes what hls4ml's Vitis would, or refuses it.
    """
    shape = node.get_input_variable().shape if node.class_name == "Softmax" else ()
    known = int(node.get_attr("n_outer", 1) or 1) * int(node.get_attr("n_inner", 1) or 1)
    last = int(node.get_attr("axis", -1)) in (-1, len(shape))
    if len(shape) > 1 and last and known == 1 and is_build(node.model) and not is_streamed(node):
        node.set_attr("n_outer", prod(int(size) for size in shape[:-1]))


def take_possible_settings(node: Any) -> None:
    """Replace reuse factors and strategies that a layer's C++ does not support by the nearest supported ones (reuse.py)."""
    for name, wanted in reuse.possible_settings(node).items():
        if node.get_attr(name) != wanted:
            node.set_attr(name, wanted)


def register_possible_settings() -> str:
    """Register the flow of take_possible_settings at the first call; return its name.

    It must run before the flows that lay out weights and generate code.
    """
    return _register_alone("hypersonic:possible_settings", take_possible_settings)


def register_normalization_types() -> str:
    """Register the flow of type_normalization at the first call; return its name."""
    return _register_alone("hypersonic:normalization_types", type_normalization)


def _register_alone(name: str, change: Change) -> str:
    """Register a pass as a flow of its own at the first call; return the flow's name."""
    if name not in get_backend_flows("hypersonic"):
        register_pass(name, InPlace(change))
        register_flow(name, [name])
    return name


@contextmanager
def last_passes() -> Iterator[None]:
    """Make hls4ml's backend Vitis apply the settings' and types' passes and PADDINGS inside the context."""
    register()
    streaming = get_flow("vivado:streaming").optimizers
    stock = list(streaming)
    streaming[:] = [PADDINGS.get(name, name) for name in stock]
    flows = get_flow("vitis:ip").requires
    own = [
        register_possible_settings(),
        _register_alone("hypersonic:signed_bits", type_signed_bits),
        register_normalization_types(),
    ]
    at = flows.index("vivado:specific_types")
    flows[at:at] = own
    try:
        yield
    finally:
        streaming[:] = stock
        for flow in own:
            flows.remove(flow)


#: the passes before hls4ml's own
_FIRST: tuple[Change, ...] = (
    name_as_in_cpp, part_shared_normalization, fix_powers_of_two, quantise_recurrence, softmax_of_vectors, type_softmax,
    check_tanh_scales, check_merged_shapes, unroll_einsum,
)  # fmt: skip

#: hls4ml's passes, and those that replace them
_INSTEAD: dict[str, Any] = {
    "fuse_batch_normalization": FoldNormalization,
    "fuse_consecutive_batch_normalization": FoldConsecutiveNormalizations,
    "infer_precision_types": InferTypes,
}


def register() -> str:
    """Register FLOW, hls4ml's flow `convert` with these passes instead of its own, at the first call; return its name."""
    if FLOW not in get_available_flows():
        stock = get_flow("convert")
        first = [_changing(each) for each in _FIRST]
        own = {name: _registered(made.get_name(), made) for name, made in _INSTEAD.items()}
        optimizers = [own.get(name, name) for name in stock.optimizers]
        at = optimizers.index(own["infer_precision_types"])
        register_paddings()
        passes = [*first, *optimizers[:at], _changing(untype_steps), *optimizers[at:], _changing(move_thresholds)]
        register_flow(FLOW, passes, requires=list(stock.requires))
    return FLOW


def _changing(change: Change) -> str:
    return _registered(change.__name__, InPlace(change))


def _registered(name: str, made: Any) -> str:
    return str(register_pass(name, made, backend="Hypersonic"))


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class InPlace(OptimizerPass):  # type: ignore[misc]
    """Calls `change` with each layer, once or several times; it changes the layer in place, refuses it, or does nothing."""

    def __init__(self, change: Callable[[Any], None]) -> None:
        self.change = change

    def match(self, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Return True."""
        return True

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Call `change`; return False, since the graph's structure does not change."""
        self.change(node)
        return False


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
