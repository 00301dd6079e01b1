# SPDX-License-Identifier: Apache-2.0
"""Writes the YAML beside a user's model: types from the numbers that occur, and comments that explain each field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import ceil, floor, log2
from pathlib import Path

from hypersonic.hls.frontend.description import MAX_NAME_LENGTH, SUFFIXES, DescriptionError
from hypersonic.hls.frontend.survey import LayerSurvey, Numbers, Survey, TensorSurvey
from hypersonic.hls.names import Namespace, is_identifier

#: the width of a type (hls4ml's default), and the largest width, for numbers that span orders of magnitude
WIDTH, MOST_WIDTH = 16, 24

#: bits that the smallest of those numbers still has right of its leading one
_FINE_BITS = 8

#: numbers that did not occur may be larger than those that did
_ROOM = 1.25

#: weights up to which a network of Dense layers is unrolled into adders
MOST_UNROLLED = 4096

#: the most products of one layer that are computed at the same time, before multipliers are shared
_MOST_MULTIPLIERS = 512

#: layers of the da core, by Keras' class; Q is QKeras' prefix
_UNROLLED = {
    "Dense", "BatchNormalization", "ReLU", "Activation", "Add", "Subtract", "Average", "Maximum", "Minimum", "Concatenate",
    "Flatten", "Reshape", "Dropout",
}  # fmt: skip
_UNROLLED_ACTIVATIONS = ("linear", "relu", "quantized_relu", "quantized_bits", "quantized_linear")

#: layers whose result has the type of their input
_PASSING = {"Flatten", "Reshape", "Permute", "Dropout", "MaxPooling1D", "MaxPooling2D", "UpSampling2D", "InputLayer"}
#: layers of images and sequences, which io_stream takes pixel by pixel
_STREAMED = ("Conv", "Pooling", "ZeroPadding", "UpSampling")

#: words that YAML does not read as strings
_YAML_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

_LAYER_MODES, _SIDE_MODES = "AP_RND,AP_SAT", "AP_RND_CONV,AP_SAT"
_UNKNOWN = f"ap_fixed<{WIDTH},6,{{}}>"


def check_place(model: Path, output: Path | None, *, force: bool) -> Path:
    """Return where the YAML of a model file is written: `output`, or beside the model.

    Raises DescriptionError for a wrong suffix, a missing model, or a YAML that exists if not `force`.
    """
    if model.suffix not in SUFFIXES:
        raise DescriptionError(f"{model} has the suffix {model.suffix!r}, expected a model file: {', '.join(SUFFIXES)}")
    if not model.is_file():
        raise DescriptionError(f"model file {model} does not exist")
    place = output or model.with_suffix(".yaml")
    if place.exists() and not force:
        raise DescriptionError(f"{place} exists; --force replaces it, --output writes another file")
    return place


def describe_model(model: Path, found: Survey, rows: str | None, *, typed: bool = False) -> str:
    """Return the YAML's text.

    Args:
        rows: the path of the rows' file, relative to the YAML, as it is written into the gate; or None.
        typed: the types were trained with the model, as in HGQ2, so the YAML gives none.
    """
    name = Namespace().identifier(model.stem[: MAX_NAME_LENGTH - 2])
    layers = {layer.name: layer for layer in found.layers}
    lines = [
        f"# How {model.name} becomes a kernel. Written by `hypersonic new`; every line may be changed.",
        "# A type is ap_fixed<bits, bits left of the binary point>: ap_fixed<16,6> runs from -32 to 32 in steps of 2**-10.",
        "# AP_RND rounds to the nearest step, AP_SAT stops at the end of the range. Without them numbers are cut and wrap.",
        "# The model has trained its types, so that none are given here." if typed else
        f"# Types are from the numbers in {found.rows:,} rows of {rows}." if rows else
        "# No rows were given (--rows): weights have types of their own range, and all else is guessed as -32 to 32.",
        "",
        f"name: {name}  # of the kernel and of the served model",
        "max_batch_size: 160000  # rows of one request, at most",
        "",
        *_sides("input", found.inputs, partial(_input, typed=typed)),
        *_sides("output", found.outputs, lambda tensor: _output(tensor, layers.get(tensor.layer))),
        "",
        "hls4ml:  # merged into hls4ml's configuration; types that are left out are automatic and keep every bit",
        *(_typed_model() if typed else (*_model(found), *_layers(found))),
        "",
        *_gate(rows),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _sides(side: str, tensors: tuple[TensorSurvey, ...], lines: Callable[[TensorSurvey], Iterator[str]]) -> Iterator[str]:
    """Yield the lines of `input` or `output`, or those of `inputs` or `outputs` by name."""
    if len(tensors) == 1:
        yield f"{side}:"
        yield f"  name: {_quoted(tensors[0].name)}"
        yield from (f"  {line}" for line in lines(tensors[0]))
        return
    yield f"{side}s:  # by the model's names, which are the names on the wire"
    for tensor in tensors:
        yield f"  {_quoted(tensor.name)}:"
        yield from (f"    {line}" for line in lines(tensor))


def _input(tensor: TensorSurvey, *, typed: bool) -> Iterator[str]:
    if typed:
        yield "datatype: FP32"
        return
    kind = type_for(tensor.numbers, modes=_SIDE_MODES, fine=True) if tensor.numbers else _UNKNOWN.format(_SIDE_MODES)
    yield f'precision: "{kind}"{_about(tensor.numbers)}'
    yield "datatype: FP32  # FP16, BF16, INT8 or INT16 make rows smaller on the wire (docs/wire-formats.md)"


def _output(tensor: TensorSurvey, layer: LayerSurvey | None) -> Iterator[str]:
    yield "datatype: FP32"
    if layer is not None and layer.activation == "softmax":
        yield f'precision: "ap_ufixed<{WIDTH},0,{_SIDE_MODES}>"  # a probability'
    elif layer is not None and layer.result_automatic:
        kind = type_for(tensor.numbers, modes=_SIDE_MODES) if tensor.numbers else _UNKNOWN.format(_SIDE_MODES)
        yield f'precision: "{kind}"{_about(tensor.numbers)}'


def _about(numbers: Numbers | None) -> str:
    return f"  # {numbers.least:.4g} to {numbers.greatest:.4g} in the rows" if numbers else ""


def _quoted(text: str) -> str:
    return text if is_identifier(text) and text.lower() not in _YAML_WORDS else json.dumps(text, ensure_ascii=False)


def _model(found: Survey) -> Iterator[str]:
    weights = [numbers for layer in found.layers for numbers in layer.weights.values()]
    largest = max((max(-numbers.least, numbers.greatest) for numbers in weights), default=0.0)
    streamed = any(word in layer.kind for layer in found.layers for word in _STREAMED)
    if streamed:
        yield "  IOType: io_stream  # pixel by pixel; io_parallel takes a whole row at once"
    yield "  Model:"
    yield f'    Precision: {{default: "ap_fixed<{WIDTH},{max(6, integer_bits(largest) + 1)}>"}}'
    if not streamed and is_unrolled(found):
        yield "    # adders of its own for every product, and a row every clock; Resource shares multipliers (docs/rf-core.md)"
        yield "    Strategy: distributed_arithmetic"
        return
    yield "    # layers share multipliers; distributed_arithmetic unrolls small networks into adders (docs/kernel.md)"
    yield "    Strategy: Resource"
    yield "    # products that one multiplier computes for a result: more is smaller and slower; `--fit u250` chooses for you"
    yield f"    ReuseFactor: {reuse_factor(found)}"


def _typed_model() -> Iterator[str]:
    yield "  Model:"
    yield "    # adders of its own for every product, and a row every clock; Resource shares multipliers (docs/rf-core.md)"
    yield "    Strategy: distributed_arithmetic"


def is_unrolled(found: Survey) -> bool:
    """Return whether the da core computes all layers and the network is small enough to be unrolled."""
    plain = all(
        layer.kind.removeprefix("Q") in _UNROLLED and (layer.activation or "linear").startswith(_UNROLLED_ACTIVATIONS)
        for layer in found.layers
    )
    return plain and bool(found.layers) and sum(layer.count for layer in found.layers) <= MOST_UNROLLED


def reuse_factor(found: Survey) -> int:
    """Return the lowest power of two with which no layer needs more than _MOST_MULTIPLIERS multipliers."""
    return 1 << max(0, *(ceil(log2(layer.count / _MOST_MULTIPLIERS)) for layer in found.layers if layer.count), 0)


def _layers(found: Survey) -> Iterator[str]:
    lines = [line for layer in found.layers for line in _layer(layer)]
    if lines:
        yield "  LayerName:"
        yield from lines


def _layer(layer: LayerSurvey) -> Iterator[str]:
    types = {
        key: type_for(numbers, modes="", fine=key == "scale")
        for key, numbers in layer.weights.items()
        if key in layer.automatic and key.endswith(("weight", "bias", "scale"))
    }
    if layer.activation == "softmax" and layer.result == layer.name:
        yield from _softmax(layer)
    elif layer.activation == "softmax":
        yield from _entry(layer.name, {**types, "result": _kind(layer.before, unsigned=False)}, layer.before)
        yield from _softmax(layer)
    elif layer.result != layer.name and layer.result_automatic:
        yield from _entry(layer.name, types, None)
        if not layer.is_output:
            yield from _entry(layer.result, {"result": _kind(layer.numbers)}, layer.numbers)
    elif layer.result_automatic and not (layer.is_output or layer.followed_by or layer.kind in _PASSING):
        yield from _entry(layer.name, {**types, "result": _kind(layer.numbers)}, layer.numbers)
    else:
        yield from _entry(layer.name, types, None)


def _kind(numbers: Numbers | None, *, unsigned: bool = True) -> str:
    return type_for(numbers, modes=_LAYER_MODES, unsigned=unsigned) if numbers else _UNKNOWN.format(_LAYER_MODES)


def _entry(name: str, types: Mapping[str, str], numbers: Numbers | None) -> Iterator[str]:
    if types:
        inner = ", ".join(f'{key}: "{kind}"' for key, kind in types.items())
        yield f"    {_quoted(name)}: {{Precision: {{{inner}}}}}{_about(numbers)}"


def _softmax(layer: LayerSurvey) -> Iterator[str]:
    """Yield types for hls4ml's tables with which close logits get different probabilities and distant ones do not wrap."""
    bits = max(1, ceil(log2(layer.classes))) + 1
    yield "    # hls4ml's default tables look the reciprocal up in steps of a quarter; these have 1/1024 of their range"
    yield f"    {_quoted(layer.result)}:"
    yield f'      Precision: {{accum: "ap_ufixed<20,{bits}>"}}'
    yield '      inp_norm_t: "ap_ufixed<14,4,AP_RND,AP_SAT>"  # the largest logit minus each, up to 16: exp(-16) is 0'
    yield '      exp_table_t: "ap_ufixed<18,1,AP_RND,AP_SAT>"'
    yield f'      inv_inp_t: "ap_ufixed<20,{bits}>"  # the sum of {layer.classes} exponentials'
    yield '      inv_table_t: "ap_ufixed<18,1,AP_RND,AP_SAT>"'


def _gate(rows: str | None) -> Iterator[str]:
    yield "# The build compares the answers that a client gets with the trained model's on these rows, and refuses a network"
    yield "# that is far from it: an rms difference above 5 % of the answers' spread. A tolerance, the largest difference of an"
    yield "# output in its units, decides instead; none accepts any."
    if rows is None:
        yield "# gate:"
        yield "#   rows: rows.npy  # .npy, or .npz with an array for each input; from this file's directory"
        yield "#   tolerance: 0.05"
        return
    yield "gate:"
    yield f"  rows: {json.dumps(rows, ensure_ascii=False)}"
    yield "  # tolerance: 0.05"


def type_for(numbers: Numbers, *, modes: str, fine: bool = False, unsigned: bool = False) -> str:
    """Return an ap_fixed type that holds the numbers, with room for numbers that are larger by a quarter.

    Args:
        modes: rounding and overflow, such as "AP_RND,AP_SAT"; "" for hls4ml's.
        fine: make the type wider, up to MOST_WIDTH, where the smallest element would have few bits.
        unsigned: ap_ufixed if no number is negative.
    """
    is_signed = numbers.least < 0 or not unsigned
    integer = integer_bits(max(abs(numbers.least), abs(numbers.greatest))) + is_signed
    width = WIDTH
    if fine and numbers.finest > 0:
        width = min(MOST_WIDTH, max(width, integer + _FINE_BITS - floor(log2(numbers.finest))))
    return f"ap_{'' if is_signed else 'u'}fixed<{width},{integer}{f',{modes}' if modes else ''}>"


def integer_bits(largest: float) -> int:
    """Return the bits left of the binary point that a magnitude needs, with room; negative for small ones. 0 needs none."""
    return ceil(log2(largest * _ROOM)) if largest > 0 else 0
