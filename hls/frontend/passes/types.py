# SPDX-License-Identifier: Apache-2.0
"""Passes that give variables the types that hold their numbers."""

from __future__ import annotations

from math import ceil, log2, prod
from typing import Any

import numpy as np
from hls4ml.model.optimizer.passes.infer_precision import InferPrecisionTypes
from hls4ml.model.types import (
    ExponentWeightVariable,
    FixedPrecisionType,
    NamedType,
    UnspecifiedPrecisionType,
)
from numpy.typing import NDArray

from hypersonic.hls.frontend.passes.gated import SPANS
from hypersonic.hls.frontend.softmax.exact import wanted_types
from hypersonic.hls.model_graph import is_build, model_settings, retype

Numbers = NDArray[np.floating[Any]]

_POOLINGS = ("GlobalPooling1D", "GlobalPooling2D")
_RECURRENT = ("LSTM", "GRU", "Bidirectional")
_RECURRENT_WEIGHTS = ("weight", "recurrent_weight", "bias")


def finds_types(model: Any) -> bool:
    """Return whether types that hls4ml leaves too narrow are found: in a build, and if the plugin's Model.types is "exact"."""
    return is_build(model) or model_settings(model).get("types") == "exact"


def narrow_type(node: Any) -> str:
    """Return what is wrong with the type of a layer's sums if `finds_types` would have found another; "" if nothing is."""
    accum, of_sums = node.types["accum_t"].precision if "accum_t" in node.types else None, _sum_type(node)
    if of_sums is not None and accum is not None and accum.integer < of_sums.integer:
        return f"its sums need {of_sums.integer} integer bits, and its accum is {accum}"
    if node.class_name == "LayerNormalization" and _unset(node):
        return "its sums saturate at 8, and its table of 1/sqrt has 3 bits right of the point and ends at a variance of 1"
    return ""


def _sum_type(node: Any) -> FixedPrecisionType | None:
    """The type that holds the sums of a global average pooling or of a recurrent layer; None for others."""
    summed = node.class_name in _RECURRENT or (
        node.class_name in _POOLINGS and str(node.get_attr("pool_op")).lower() == "average"
    )
    x = node.get_input_variable().type.precision if summed else None
    if not isinstance(x, FixedPrecisionType):
        return None
    if node.class_name in _POOLINGS:
        more = ceil(log2(prod(int(size) for size in node.get_input_variable().shape[:-1])))
        return FixedPrecisionType(x.width + 2 * more, x.integer + more, x.signed)
    config = node.model.config
    kind = config.backend.convert_precision_string(config.model_precision["default"])
    if not isinstance(kind, FixedPrecisionType):
        return None
    result = node.types["result_t"].precision if "result_t" in node.types else kind
    fraction = result.width - result.integer if isinstance(result, FixedPrecisionType) else 0
    return _with_bits(kind, _whole_bits(_largest_sum(node, 2.0 ** (x.integer - x.signed))) + 1, fraction)


def fix_powers_of_two(node: Any) -> None:
    """Give weights that are powers of two the narrowest fixed-point type that holds those of the layer exactly."""
    for name, held in list(node.weights.items()):
        if isinstance(held, ExponentWeightVariable):
            held.quantizer.hls_type = _holding(np.asarray(held.data))
            node.add_weights_variable(
                name=name, var_name=held.name, data=held.data_unquantized, quantizer=held.quantizer
            )  # fmt: skip


def _holding(powers: Numbers) -> FixedPrecisionType:
    """The narrowest signed type that holds these positive and negative powers of two."""
    exponents = np.frexp(powers[powers != 0])[1] if powers.any() else np.ones(1, int)
    most, least = int(exponents.max()), int(exponents.min())  # 2**(exponent - 1)
    return FixedPrecisionType(width=most - least + 2, integer=most + 1, signed=True)


def type_softmax(node: Any) -> None:
    """Give a Softmax the types of softmax/exact.py."""
    if node.class_name != "Softmax":
        return
    model = node.model
    for name, wanted in wanted_types(node, exact=model_settings(model).get("softmax") == "exact").items():
        if name == "result_t":
            retype(model, node.get_output_variable().type, str(wanted))
        elif name.endswith("_t"):
            precision = model.config.backend.convert_precision_string(wanted)
            node.set_attr(name, NamedType(f"{node.name}_{name}", precision))
        else:
            node.set_attr(name, wanted)


def untype_steps(node: Any) -> None:
    """Leave the type of a TimeDistributed, which copies the numbers of a step, to InferTypes.

    The first of its two layers was the model's output when hls4ml named its type.
    """
    if node.class_name != "TimeDistributed" or node.get_attr("copies"):
        return
    kind = node.get_output_variable().type
    kind.precision = UnspecifiedPrecisionType()
    if node.outputs[0] not in node.model.outputs:
        kind.name = f"layer{node.index}_t"
    node.set_attr("copies", True)


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class InferTypes(InferPrecisionTypes):  # type: ignore[misc]
    """hls4ml's pass, which fails for a Dot whose accumulator has no type; here it gets a type that holds every sum exactly.

    An Einsum gets such types too, a TimeDistributed the type of what it reads, a SiLU or GELU one that holds every result. A
    global pooling gets types that hold its sums and its results, an LSTM or GRU the default type with as many integer bits as
    its sums need and the fraction bits of its result, where finds_types() says so.
    """

    def _infer_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        if node.class_name == "TimeDistributed":
            return list(self._infer_output_matching_precision(node, types_to_infer))
        if node.class_name in _POOLINGS and finds_types(node.model):
            return self._infer_global_pooling_precision(node, types_to_infer)
        if node.class_name == "Activation" and node.get_attr("activation") in SPANS:
            return self._infer_gated_precision(node, types_to_infer)
        if node.class_name == "Einsum":
            return self._infer_einsum_precision(node, types_to_infer)
        return list(super()._infer_precision(node, types_to_infer))

    def _infer_global_pooling_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        """The input's type for a maximum; for a mean the bits of the sum, of which the quotient's fraction is a part."""
        x = node.get_input_variable()
        accum = result = x.type.precision
        if str(node.get_attr("pool_op")).lower() == "average":
            sums = _sum_type(node)
            if sums is None:
                return []
            more = sums.integer - accum.integer
            accum, result = sums, self._at_most(node, FixedPrecisionType(sums.width - more, sums.integer - more, sums.signed))
        if "accum_t" in types_to_infer:
            node.types["accum_t"] = NamedType(f"{node.name}_accum_t", accum)
        if "result_t" in types_to_infer:
            node.types["result_t"].precision = result
        return types_to_infer

    def _infer_gated_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        """A signed type that holds each sum of a ReLU's result and the table's number, which is from -0.5 to 0."""
        x, table = node.get_input_variable().type.precision, node.get_attr("table_t").precision
        if "result_t" not in types_to_infer or not self._all_supported_types((x, table)):
            return []
        whole = max(x.integer + (not x.signed), 1)
        exact = FixedPrecisionType(whole + max(x.width - x.integer, table.width - table.integer), whole, True)
        node.types["result_t"].precision = self._at_most(node, exact)
        return ["result_t"]

    def _infer_einsum_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        """A type that holds each sum of products over the axes that are in both tensors and not in the result."""
        a, b = (node.get_input_variable(name).type.precision for name in node.inputs)
        if not self._all_supported_types((a, b)):
            return []
        read, result = str(node.get_attr("equation")).split("->")
        sizes = dict(zip(read.split(",")[0], node.get_attr("inp0_shape"), strict=True))
        more = ceil(log2(prod(int(size) for axis, size in sizes.items() if axis not in result)))
        exact = FixedPrecisionType(a.width + b.width + more, a.integer + b.integer + more, a.signed or b.signed)
        if "accum_t" in types_to_infer:
            node.types["accum_t"] = NamedType(f"{node.name}_accum_t", exact)
        if "result_t" in types_to_infer:
            node.types["result_t"].precision = self._at_most(node, exact)
        return types_to_infer

    def _infer_rnn_precision(self, node: Any, types_to_infer: list[str]) -> list[str]:
        found = list(super()._infer_rnn_precision(node, types_to_infer))
        sums = _sum_type(node) if finds_types(node.model) else None
        if "accum_t" not in types_to_infer or sums is None:
            return found
        node.types["accum_t"] = NamedType(f"{node.name}_accum_t", sums)
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


#: the types that hls4ml gives the sums and the table of a LayerNormalization
_NORMALIZATION = {"accum_t": "ap_fixed<14,4,AP_RND_CONV,AP_SAT>", "table_t": "ap_ufixed<8,5,AP_RND_CONV,AP_SAT>"}
#: fraction bits of both, at least, and the most bits that the index of a table has in hls4ml's C++
_FRACTION, _INDEX_BITS = 12, 31


def type_normalization(node: Any) -> None:
    """Give the sums and the table of a LayerNormalization types that hold them, if they have hls4ml's own types.

    hls4ml's saturate at 8 and have three bits right of the point. The squares of n differences from the mean of numbers up to
    x are 4 x^2 each at most, and n x^2 together.
    """
    if node.class_name != "LayerNormalization" or not finds_types(node.model) or not (unset := _unset(node)):
        return
    x = node.get_input_variable().type.precision
    count = int(node.get_attr("n_in")) // int(node.get_attr("seq_len"))
    index = int(node.get_attr("table_size")).bit_length() - 1 + int(node.get_attr("table_range_power2"))
    whole = min(_whole_bits(max(count, 4) * 4.0 ** (x.integer - x.signed)) + 1, _INDEX_BITS - index)
    fraction = max(_FRACTION, min(x.width - x.integer, 2 * _FRACTION))
    wanted = {"accum_t": f"fixed<{max(whole, 1) + fraction},{max(whole, 1)}", "table_t": f"ufixed<{5 + _FRACTION},5"}
    for name in unset:
        precision = node.model.config.backend.convert_precision_string(f"ap_{wanted[name]},AP_RND_CONV,AP_SAT>")
        node.set_attr(name, NamedType(f"{node.name}_{name}", precision))


def _unset(node: Any) -> list[str]:
    convert = node.model.config.backend.convert_precision_string
    return [name for name, own in _NORMALIZATION.items() if node.types[name].precision == convert(own)]


def _largest_sum(node: Any, x: float) -> float:
    """The largest magnitude of a sum in a recurrent layer whose inputs are up to x and whose state is up to 1."""
    most = 0.0
    for side in ("forward_", "backward_") if node.class_name == "Bidirectional" else ("",):
        names = [name for name in ("weight", "bias", "recurrent_weight", "recurrent_bias") if f"{side}{name}" in node.weights]
        held = {name: np.abs(np.asarray(node.weights[f"{side}{name}"].data, np.float64)) for name in names}
        sums = [(x if name == "weight" else 1.0) * (part.sum(axis=0) if part.ndim > 1 else part) for name, part in held.items()]
        most = max(most, float(np.sum(np.broadcast_arrays(*sums), axis=0).max()))
    return most


def _with_bits(kind: FixedPrecisionType, whole: int, fraction: int) -> FixedPrecisionType:
    """The signed type of the same modes with at least as many integer and fraction bits."""
    whole, fraction = max(kind.integer, whole), max(kind.width - kind.integer, fraction)
    return FixedPrecisionType(whole + fraction, whole, True, kind.rounding_mode, kind.saturation_mode, kind.saturation_bits)


def _whole_bits(magnitude: float) -> int:
    """The bits left of the binary point that a magnitude needs."""
    return int(np.frexp(magnitude)[1])


def quantise_recurrence(node: Any) -> None:
    """Round and clip the weights of a QKeras LSTM or GRU as their quantisers do; hls4ml takes their types alone."""
    if node.class_name not in ("LSTM", "GRU") or node.get_attr("quantised"):
        return
    for name in _RECURRENT_WEIGHTS:
        quantiser = node.get_attr(f"{name}_quantizer")
        if quantiser is not None:
            node.weights[name].data = np.asarray(quantiser(np.asarray(node.weights[name].data)))
            node.set_attr("quantised", True)
