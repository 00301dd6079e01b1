# SPDX-License-Identifier: Apache-2.0
"""Checks hls4ml 1.3.0's softmax (nnet_activation.h): refuses tables that give wrong probabilities, and notes inexact ones.

stable: d = max(x) - x in inp_norm_t, e = exp_table[top bits of d], y = e * inv_table[top bits of the sum of e in inv_inp_t].
latency: e = exp_table[top bits of x]. inp_norm_t, unless given, is the input's type without its sign, which wraps. hls4ml warns
of none of this, and of these types it reads only accum from Precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.fixed import MAX_WIDTH, FixedPoint, Overflow
from hypersonic.hls.frontend.softmax.exact import INVERSE, NORMALISED, sum_type
from hypersonic.hls.model_graph import input_precision, is_streamed, precision_of, result_precision
from hypersonic.hls.network.tables import exp_values, inverse_values

Range = tuple[float, float]
Numbers = NDArray[np.float64]

#: a table with steps coarser than this can no longer distinguish classes
_COARSE_STEP = 0.5
#: relative errors of a probability: beyond the first the layer is refused, beyond the second there is a note
_WRONG, _ROUGH = 0.5, 1 / 16

_IMPLEMENTATIONS = ("stable", "latency", "argmax")
_SAME_NUMBERS = ("Reshape", "Clone", "Repack")


@dataclass(frozen=True)
class Tables:
    """Types and tables of hls4ml's template.

    Attributes:
        address: the type whose top bits index the exponentials.
        sizes: of both tables.
    """

    kind: str
    address: FixedPoint
    sizes: tuple[int, int]
    exp: FixedPoint
    accum: FixedPoint
    inv_inp: FixedPoint
    inv: FixedPoint
    result: FixedPoint


def check_softmax(layer: Any) -> tuple[str, ...]:
    """Return notes on a Softmax of hls4ml's ModelGraph whose probabilities are inexact.

    Raises UnsupportedLayerError if they can be wrong: too far off, wrapped, or over other elements than the model's.
    """
    notes = []
    for error in faults(layer):
        if isinstance(error, UnsupportedLayerError):
            raise error
        notes.append(error)
    return tuple(notes)


def faults(layer: Any) -> Iterator[UnsupportedLayerError | str]:
    """Yield an error for each cause of wrong probabilities, and a note, a line, for each cause of inexact ones.

    Raises UnsupportedLayerError for what hls4ml's C++ does not compute at all, or computes over other elements.
    """
    if layer.get_attr("_bit_exact"):  # HGQ2 has trained with these very types, and with what they wrap and round
        return
    tables, classes = tables_of(layer), _classes(layer)
    result = tables.result
    if value_of(result.max_raw, result) < 1 and result.overflow in (Overflow.WRAP, Overflow.SAT_ZERO):
        yield _refused(
            layer, f"its result is {result}, in which a probability of 1 becomes 0", "give it AP_SAT or an integer bit"
        )
    if tables.kind == "argmax":
        return
    reach = reachable(layer)
    yield from _address_faults(layer, tables, reach)
    yield from _step_faults(layer, tables)
    greatest, causes = _exponential(layer, tables, reach)
    yield from causes
    sums = 1.0, classes * greatest
    yield from _sum_faults(layer, tables, sums[1], classes)
    yield from _judged(layer, _off(tables.inv_inp, tables.sizes[1], tables.inv, sums), sums, tables)
    if tables.kind == "latency":
        yield _latency_note(layer, classes)


def tables_of(layer: Any) -> Tables:
    """Return the types and tables of a Softmax.

    Raises UnsupportedLayerError for tables that hls4ml's C++ does not have, or reads outside their ends.
    """
    kind = _kind(layer)
    exp, accum, inv_inp, inv, result = (
        _type(layer, f"{of}_t") for of in ("exp_table", "accum", "inv_inp", "inv_table", "result")
    )
    if kind == "argmax":
        return Tables(kind, input_precision(layer), (0, 0), exp, accum, inv_inp, inv, result)
    address, sizes = _address(layer, kind), _sizes(layer, kind)
    for what, entries, of in (("exp", sizes[0], address), ("inv", sizes[1], inv_inp)):
        _check_size(layer, what, entries, of)
    return Tables(kind, address, sizes, exp, accum, inv_inp, inv, result)


def value_of(raw: int, precision: FixedPoint) -> float:
    """Return the number that a raw value represents."""
    return float(raw) * 2.0**-precision.fraction


def reachable(layer: Any) -> Range:
    """Return the smallest and largest number that can reach a layer.

    They are those of its input's type, or those of an earlier layer whose numbers arrive unchanged.
    """
    return _range(layer.get_input_node(layer.inputs[0]))


def _range(source: Any) -> Range:
    kind = result_precision(source)
    low, high = value_of(kind.min_raw, kind), value_of(kind.max_raw, kind)
    function = str(source.get_attr("activation")).lower() if source.class_name == "Activation" else ""
    if source.class_name not in _SAME_NUMBERS and function not in ("linear", "relu"):
        return low, high
    before = _range(source.get_input_node(source.inputs[0]))
    if function == "relu":
        before = max(before[0], 0.0), max(before[1], 0.0)
    if kind.overflow is Overflow.SAT or (low <= before[0] and before[1] <= high):
        return max(low, before[0]), min(high, before[1])
    return low, high


def _refused(layer: Any, why: str, remedy: str) -> UnsupportedLayerError:
    return UnsupportedLayerError(f"layer {layer.name!r}: {why}; {remedy}")


def _setting(layer: Any, key: str, value: str) -> str:
    return f"write {key}: {value!r} under hls4ml.LayerName.{layer.name}"


def _type(layer: Any, name: str) -> FixedPoint:
    held = layer.get_output_variable().type if name == "result_t" else layer.get_attr(name)
    return precision_of(held.precision, f"layer {layer.name!r}: {name}")


def _kind(layer: Any) -> str:
    if str(layer.get_attr("activation")) != "softmax":
        raise _refused(
            layer,
            "hls4ml 1.3.0 writes C++ for a Softmax layer that does not compile: it names the settings Softmax_config and looks "
            "for softmax_config",
            "use Activation('softmax')",
        )
    kind = str(layer.get_attr("implementation")).lower()
    if kind not in _IMPLEMENTATIONS:
        why = "whose table wraps from differences of 4.9 on" if kind == "legacy" else "which hls4ml does not know"
        raise _refused(layer, f"Implementation is {kind}, {why}", f"expected {', '.join(_IMPLEMENTATIONS)}")
    return kind


def _classes(layer: Any) -> int:
    """The number of elements of one softmax. Raises UnsupportedLayerError if hls4ml's covers others than the model's."""
    shape = tuple(int(size) for size in layer.get_input_variable(layer.inputs[0]).shape)
    axis = int(layer.get_attr("axis", -1))
    if axis not in (-1, len(shape)):
        raise _refused(
            layer, f"its axis is {axis} of {shape}, hls4ml's is the last", "permute the axes, or leave the softmax out"
        )
    if is_streamed(layer):
        return shape[-1]
    slices = int(layer.get_attr("n_outer", 1) or 1) * int(layer.get_attr("n_inner", 1) or 1)
    if prod(shape) != slices * shape[-1]:
        raise _refused(
            layer,
            f"its input is {shape}, and in io_parallel hls4ml takes one softmax over all {prod(shape)} elements, not over "
            f"the last {shape[-1]}",
            "use IOType io_stream, or leave the softmax out: the order of the numbers is the order of the probabilities",
        )
    return shape[-1]


def _sizes(layer: Any, kind: str) -> tuple[int, int]:
    """The number of entries of the two tables, as hls4ml's template determines them."""
    size = int(layer.get_attr("table_size") or 1024)
    exp_size, inv_size = (int(layer.get_attr(f"{name}_table_size") or size) for name in ("exp", "inv"))
    x = input_precision(layer)
    if kind == "stable" and layer.get_attr("inp_norm_t") is None and x.signed:
        exp_size = min(inv_size, 1 << (x.width - 1))
    return exp_size, inv_size


def _automatic(layer: Any) -> str:
    """A text for messages if the type of the layer's input is hls4ml's automatic one; otherwise empty."""
    source = layer.get_input_node(layer.inputs[0])
    asked = type(layer.model.config.get_precision(source, "result")[0]).__name__
    return f", hls4ml's automatic precision of layer {source.name!r}" if asked == "UnspecifiedPrecisionType" else ""


def _address(layer: Any, kind: str) -> FixedPoint:
    """The type whose top bits index the table of exponentials. Raises UnsupportedLayerError if it is too wide."""
    x = input_precision(layer)
    if kind == "latency":
        address = x
    elif layer.get_attr("inp_norm_t") is not None:
        address = _type(layer, "inp_norm_t")
    else:
        address = FixedPoint(x.width - x.signed, x.integer - x.signed, signed=False)
    if address.width > MAX_WIDTH:
        raise _refused(
            layer,
            f"its input is {x}{_automatic(layer)}: {address.width} bits are too many to index a table",
            _setting(layer, "inp_norm_t", NORMALISED),
        )
    return address


def _address_faults(layer: Any, tables: Tables, reach: Range) -> Iterator[UnsupportedLayerError]:
    address = tables.address
    spread, end = reach[1] - reach[0], value_of(address.max_raw, address)
    if tables.kind == "stable" and spread > end and address.overflow in (Overflow.WRAP, Overflow.SAT_ZERO):
        yield _refused(
            layer,
            f"its input is {input_precision(layer)}{_automatic(layer)}, whose numbers can be {spread:g} apart: hls4ml "
            f"subtracts each from the greatest in {address}, which "
            f"{'wraps' if address.overflow is Overflow.WRAP else 'gives 0'} beyond {end:g}: an unlikely class comes out likely",
            _setting(layer, "inp_norm_t", NORMALISED),
        )


def _check_size(layer: Any, what: str, entries: int, of: FixedPoint) -> None:
    if entries & (entries - 1) or not 1 < entries <= 1 << of.width:
        raise _refused(
            layer,
            f"its {what} table has {entries} entries, addressed by the top bits of {of}: the C++ reads outside it",
            f"set TableSize to a power of two up to {1 << of.width}",
        )


def _step_faults(layer: Any, tables: Tables) -> Iterator[UnsupportedLayerError]:
    address, entries = tables.address, tables.sizes[0]
    step = 2.0 ** (address.width - address.fraction - log2(entries))
    if step > _COARSE_STEP:
        yield _refused(
            layer,
            f"its input is {input_precision(layer)}{_automatic(layer)} and its table has {entries} entries, one every "
            f"{step:g}: all classes would come out equal",
            _setting(layer, "inp_norm_t", NORMALISED),
        )


def _exponential(layer: Any, tables: Tables, reach: Range) -> tuple[float, list[UnsupportedLayerError]]:
    """The largest number in the table, and an error if its entries are not exponentials."""
    of, stable = tables.exp, tables.kind == "stable"
    table = exp_values(tables.address, tables.sizes[0], of, negative=stable).raw.astype(np.float64) * 2.0**-of.fraction
    end, remedy, causes = value_of(of.max_raw, of), _setting(layer, "exp_table_t", "ap_ufixed<18,1,AP_RND,AP_SAT>"), []
    if stable and (abs(table[0] - 1) > _ROUGH or table.min() < 0):
        causes.append(_refused(layer, f"exp_table_t is {of}, in which exp(0) becomes {table[0]:g}", remedy))
    if not stable and (exp(reach[1]) > end + 1 or table.min() < 0):
        causes.append(
            _refused(
                layer,
                f"Implementation is latency and exp_table_t {of}: numbers above {log(end):.3g} come out equal, or wrapped, and "
                f"its input goes up to {reach[1]:g}",
                f"write Implementation: stable under hls4ml.LayerName.{layer.name}",
            )
        )
    return float(table.max()), causes


def _sum_faults(layer: Any, tables: Tables, greatest: float, classes: int) -> Iterator[UnsupportedLayerError]:
    for what, of in (("accum", tables.accum), ("inv_inp_t", tables.inv_inp)):
        if greatest > value_of(of.max_raw, of) + 2.0**-of.fraction * (of.overflow is Overflow.SAT):
            kind = sum_type(greatest)
            yield _refused(
                layer,
                f"{what} is {of}, up to {value_of(of.max_raw, of):g}, and the sum of {classes} exponentials goes up to "
                f"{greatest:g}: probabilities would come out wrong",
                f"{_setting(layer, 'inv_inp_t', kind)}, and accum: '{kind}' under its Precision",
            )


def _off(of: FixedPoint, entries: int, kind: FixedPoint, sums: Range) -> float:
    """The largest |factor * sum - 1| over all sums from sums[0] to sums[1], the factor being the table's reciprocal."""
    step = 2.0 ** (of.width - of.fraction - log2(entries))
    first, last = int(sums[0] / step), int(sums[1] / step)
    starts = np.arange(first, min(last, entries - 1) + 1) * step
    factors = inverse_values(of, entries, kind).raw[first : last + 1].astype(np.float64) * 2.0**-kind.fraction
    ends = np.minimum(starts + step, sums[1])
    return float(max(_error(factors, np.maximum(starts, sums[0])), _error(factors, ends)))


def _error(factors: Numbers, sums: Numbers) -> float:
    return float(np.abs(factors * sums - 1).max(initial=0.0))


def _judged(layer: Any, off: float, sums: Range, tables: Tables) -> Iterator[UnsupportedLayerError | str]:
    remedy = f"{_setting(layer, 'inv_inp_t', sum_type(sums[1]))}, and inv_table_t: '{INVERSE}'"
    of = tables.inv_inp
    step = 2.0 ** (of.width - of.fraction - log2(tables.sizes[1]))
    why = (
        f"its probabilities can be {100 * min(off, 10):.0f} % off: the table of reciprocals has an entry every {step:g}, for "
        f"sums from {sums[0]:g} to {sums[1]:g}"
    )
    if off > _WRONG:
        yield _refused(layer, why, remedy)
    elif off > _ROUGH:
        yield f"layer {layer.name!r}: {why}; {remedy}"


def _latency_note(layer: Any, classes: int) -> str:
    return (
        f"layer {layer.name!r}: Implementation is latency, correct only if the exponentials of its {classes} numbers sum to 1 "
        "or more; stable is always correct"
    )
