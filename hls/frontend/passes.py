# SPDX-License-Identifier: Apache-2.0
"""Replacements for optimiser passes of hls4ml 1.3.0 that give wrong results.

Fusing normalisations: hls4ml multiplies the weights of a layer by the scales along their last axis. A depthwise convolution has
its channels on the axis before that, and a scale that comes from a constant has a number for each element of the tensor, not
for each channel.

Weights that are powers of two: hls4ml writes each as a sign and an exponent, with a function that numpy 2 no longer has. It
takes the width of the exponent for the width of the number, its C++ drops the bits of products that are shifted far to the
right, and it does not support such biases.

Merges of two shapes: hls4ml's C++ leaves elements out, and in io_stream its templates stop with an AssertionError.

Binary and ternary activations: hls4ml merges one with the normalisation before it, as if all scales were positive and nothing
else read it, and rounds a binary one's threshold in the wrong direction.

Dot: hls4ml's inference of types stops with an AssertionError where an accumulator has none.

Einsum and EinsumDense: hls4ml has C++ for Strategy Latency alone, and stops with a TypeError for Strategy Resource.

Global pooling: hls4ml gives sums and results the model's default type, in which they wrap.

LSTM and GRU: hls4ml gives sums the model's default type, in which they wrap, and QKeras' weights without their quantisers.

TimeDistributed: hls4ml gives its copies of a step a type of their own, for which the C++ does not compile.

Bits that stand for -1 and 1: hls4ml reads them as 0 and 1 in every layer but a product, and so does who reads an output.

Softmax: hls4ml gives an accumulator without a type of its own another type in the C++ than in its graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, log2, prod
from typing import Any

import numpy as np
from hls4ml.model.flow import get_available_flows, get_backend_flows, get_flow, register_flow
from hls4ml.model.layers import BatchNormalization, DepthwiseConv1D, DepthwiseConv2D
from hls4ml.model.optimizer import OptimizerPass, register_pass
from hls4ml.model.optimizer.passes.batchnorm_opt import FuseConsecutiveBatchNormalization
from hls4ml.model.optimizer.passes.bn_fuse import FuseBatchNormalization
from hls4ml.model.optimizer.passes.infer_precision import InferPrecisionTypes
from hls4ml.model.quantizers import QKerasPO2Quantizer
from hls4ml.model.types import (
    ExponentWeightVariable,
    FixedPrecisionType,
    IntegerPrecisionType,
    NamedType,
    UnspecifiedPrecisionType,
)
from numpy.typing import NDArray

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.frontend import reuse
from hypersonic.hls.frontend.softmax.exact import wanted_types
from hypersonic.hls.model_graph import COPYING, check_merge, is_binary, retype
from hypersonic.hls.rf.parts.binary import takes_bits

#: the name of the flow with these passes; config["Flows"] = [FLOW, a backend's own] applies it first
FLOW = "hypersonic:convert"

#: types of constants that the C++ multiplies by; the others are shifts or signs
_MULTIPLIED = (IntegerPrecisionType, FixedPrecisionType, UnspecifiedPrecisionType)

Numbers = NDArray[np.floating[Any]]


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class FixedPowersOfTwo(OptimizerPass):  # type: ignore[misc]
    """Gives weights that are powers of two the narrowest fixed-point type that holds those of the layer exactly."""

    def match(self, node: Any) -> bool:
        """Return whether the layer has such weights."""
        return any(isinstance(held, ExponentWeightVariable) for held in node.weights.values())

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Replace them in place; return False, since the graph's structure does not change."""
        for name, held in list(node.weights.items()):
            if isinstance(held, ExponentWeightVariable):
                held.quantizer.hls_type = _holding(np.asarray(held.data))
                node.add_weights_variable(
                    name=name, var_name=held.name, data=held.data_unquantized, quantizer=held.quantizer
                )  # fmt: skip
        return False


def _holding(powers: Numbers) -> FixedPrecisionType:
    """The narrowest signed type that holds these positive and negative powers of two."""
    exponents = np.frexp(powers[powers != 0])[1] if powers.any() else np.ones(1, int)
    most, least = int(exponents.max()), int(exponents.min())  # 2**(exponent - 1)
    return FixedPrecisionType(width=most - least + 2, integer=most + 1, signed=True)


class SoftmaxTypes(OptimizerPass):  # type: ignore[misc]
    """Gives a Softmax the types of softmax/exact.py, in place."""

    def match(self, node: Any) -> bool:
        """Return whether any type or table size of a Softmax changes."""
        return node.class_name == "Softmax" and bool(wanted_types(node))

    def transform(self, model: Any, node: Any) -> bool:
        """Set them; return False, since the graph's structure does not change."""
        for name, wanted in wanted_types(node).items():
            if name == "result_t":
                retype(model, node.get_output_variable().type, str(wanted))
            elif name.endswith("_t"):
                precision = model.config.backend.convert_precision_string(wanted)
                node.set_attr(name, NamedType(f"{node.name}_{name}", precision))
            else:
                node.set_attr(name, wanted)
        return False


class FoldNormalization(FuseBatchNormalization):  # type: ignore[misc]
    """Folds a normalisation into the dense layer or convolution before it, if every channel has one scale and one bias."""

    def match(self, node: Any) -> bool:
        """Return whether hls4ml's conditions hold, each channel has one number, and no quantiser is lost.

        hls4ml's conditions overlook the quantiser of a depthwise convolution.
        """
        if not super().match(node):
            return False
        before = node.get_input_node()
        if before.get_attr("depthwise_quantizer") is not None:
            return False
        if isinstance(before.get_attr("weight_quantizer"), QKerasPO2Quantizer):  # the products would not be powers of two
            return False
        return all(numbers is not None for numbers in _constants(node, before))

    def transform(self, model: Any, node: Any) -> bool:
        """Multiply the weights and remove the normalisation; return whether the graph changed.

        It stays if another layer reads the layer before it, or if either has weights that are shifts or signs.
        """
        before = node.get_input_node()
        if len(before.get_output_nodes()) > 1 or before.outputs[0] in model.outputs:
            return False
        if not all(isinstance(held.type.precision, _MULTIPLIED) for held in (*before.weights.values(), *node.weights.values())):
            return False
        scale, shift, bias = _constants(node, before)
        weight = np.asarray(before.weights["weight"].data)
        depthwise = isinstance(before, DepthwiseConv1D | DepthwiseConv2D)
        along = np.reshape(scale, weight.shape[-2:]) if depthwise else scale
        folded = {"weight": along * weight, "bias": scale * bias + shift}
        for name, scaled in (("weight", "scale"), ("bias", "bias")):
            own, other = node.get_attr(f"{scaled}_quantizer"), before.get_attr(f"{name}_quantizer")
            quantiser = own if own is not None else other
            before.add_weights_variable(name=name, var_name=f"{name[0]}{{index}}", data=folded[name], quantizer=quantiser)
        model.remove_node(node)
        return True


class FoldConsecutiveNormalizations(FuseConsecutiveBatchNormalization):  # type: ignore[misc]
    """Folds two consecutive normalisations into one, if both have a number per channel or both have one per element."""

    def match(self, node: Any) -> bool:
        """Return whether hls4ml's conditions hold and all scales and biases, and their products, have the same size."""
        if not super().match(node) or node.get_input_node().outputs[0] in node.model.outputs:
            return False
        pair = [np.asarray(layer.weights[name].data) for layer in (node.get_input_node(), node) for name in ("scale", "bias")]
        return len({numbers.size for numbers in (*pair, pair[0] * pair[2], pair[1] * pair[2] + pair[3])}) == 1


def _constants(node: Any, before: Any) -> tuple[Any, Any, Any]:
    """The scale and bias of a normalisation and the bias of the layer before it, each as from per_channel."""
    channels = int(before.get_output_variable().shape[-1])
    held = node.weights["scale"], node.weights["bias"], before.weights["bias"]
    scale, shift, bias = (per_channel(np.asarray(variable.data), channels) for variable in held)
    return scale, shift, bias


def per_channel(numbers: Numbers, channels: int) -> Numbers | None:
    """Reduce constants whose last axis is the channels to one number per channel, (channels,).

    Returns None if the numbers of a channel differ from position to position.
    """
    if numbers.size == 1:
        return np.full(channels, numbers.reshape(-1)[0])
    if numbers.size % channels:
        return None
    rows = numbers.reshape(-1, channels)
    return rows[0] if (rows == rows[0]).all() else None


class QuantizedTanhScales(OptimizerPass):  # type: ignore[misc]
    """Refuses a binary or ternary activation behind a normalisation that falls; hls4ml's thresholds would be reversed."""

    def match(self, node: Any) -> bool:
        """Return whether the layer is a binary or ternary tanh behind a normalisation with a scale of 0 or less."""
        kind, before = str(node.get_attr("activation")), node.get_input_node()
        steps = node.class_name == "TernaryTanh" or (node.class_name == "Activation" and kind.startswith(("binary", "ternary")))
        return steps and isinstance(before, BatchNormalization) and bool((np.asarray(before.weights["scale"].data) <= 0).any())

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Raise UnsupportedLayerError."""
        raise UnsupportedLayerError(
            f"layer {node.get_input_node().name!r}: a scale is 0 or less, expected positive ones in front of the binary or "
            f"ternary {node.name!r}, for which hls4ml compares with thresholds in one direction; train it with scale=False"
        )


class SharedNormalization(OptimizerPass):  # type: ignore[misc]
    """Keeps a normalisation apart from a binary activation if others read it too; hls4ml gives those the numbers before it."""

    def match(self, node: Any) -> bool:
        """Return whether the layer is a binary activation that hls4ml would merge with such a normalisation."""
        before = node.get_input_node()
        kind = node.get_attr("activation") if node.class_name == "Activation" and isinstance(before, BatchNormalization) else ""
        return kind in ("binary", "binary_tanh") and not _alone(before)

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Write the function's name so that hls4ml's pass does not find it; templates read it in lower case. Return False."""
        node.set_attr("activation", "Binary_tanh")
        return False


def _alone(before: Any) -> bool:
    """Return whether one layer reads a layer's result, and it is not an output."""
    return len(before.get_output_nodes()) == 1 and not set(before.outputs) & set(before.model.outputs)


class BinaryThresholds(OptimizerPass):  # type: ignore[misc]
    """Moves the threshold of a normalisation before a binary activation to the next number of its input's type.

    hls4ml compares x >= threshold, and takes the number before the threshold instead.
    """

    def match(self, node: Any) -> bool:
        """Return whether the layer is a binary activation behind a normalisation that hls4ml will merge it with."""
        kind, before = str(node.get_attr("activation")), node.get_input_node()
        steps = node.class_name == "Activation" and kind.startswith("binary") and isinstance(before, BatchNormalization)
        return (
            steps
            and _alone(before)
            and hasattr(before.get_input_variable().type.precision, "fractional")
            and not before.get_attr("on_grid")
        )

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Change the shift in place, to one a quarter of a step beyond, which hls4ml rounds down; return False."""
        before = node.get_input_node()
        step = 2.0 ** -before.get_input_variable().type.precision.fractional
        scale, shift = (np.asarray(before.weights[name].data, np.float64) for name in ("scale", "bias"))
        before.weights["bias"].data = -(np.ceil(-shift / scale / step) + 0.25) * step * scale
        before.set_attr("on_grid", True)
        return False


class MergedShapes(OptimizerPass):  # type: ignore[misc]
    """Refuses merges of two shapes, before hls4ml stops with an AssertionError for one in io_stream."""

    def match(self, node: Any) -> bool:
        """Return whether the layer is a merge of two tensors that keeps their shape."""
        return bool(node.class_name == "Merge")

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Raise UnsupportedLayerError if the shapes differ; else return False, since nothing changes."""
        check_merge(node)
        return False


class StepTypes(OptimizerPass):  # type: ignore[misc]
    """Leaves the type of a TimeDistributed, which copies the numbers of a step, to InferTypes."""

    def match(self, node: Any) -> bool:
        """Return whether the layer is a TimeDistributed that has a type of its own."""
        return node.class_name == "TimeDistributed" and not node.get_attr("copies")

    def transform(self, model: Any, node: Any) -> bool:
        """Remove it in place; return False, since the graph's structure does not change.

        The first of its two layers was the model's output when hls4ml named its type.
        """
        kind = node.get_output_variable().type
        kind.precision = UnspecifiedPrecisionType()
        if node.outputs[0] not in model.outputs:
            kind.name = f"layer{node.index}_t"
        node.set_attr("copies", True)
        return False


class InferTypes(InferPrecisionTypes):  # type: ignore[misc]
    """hls4ml's pass, which fails for a Dot whose accumulator has no type, with one that holds every sum of that Dot exactly.

    A TimeDistributed gets the type of what it reads. A global pooling gets types that hold its sums and its results, an LSTM
    or GRU the default type with as many integer bits as its sums need.
    """

    def _infer_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        if node.class_name == "TimeDistributed":
            return list(self._infer_output_matching_precision(node, types_to_infer))
        if node.class_name in ("GlobalPooling1D", "GlobalPooling2D"):
            return self._infer_global_pooling_precision(node, types_to_infer)
        return list(super()._infer_precision(node, types_to_infer))

    def _infer_global_pooling_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        """The input's type for a maximum; for a mean the bits of the sum, of which the quotient's fraction is a part."""
        x = node.get_input_variable()
        accum = result = x.type.precision
        if str(node.get_attr("pool_op")).lower() == "average":
            if not self._all_supported_types((accum,)):
                return []
            more = ceil(log2(prod(int(size) for size in x.shape[:-1])))
            accum = FixedPrecisionType(
                x.type.precision.width + 2 * more, x.type.precision.integer + more, x.type.precision.signed
            )
            result = self._at_most(node, FixedPrecisionType(accum.width - more, accum.integer - more, accum.signed))
        if "accum_t" in types_to_infer:
            node.types["accum_t"] = NamedType(f"{node.name}_accum_t", accum)
        if "result_t" in types_to_infer:
            node.types["result_t"].precision = result
        return types_to_infer

    def _infer_rnn_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        found = list(super()._infer_rnn_precision(node, types_to_infer))
        x, kind = node.get_input_variable().type.precision, self._get_default_precision(node)
        if "accum_t" not in types_to_infer or not self._all_supported_types((x, kind)):
            return found
        whole = max(kind.integer, _whole_bits(_largest_sum(node, 2.0 ** (x.integer - x.signed))) + 1)
        accum = FixedPrecisionType(
            kind.width + whole - kind.integer, whole, True, kind.rounding_mode, kind.saturation_mode, kind.saturation_bits
        )
        node.types["accum_t"] = NamedType(f"{node.name}_accum_t", accum)
        return [*found, "accum_t"]

    def _at_most(self, node: Any, kind: FixedPrecisionType) -> FixedPrecisionType:
        """The type with no more bits than Model.Precision.maximum has."""
        most = self._get_maximum_precision(node)
        if most is None:
            return kind
        return FixedPrecisionType(min(kind.width, most.width), min(kind.integer, most.integer), kind.signed)

    def _infer_dot_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        given = node.types["result_t"].precision
        super()._infer_dot_precision(node, ["result_t"])
        exact = node.types["result_t"].precision
        if "result_t" not in types_to_infer:
            node.types["result_t"].precision = given
        if "accum_t" in types_to_infer:
            node.types["accum_t"] = NamedType(f"{node.name}_accum_t", exact)
        return types_to_infer


def _largest_sum(node: Any, x: float) -> float:
    """The largest magnitude of a sum in a recurrent layer whose inputs are up to x and whose state is up to 1."""
    most = 0.0
    for side in ("forward_", "backward_") if node.class_name == "Bidirectional" else ("",):
        names = [name for name in ("weight", "bias", "recurrent_weight", "recurrent_bias") if f"{side}{name}" in node.weights]
        held = {name: np.abs(np.asarray(node.weights[f"{side}{name}"].data, np.float64)) for name in names}
        sums = [(x if name == "weight" else 1.0) * (part.sum(axis=0) if part.ndim > 1 else part) for name, part in held.items()]
        most = max(most, float(np.sum(np.broadcast_arrays(*sums), axis=0).max()))
    return most


def _whole_bits(magnitude: float) -> int:
    """The bits left of the binary point that a magnitude needs."""
    return int(np.frexp(magnitude)[1])


class QuantisedRecurrence(OptimizerPass):  # type: ignore[misc]
    """Rounds and clips the weights of a QKeras LSTM or GRU as their quantisers do; hls4ml takes their types alone."""

    def match(self, node: Any) -> bool:
        """Return whether the layer has such quantisers that were not applied."""
        quantised = any(node.get_attr(f"{name}_quantizer") is not None for name in _RECURRENT_WEIGHTS)
        return node.class_name in ("LSTM", "GRU") and quantised and not node.get_attr("quantised")

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Change the weights in place; return False, since the graph's structure does not change."""
        for name in _RECURRENT_WEIGHTS:
            quantiser = node.get_attr(f"{name}_quantizer")
            if quantiser is not None:
                node.weights[name].data = np.asarray(quantiser(np.asarray(node.weights[name].data)))
        node.set_attr("quantised", True)
        return False


_RECURRENT_WEIGHTS = ("weight", "recurrent_weight", "bias")


class EinsumStrategy(OptimizerPass):  # type: ignore[misc]
    """Gives an Einsum or an EinsumDense the Strategy Latency where the model's is Resource."""

    def match(self, node: Any) -> bool:
        """Return whether it is such a layer with another strategy."""
        wanted = str(node.model.config.get_strategy(node)).lower()
        return node.class_name in ("Einsum", "EinsumDense") and wanted.startswith("resource")

    def transform(self, model: Any, node: Any) -> bool:
        """Set it in the configuration, which hls4ml reads; return False, since the graph's structure does not change."""
        model.config.layer_name_strategy[node.name.lower()] = "latency"
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


class SignedBits(OptimizerPass):  # type: ignore[misc]
    """Gives bits that stand for -1 and 1 (the XNOR type) an integer type that holds these, where they are read as 0 and 1.

    That is where they are an output, and in layers other than products. The tensors that they are copied from or to get it too.
    """

    def match(self, node: Any) -> bool:
        """Return whether the layer's result is of such bits, and an output or read by such a layer."""
        if not is_binary(node.get_output_variable()):
            return False
        readers = (layer for layer in node.model.get_layers() if set(layer.inputs) & set(node.outputs))
        return bool(set(node.outputs) & set(node.model.outputs)) or not all(map(_multiplies, readers))

    def transform(self, model: Any, node: Any) -> bool:
        """Set the types in place; return False, since the graph's structure does not change."""
        for layer in _copies(model, node):
            for tensor in layer.outputs:
                layer.get_output_variable(tensor).type.precision = IntegerPrecisionType(2, signed=True)
            if "accum_t" in layer.types:
                layer.types["accum_t"].precision = IntegerPrecisionType(2, signed=True)
        return False


def _multiplies(layer: Any) -> bool:
    """Return whether the layer reads such bits as the numbers that they stand for, or copies them."""
    twice = "weight" in layer.weights and is_binary(layer.weights["weight"]) and np.asarray(layer.weights["bias"].data).any()
    return takes_bits(layer) and not twice  # hls4ml's C++ adds the bias of binary weights and bits twice


def _copies(model: Any, node: Any) -> list[Any]:
    """The layers whose results are the bits of a layer's, or the bits that it copies, the layer among them."""
    found, tensors, count = [node], set(node.outputs), 0
    if node.class_name in COPYING:
        tensors |= set(node.inputs)
    while len(found) > count:
        count = len(found)
        for layer in model.get_layers():
            if layer in found or not is_binary(layer.get_output_variable()):
                continue
            if tensors & set(layer.outputs) or (layer.class_name in COPYING and tensors & set(layer.inputs)):
                found.append(layer)
                tensors |= {*layer.outputs, *(layer.inputs if layer.class_name in COPYING else ())}
    return found


def register_possible_settings() -> str:
    """Register the flow of PossibleSettings at the first call; return its name.

    It must run before the flows that lay out weights and generate code.
    """
    return _register_alone("hypersonic:possible_settings", PossibleSettings)


def _register_alone(name: str, made: type) -> str:
    """Register a pass as a flow of its own at the first call; return the flow's name."""
    if name not in get_backend_flows("hypersonic"):
        register_pass(name, made)
        register_flow(name, [name])
    return name


@contextmanager
def last_passes() -> Iterator[None]:
    """Make hls4ml's backend Vitis apply PossibleSettings and SignedBits inside the context."""
    flows = get_flow("vitis:ip").requires
    own = [register_possible_settings(), _register_alone("hypersonic:signed_bits", SignedBits)]
    at = flows.index("vivado:specific_types")
    flows[at:at] = own
    try:
        yield
    finally:
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
        softmax = register_pass("softmax_types", SoftmaxTypes, backend="Hypersonic")
        einsum = register_pass("einsum_strategy", EinsumStrategy, backend="Hypersonic")
        copies = register_pass("step_types", StepTypes, backend="Hypersonic")
        stock = get_flow("convert")
        optimizers = [own.get(name, name) for name in stock.optimizers]
        optimizers.insert(optimizers.index(own["infer_precision_types"]), copies)
        thresholds = register_pass("binary_thresholds", BinaryThresholds, backend="Hypersonic")
        recurrent = register_pass("quantised_recurrence", QuantisedRecurrence, backend="Hypersonic")
        shared = register_pass("shared_normalization", SharedNormalization, backend="Hypersonic")
        passes = [shared, powers, recurrent, softmax, steps, shapes, einsum, *optimizers, thresholds]
        register_flow(FLOW, passes, requires=list(stock.requires))
    return FLOW
