# SPDX-License-Identifier: Apache-2.0
"""The types that a Softmax of hls4ml's gets before hls4ml's own optimisers: those of the option `softmax: exact`."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2
from typing import Any

#: correct types of the differences to the largest number, and of the reciprocals
NORMALISED, INVERSE = "ap_ufixed<14,4,AP_RND,AP_SAT>", "ap_ufixed<18,1,AP_RND,AP_SAT>"

#: entries of the reciprocals' table per unit of the sum, and the most entries of a table
_PER_UNIT, _MOST = 128, 1 << 14

#: hls4ml's default table size
_TABLE = 1024


def sum_type(greatest: float) -> str:
    """Return an unsigned type for sums up to `greatest`, with 17 fraction bits."""
    whole = int(log2(greatest)) + 1
    return f"ap_ufixed<{whole + 17},{whole}>"


def exact_types(classes: int) -> dict[str, str | int]:
    """Return correct types and table sizes for a softmax of so many classes, by the names of hls4ml's attributes.

    The exponentials of the differences to the largest number are at most 1, so their sum is from 1 to `classes`.
    """
    sums = sum_type(float(classes))
    return {
        "inp_norm_t": NORMALISED,
        "inv_inp_t": sums,
        "inv_table_t": INVERSE,
        "accum_t": sums,
        "result_t": "ap_ufixed<16,0,AP_RND,AP_SAT>",
        "exp_table_size": _TABLE,
        "inv_table_size": min(max(_TABLE, _PER_UNIT << (int(log2(classes)) + 1)), _MOST),
    }


def wanted_types(layer: Any, *, exact: bool) -> dict[str, str | int]:
    """Return the attributes of a Softmax that differ from what they should be.

    Without it, this is only the accumulator's type, and only where the graph has the model's default: hls4ml's template writes
    the table's type with more bits for the sum there. With it, the layer's own settings are kept.

    Args:
        exact: whether the model has `softmax: exact`.
    """
    classes = int(layer.get_input_variable(layer.inputs[0]).shape[-1])
    if not exact:
        return _written_accumulator(layer, classes)
    own = _own(layer.model.config.get_layer_config(layer))
    return {name: wanted for name, wanted in exact_types(classes).items() if name not in own and _differs(layer, name, wanted)}


def _written_accumulator(layer: Any, classes: int) -> dict[str, str | int]:
    if layer.get_attr("accum_t").name != "model_default_t":
        return {}
    of, room = layer.get_attr("exp_table_t").precision, ceil(log2(classes))
    return {"accum_t": f"ap_{'' if of.signed else 'u'}fixed<{of.width + room},{of.integer + room}>"}


def _own(settings: Mapping[str, Any]) -> set[str]:
    """The attributes that a layer's own settings give; hls4ml proposes an accumulator for every Softmax."""
    precision = settings.get("Precision")
    given = {key for key in settings if str(key).endswith(("_t", "_table_size"))}
    result = precision.get("result", "auto") if isinstance(precision, Mapping) else precision or "auto"
    return given | ({"result_t"} if result != "auto" else set())


def _differs(layer: Any, name: str, wanted: str | int) -> bool:
    held = layer.get_output_variable().type if name == "result_t" else layer.get_attr(name)
    if isinstance(wanted, int):
        return bool(held != wanted)
    convert = layer.model.config.backend.convert_precision_string
    return held is None or str(held.precision) != str(convert(wanted)) or held.name == "model_default_t"
