# SPDX-License-Identifier: Apache-2.0
"""Corrections of what hls4ml 1.3.0's optimisers do wrongly: a flow that runs before hls4ml's own and leaves it nothing to do.

Fusions of normalisations: hls4ml multiplies the weights of a layer by the scales along their last axis. A depthwise convolution
has its channels on the axis before, and a scale that came from a constant has a number for each element of the tensor, not for
each channel.

Weights that are powers of two: hls4ml writes each as a sign and an exponent, with a function that numpy 2 has no more. It takes
the width of the exponent for that of the number, its C++ cuts what is shifted far to the right, and has no such biases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from hls4ml.model.flow import get_available_flows, get_backend_flows, get_flow, register_flow
from hls4ml.model.layers import DepthwiseConv1D, DepthwiseConv2D
from hls4ml.model.optimizer import OptimizerPass, register_pass
from hls4ml.model.optimizer.passes.batchnorm_opt import FuseConsecutiveBatchNormalization
from hls4ml.model.optimizer.passes.bn_fuse import FuseBatchNormalization
from hls4ml.model.quantizers import QKerasPO2Quantizer
from hls4ml.model.types import (
    ExponentWeightVariable,
    FixedPrecisionType,
    IntegerPrecisionType,
    UnspecifiedPrecisionType,
)
from numpy.typing import NDArray

from hypersonic.hls.frontend import reuse

#: the flow's name; config["Flows"] = [FLOW, a backend's own] applies it first
FLOW = "hypersonic:convert"

#: kinds of constants that are multiplied, and not shifted or negated
_MULTIPLIED = (IntegerPrecisionType, FixedPrecisionType, UnspecifiedPrecisionType)

Numbers = NDArray[np.floating[Any]]


# hls4ml is untyped, which mypy --strict forbids base classes to be
class FixedPowersOfTwo(OptimizerPass):  # type: ignore[misc]
    """Weights that are powers of two as fixed-point numbers, of the narrowest type that holds those of the layer exactly."""

    def match(self, node: Any) -> bool:
        return any(isinstance(held, ExponentWeightVariable) for held in node.weights.values())

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        for name, held in list(node.weights.items()):
            if isinstance(held, ExponentWeightVariable):
                held.quantizer.hls_type = _holding(np.asarray(held.data))
                node.add_weights_variable(
                    name=name, var_name=held.name, data=held.data_unquantized, quantizer=held.quantizer
                )  # fmt: skip
        return False


def _holding(powers: Numbers) -> FixedPrecisionType:
    """The signed type of these powers of two, positive and negative ones."""
    exponents = np.frexp(powers[powers != 0])[1] if powers.any() else np.ones(1, int)
    most, least = int(exponents.max()), int(exponents.min())  # 2**(exponent - 1)
    return FixedPrecisionType(width=most - least + 2, integer=most + 1, signed=True)


class FoldNormalization(FuseBatchNormalization):  # type: ignore[misc]
    """A normalisation into the dense layer or convolution before it, where every channel has one scale and one bias."""

    def match(self, node: Any) -> bool:
        """hls4ml's own conditions, which forget the quantiser of a depthwise convolution, and one number for each channel."""
        if not super().match(node):
            return False
        before = node.get_input_node()
        if before.get_attr("depthwise_quantizer") is not None:
            return False
        if isinstance(before.get_attr("weight_quantizer"), QKerasPO2Quantizer):  # the products are not powers of two any more
            return False
        return all(numbers is not None for numbers in _constants(node, before))

    def transform(self, model: Any, node: Any) -> bool:
        """Multiply the weights, and remove the normalisation when nothing else reads the layer."""
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
    """Two normalisations into one, where both have a number for each channel or both for each element."""

    def match(self, node: Any) -> bool:
        """hls4ml's own conditions, and constants of one size, whose products have that size too."""
        if not super().match(node) or node.get_input_node().outputs[0] in node.model.outputs:
            return False
        pair = [np.asarray(layer.weights[name].data) for layer in (node.get_input_node(), node) for name in ("scale", "bias")]
        return len({numbers.size for numbers in (*pair, pair[0] * pair[2], pair[1] * pair[2] + pair[3])}) == 1


def _constants(node: Any, before: Any) -> tuple[Any, Any, Any]:
    """Scale and bias of a normalisation and the bias of the layer before it, (channels,) each; None: places differ."""
    channels = int(before.get_output_variable().shape[-1])
    held = node.weights["scale"], node.weights["bias"], before.weights["bias"]
    scale, shift, bias = (per_channel(np.asarray(variable.data), channels) for variable in held)
    return scale, shift, bias


def per_channel(numbers: Numbers, channels: int) -> Numbers | None:
    """One number for each channel, (channels,), of constants whose last axis is the channels; None when places differ."""
    if numbers.size == 1:
        return np.full(channels, numbers.reshape(-1)[0])
    if numbers.size % channels:
        return None
    rows = numbers.reshape(-1, channels)
    return rows[0] if (rows == rows[0]).all() else None


class PossibleSettings(OptimizerPass):  # type: ignore[misc]
    """Reuse factors and strategies that a layer's C++ cannot do -> the nearest that it can (reuse.py)."""

    def match(self, node: Any) -> bool:
        return any(node.get_attr(name) != wanted for name, wanted in reuse.possible_settings(node).items())

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        for name, wanted in reuse.possible_settings(node).items():
            node.set_attr(name, wanted)
        return False


def register_possible_settings() -> str:
    """The flow of PossibleSettings, registered at the first call; it belongs before weights are laid out and code is made."""
    name = "hypersonic:possible_settings"
    if name not in get_backend_flows("hypersonic"):
        register_pass(name, PossibleSettings)
        register_flow(name, [name])
    return name


@contextmanager
def possible_settings() -> Iterator[None]:
    """hls4ml's own backend Vitis converts with PossibleSettings meanwhile."""
    flows, flow = get_flow("vitis:ip").requires, register_possible_settings()
    flows.insert(flows.index("vivado:specific_types"), flow)
    try:
        yield
    finally:
        flows.remove(flow)


def register() -> str:
    """hls4ml's flow `convert` with these passes in place of its own, once; returns its name."""
    if FLOW not in get_available_flows():
        own = {
            "fuse_batch_normalization": register_pass("fold_normalization", FoldNormalization, backend="Hypersonic"),
            "fuse_consecutive_batch_normalization": register_pass(
                "fold_consecutive_normalizations", FoldConsecutiveNormalizations, backend="Hypersonic"
            ),
        }
        powers = register_pass("fixed_powers_of_two", FixedPowersOfTwo, backend="Hypersonic")
        stock = get_flow("convert")
        register_flow(FLOW, [powers, *(own.get(name, name) for name in stock.optimizers)], requires=list(stock.requires))
    return FLOW
