# SPDX-License-Identifier: Apache-2.0
"""The flow with these passes in place of hls4ml's own, and the passes that only check or choose settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from hls4ml.model.flow import get_available_flows, get_backend_flows, get_flow, register_flow
from hls4ml.model.optimizer import OptimizerPass, register_pass

from hypersonic.hls.frontend import reuse
from hypersonic.hls.frontend.passes.bits import BinaryThresholds, QuantizedTanhScales, SignedBits
from hypersonic.hls.frontend.passes.gated import ALIASES
from hypersonic.hls.frontend.passes.normalizations import FoldConsecutiveNormalizations, FoldNormalization, SharedNormalization
from hypersonic.hls.frontend.passes.padding import PADDINGS, register_paddings
from hypersonic.hls.frontend.passes.types import (
    FixedPowersOfTwo,
    InferTypes,
    NormalizationTypes,
    QuantisedRecurrence,
    SoftmaxTypes,
    StepTypes,
)
from hypersonic.hls.model_graph import check_arrays, check_merge, is_build, is_streamed

#: the name of the flow with these passes; config["Flows"] = [FLOW, a backend's own] applies it first
FLOW = "hypersonic:convert"


class MergedShapes(OptimizerPass):  # type: ignore[misc]
    """Refuses merges of two shapes, before hls4ml stops with an AssertionError for one in io_stream."""

    def match(self, node: Any) -> bool:
        """Return whether the layer is a merge of two tensors that keeps their shape."""
        return bool(node.class_name == "Merge")

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Raise UnsupportedLayerError if the shapes differ; else return False, since nothing changes."""
        check_merge(node)
        return False


class OneName(OptimizerPass):  # type: ignore[misc]
    """Gives an activation that has two names the one that its C++ has (gated.py)."""

    def match(self, node: Any) -> bool:
        """Return whether it is an activation with the other name."""
        return node.class_name == "Activation" and str(node.get_attr("activation")) in ALIASES

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Set the name in place; return False, since the graph's structure does not change."""
        node.set_attr("activation", ALIASES[str(node.get_attr("activation"))])
        return False


class EinsumStrategy(OptimizerPass):  # type: ignore[misc]
    """Gives an Einsum or an EinsumDense the Strategy Latency where the model's is Resource; refuses an Einsum in io_stream."""

    def match(self, node: Any) -> bool:
        """Return whether it is such a layer with another strategy, or an Einsum in io_stream."""
        wanted = str(node.model.config.get_strategy(node)).lower()
        streamed = node.class_name == "Einsum" and is_streamed(node)
        return node.class_name in ("Einsum", "EinsumDense") and (wanted.startswith("resource") or streamed)

    def transform(self, model: Any, node: Any) -> bool:
        """Set the strategy in place; return False, since the graph's structure does not change.

        Raises UnsupportedLayerError for an Einsum in io_stream, in which hls4ml's templates stop with an AssertionError.
        """
        if node.class_name == "Einsum":
            check_arrays(node)
        model.config.layer_name_strategy[node.name.lower()] = "latency"
        return False


class SoftmaxOfVectors(OptimizerPass):  # type: ignore[misc]
    """Makes a Softmax of a tensor in io_parallel one of each of its vectors, as in io_stream, not one of all numbers.

    It does so in a build, whose backend is Vitis. The backend Hypersonic computes what hls4ml's Vitis would, or refuses it.
    """

    def match(self, node: Any) -> bool:
        """Return whether it is a Softmax over the last of several axes whose other axes hls4ml does not know."""
        shape = node.get_input_variable().shape if node.class_name == "Softmax" else ()
        known = int(node.get_attr("n_outer", 1) or 1) * int(node.get_attr("n_inner", 1) or 1)
        last = int(node.get_attr("axis", -1)) in (-1, len(shape))
        return len(shape) > 1 and last and known == 1 and is_build(node.model) and not is_streamed(node)

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Set their number in place; return False, since the graph's structure does not change."""
        node.set_attr("n_outer", prod(int(size) for size in node.get_input_variable().shape[:-1]))
        return False


class PossibleSettings(OptimizerPass):  # type: ignore[misc]
    """Replaces reuse factors and strategies that a layer's C++ does not support by the nearest supported ones (reuse.py)."""

    def match(self, node: Any) -> bool:
        """Return whether the layer's settings differ from the nearest supported ones."""
        return any(node.get_attr(name) != wanted for name, wanted in reuse.possible_settings(node).items())

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Set them in place; return False, since the graph's structure does not change."""
        for name, wanted in reuse.possible_settings(node).items():
            node.set_attr(name, wanted)
        return False


def register_possible_settings() -> str:
    """Register the flow of PossibleSettings at the first call; return its name.

    It must run before the flows that lay out weights and generate code.
    """
    return _register_alone("hypersonic:possible_settings", PossibleSettings)


def register_normalization_types() -> str:
    """Register the flow of NormalizationTypes at the first call; return its name."""
    return _register_alone("hypersonic:normalization_types", NormalizationTypes)


def _register_alone(name: str, made: type) -> str:
    """Register a pass as a flow of its own at the first call; return the flow's name."""
    if name not in get_backend_flows("hypersonic"):
        register_pass(name, made)
        register_flow(name, [name])
    return name


@contextmanager
def last_passes() -> Iterator[None]:
    """Make hls4ml's backend Vitis apply PossibleSettings, SignedBits, NormalizationTypes and PADDINGS inside the context."""
    register()
    streaming = get_flow("vivado:streaming").optimizers
    stock = list(streaming)
    streaming[:] = [PADDINGS.get(name, name) for name in stock]
    flows = get_flow("vitis:ip").requires
    own = [
        register_possible_settings(),
        _register_alone("hypersonic:signed_bits", SignedBits),
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


def register() -> str:
    """Register FLOW, hls4ml's flow `convert` with these passes instead of its own, at the first call; return its name."""
    if FLOW not in get_available_flows():
        own = {
            "fuse_batch_normalization": register_pass("fold_normalization", FoldNormalization, backend="Hypersonic"),
            "fuse_consecutive_batch_normalization": register_pass(
                "fold_consecutive_normalizations", FoldConsecutiveNormalizations, backend="Hypersonic"
            ),
        }
        own["infer_precision_types"] = register_pass("infer_types", InferTypes, backend="Hypersonic")
        powers = register_pass("fixed_powers_of_two", FixedPowersOfTwo, backend="Hypersonic")
        steps = register_pass("quantized_tanh_scales", QuantizedTanhScales, backend="Hypersonic")
        shapes = register_pass("merged_shapes", MergedShapes, backend="Hypersonic")
        vectors = register_pass("softmax_of_vectors", SoftmaxOfVectors, backend="Hypersonic")
        softmax = register_pass("softmax_types", SoftmaxTypes, backend="Hypersonic")
        einsum = register_pass("einsum_strategy", EinsumStrategy, backend="Hypersonic")
        copies = register_pass("step_types", StepTypes, backend="Hypersonic")
        stock = get_flow("convert")
        optimizers = [own.get(name, name) for name in stock.optimizers]
        optimizers.insert(optimizers.index(own["infer_precision_types"]), copies)
        thresholds = register_pass("binary_thresholds", BinaryThresholds, backend="Hypersonic")
        recurrent = register_pass("quantised_recurrence", QuantisedRecurrence, backend="Hypersonic")
        shared = register_pass("shared_normalization", SharedNormalization, backend="Hypersonic")
        named = register_pass("one_name", OneName, backend="Hypersonic")
        passes = [named, shared, powers, recurrent, vectors, softmax, steps, shapes, einsum, *optimizers, thresholds]
        register_paddings()
        register_flow(FLOW, passes, requires=list(stock.requires))
    return FLOW
