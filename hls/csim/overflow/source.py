# SPDX-License-Identifier: Apache-2.0
"""Changes a copy of a project's C++ so that what is counted has a name: the layer, and the layer's variable.

Two typedefs of ap_fixed<16,6> are the same C++ type, and hls4ml's defaults give accumulators and results that type. So each
typedef of defines.h, and each that a layer's config in parameters.h writes out, gets a number, which travels as the type's last
template parameter (patch.py). A type alone does not say who used it: layers may share a typedef, and a layer copies its input
in the input's type. So the top function also sets the number of the layer before each call. ap_int and ap_uint
have no parameter for a tag; their variables are found by the layer and the width.

Some of hls4ml's functions compile only if two typedefs are the same C++ type: the thresholds of a ternary activation and its
input, for one. Then typedefs of the same text share a number (`shared`), and the variables of a layer that have the same type
are counted together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from hypersonic.hls.csim.overflow.patch import TAG_SHIFT, UnknownTypesError, patch
from hypersonic.hls.csim.source import prepare

ROWS = Path(__file__).with_name("rows.h")

_TYPEDEF = re.compile(r"^\s*typedef (.+?) (\w+);", re.MULTILINE)
_FIXED = re.compile(r"\bap_(u?)fixed<([^<>]*)>")
_INTEGER = re.compile(r"\bap_(u?)int<\s*(\d+)\s*>")
_CALL = re.compile(r"^    (\S.*\);)(?: // (\S+))?$")
_CALLS_OF = re.compile(r"^    // (\w+)$")
_ALIAS = re.compile(r"^ +auto ?& ?(\w+) = (\w+);", re.MULTILINE)
_TENSOR = re.compile(r"^(?:hls::stream<(\w+)>|(\w+)) ?&?(\w+)(?:\[[^\]]*\]|\(\"\w+\"\))?$")
_WORD = re.compile(r"\w+")

#: hls4ml's name of a field of a config -> the name under Precision in hls4ml's configuration
_PRECISIONS = {"accum_t": "accum", "weight_t": "weight", "bias_t": "bias", "scale_t": "scale"}


@dataclass(frozen=True)
class Typedef:
    """A type of a project that is counted.

    Attributes:
        tag: its number from 1.
        name: of the typedef, or `layer: field` if a config writes the type out.
        text: the C++ type.
        uses: the layers that name it, each with the layer's variable, such as ("fc1", "accum").
    """

    tag: int
    name: str
    text: str
    uses: tuple[tuple[str, str], ...]

    def use_in(self, layer: str) -> str | None:
        """The variables of a layer that have this type, or None."""
        return ", ".join(dict.fromkeys(variable for of, variable in self.uses if of == layer)) or None


@dataclass(frozen=True)
class Names:
    """The names of what is counted.

    Attributes:
        layers: in the order of their calls; layer k is layers[k - 1].
        typedefs: by tag - 1.
    """

    layers: tuple[str, ...]
    typedefs: tuple[Typedef, ...]


def names_of(firmware: Path, top: str, inputs: int, *, shared: bool = False) -> Names:
    """Read the names from hls4ml's C++.

    Args:
        inputs: how many of the top function's arguments are inputs.
        shared: as in rewrite.

    Raises:
        UnknownTypesError: If the top function has no calls of layers as hls4ml writes them.
    """
    code = (firmware / f"{top}.cpp").read_text()
    calls = [(layer, line) for layer, line in _lines(code) if layer]
    if not calls:
        raise UnknownTypesError(f"{top}.cpp has no call of a layer; expected C++ that hls4ml's Vivado or Vitis backend wrote")
    uses = [*_config_uses((firmware / "parameters.h").read_text()), *_result_uses(code, calls, inputs)]
    return Names(tuple(name for name, _ in calls), tuple(_typedefs(firmware, uses, shared=shared)))


def rewrite(firmware: Path, top: str, *, shared: bool = False) -> None:
    """Change a copy of hls4ml's firmware/ in place: its ap_types, its typedefs, and its top function.

    Args:
        shared: typedefs of the same text have the same number, and stay the same C++ type.

    Raises:
        UnknownTypesError: If the C++ is not hls4ml 1.3.0's.
    """
    patch(firmware / "ap_types")
    _say_uses(firmware / "nnet_utils")
    tags = iter(_tags(firmware, shared=shared))
    for name in ("defines.h", "parameters.h"):
        file = firmware / name
        file.write_text(_TYPEDEF.sub(lambda match: _tagged(match, next(tags)), file.read_text()))
    code = firmware / f"{top}.cpp"
    numbers = count(1)
    marked = [
        f"hypersonic_overflow::layer = {next(numbers)};{line}" if layer else line for layer, line in _lines(code.read_text())
    ]
    code.write_text("\n".join(marked) + f'\n#define HYPERSONIC_COUNTED {top}\n#include "{ROWS}"\n')
    prepare(firmware)


def _lines(code: str) -> Iterator[tuple[str, str]]:
    """Each line of the top function's file, with the layer that it computes, or "".

    hls4ml writes a layer's name behind its call, or in a line before its calls if there are several.
    """
    layer = ""
    for line in code.splitlines():
        if match := _CALLS_OF.match(line):
            layer = match[1]
        elif not line.startswith("    "):
            layer = ""
        call = _CALL.match(line)
        yield (call[2] or layer, line) if call else ("", line)


def _tagged(match: re.Match[str], tag: int) -> str:
    return match[0].replace(match[1], _FIXED.sub(lambda fixed: _with_tag(fixed, tag), match[1]))


def _tags(firmware: Path, *, shared: bool) -> list[int]:
    """The number of each typedef of defines.h and parameters.h, in this order."""
    files = (firmware / name for name in ("defines.h", "parameters.h"))
    texts = [match[1] for file in files for match in _TYPEDEF.finditer(file.read_text())]
    if not shared:
        return list(range(1, len(texts) + 1))
    kinds = [",".join(_parts(fixed)) if (fixed := _FIXED.search(text)) else "" for text in texts]
    return [kinds.index(kind) + 1 for kind in kinds]


def _parts(fixed: re.Match[str]) -> list[str]:
    """Whether it is unsigned, the width, integer bits, modes and saturated bits of an ap_fixed, with their defaults."""
    given = [part.strip() for part in fixed[2].split(",")]
    return [fixed[1], *given, *["", "", "AP_TRN", "AP_WRAP", "0"][len(given) :]]


def _with_tag(fixed: re.Match[str], tag: int) -> str:
    _, width, integer, rounding, overflow, bits = _parts(fixed)
    return f"ap_{fixed[1]}fixed<{width},{integer},{rounding},{overflow},({bits}) + {tag << TAG_SHIFT}>"


def _say_uses(nnet_utils: Path) -> None:
    """Where hls4ml's functions read a number's bits, say that it has left its variable."""
    for file in nnet_utils.glob("*.h"):
        text = file.read_text()
        changed = text.replace("in_data[j].V)", "(in_data[j].counted_leaves(), in_data[j].V))")
        changed = re.sub(r"    r\.V = x\.V;", "    x.counted_leaves();\n    r.V = x.V;", changed)
        if changed != text:
            file.write_text(changed)


def _typedefs(firmware: Path, uses: Sequence[tuple[str, str, str]], *, shared: bool) -> list[Typedef]:
    found = [
        (match[2], match[1], tuple((layer, variable) for layer, variable, name in uses if name == match[2]))
        for match in _TYPEDEF.finditer((firmware / "defines.h").read_text())
    ]
    for layer, field, text in _config_fields((firmware / "parameters.h").read_text()):
        found.append((f"{layer}: {field}", text, ((layer, _variable(field)),)))
    tags = _tags(firmware, shared=shared)
    together: dict[int, tuple[tuple[str, str], ...]] = {}
    for tag, (_, _, own) in zip(tags, found, strict=True):
        together[tag] = (*together.get(tag, ()), *own)
    return [Typedef(tag, name, text, together[tag]) for tag, (name, text, _) in zip(tags, found, strict=True)]


def _config_fields(parameters: str) -> Iterator[tuple[str, str, str]]:
    """(layer, field, type) of each typedef in the configs: a comment before a layer's configs has its name."""
    layer = ""
    for line in parameters.splitlines():
        if line.startswith("// "):
            layer = line[3:].strip()
        elif match := _TYPEDEF.match(line):
            yield layer, match[2], match[1]


def _config_uses(parameters: str) -> Iterator[tuple[str, str, str]]:
    for layer, field, text in _config_fields(parameters):
        yield layer, _variable(field), text


def _variable(field: str) -> str:
    return _PRECISIONS.get(field, field)


def _result_uses(code: str, calls: Sequence[tuple[str, str]], inputs: int) -> Iterator[tuple[str, str, str]]:
    """(layer, variable, type) of the tensors: the first call that names a tensor computes it."""
    tensors = dict(_tensors(code))
    aliases = {match[1]: match[2] for match in _ALIAS.finditer(code)}
    known = list(tensors)[:inputs]
    for name in known:
        yield name, "input", tensors[name]
    for layer, call in calls:
        named = [aliases.get(word, word) for word in _WORD.findall(call)]
        for tensor in dict.fromkeys(word for word in named if word in tensors):
            yield layer, "input" if tensor in known else "result", tensors[tensor]
            known.append(tensor)


def _tensors(code: str) -> Iterator[tuple[str, str]]:
    """(name, type) of each tensor: the top function's arguments, the inputs first, and those that it declares."""
    for line in code.splitlines():
        for part in line.strip().rstrip(";").split(","):
            if line.startswith("    ") and (match := _TENSOR.match(part.strip())):
                yield match[3], match[1] or match[2]


def integer_type(text: str) -> tuple[bool, int] | None:
    """(signed, width) of an ap_int or ap_uint, also inside an nnet::array; None for another type."""
    match = _INTEGER.search(text)
    return (not match[1], int(match[2])) if match else None


def fixed_text(text: str) -> str:
    """The ap_fixed, ap_ufixed, ap_int or ap_uint in a type such as nnet::array<ap_fixed<16,6>, 4*1>."""
    match = _FIXED.search(text) or _INTEGER.search(text)
    return match[0] if match else text
