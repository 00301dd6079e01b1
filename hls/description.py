# SPDX-License-Identifier: Apache-2.0
"""What the YAML beside a model file says: precisions, scales, hls4ml's options, and the rows the conversion is judged on.

name: facile                        # an identifier: the kernel's and the model's name
part: xcu250-figd2104-2L-e          # default
max_batch_size: 160000              # default
input:
  name: rows
  precision: ap_fixed<18,10,AP_RND_CONV,AP_SAT>
  scale_exponents: [0, -3, ...]     # one per element, or one number for all; default 0
output:
  name: energy
  scale_exponents: 0
  precision: ap_fixed<...>          # optional: the last layer's result
hls4ml:                             # laid over config_from_keras_model(granularity="name")
  Model: {Precision: {default: "ap_fixed<18,8>"}, Strategy: distributed_arithmetic}
  LayerName: {dense_1: {Precision: {accum: "ap_fixed<32,12>"}}}
gate:
  rows: package.module:function     # () -> (rows, n_in) float32, as on the wire
  tolerance: 0.05                   # greatest |csim - Keras| of any output, in its units on the wire
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.fixed import FixedPoint, PrecisionError
from hypersonic.hls.project import ConversionError

SUFFIXES = (".h5", ".keras", ".onnx")
ZOO = Path(__file__).resolve().parent / "zoo"
_PART = "xcu250-figd2104-2L-e"
_FIELDS = {"name", "part", "max_batch_size", "input", "output", "hls4ml", "gate"}


class DescriptionError(ConversionError):
    """A model that is not there, or a YAML beside it that does not describe one: file, field, got, expected."""


@dataclass(frozen=True)
class Side:
    """Input or output as the YAML gives it. scale_exponents: empty, one for all, or one per element."""

    name: str
    fixed: FixedPoint | None
    scale_exponents: tuple[int, ...]

    def exponents(self, size: int) -> tuple[int, ...]:
        return self.scale_exponents * size if len(self.scale_exponents) == 1 else self.scale_exponents


@dataclass(frozen=True)
class Gate:
    """rows: "module:function". tolerance: greatest |csim - Keras| allowed, of any output, in its units on the wire."""

    rows: str
    tolerance: float


@dataclass(frozen=True)
class ModelDescription:
    """One model file and the YAML beside it."""

    file: Path
    name: str
    input: Side
    output: Side
    part: str = _PART
    max_batch_size: int = 160_000
    hls4ml: dict[str, Any] = field(default_factory=dict)
    gate: Gate | None = None


def find_model(model: str) -> Path:
    """A zoo name or a path -> the model file, its YAML beside it. Raises DescriptionError with the names there are."""
    path = Path(model)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise DescriptionError(f"model file {model} does not exist")
        return path
    folder = ZOO / model
    found = [file for suffix in SUFFIXES if (file := folder / f"{model}{suffix}").is_file()]
    if not found:
        names = sorted(file.parent.name for file in ZOO.glob("*/*.yaml"))
        raise DescriptionError(
            f"model is {model!r}, expected a zoo name ({', '.join(names)}) or a path to a {', '.join(SUFFIXES)} file"
        )
    return found[0]


def description_file(model_file: Path) -> Path:
    """The YAML beside a model file. Raises DescriptionError when it is missing."""
    file = model_file.with_suffix(".yaml")
    if not file.is_file():
        raise DescriptionError(f"{file} does not exist; a model needs a YAML beside it with at least name, input and output")
    return file


def read_description(model_file: Path) -> ModelDescription:
    """Read the YAML beside a model file. Raises DescriptionError naming the field."""
    file = description_file(model_file)
    try:
        value = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise DescriptionError(f"{file} is not YAML: {error}") from error
    if not isinstance(value, dict) or not {"name", "input", "output"} <= value.keys() <= _FIELDS:
        keys = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise DescriptionError(f"{file}: the fields are {keys}, expected name, input, output and perhaps {sorted(_FIELDS)}")
    source = _side(file, value, "input")
    if source.fixed is None:
        raise DescriptionError(f"{file}: input.precision is missing, expected for example ap_fixed<18,8,AP_RND_CONV,AP_SAT>")
    return ModelDescription(
        file=model_file,
        name=str(value["name"]),
        input=source,
        output=_side(file, value, "output"),
        part=str(value.get("part", _PART)),
        max_batch_size=int(value.get("max_batch_size", 160_000)),
        hls4ml=_hls4ml(file, _mapping(file, value, "hls4ml")),
        gate=_gate(file, _mapping(file, value, "gate")),
    )


def _mapping(file: Path, value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name) or {}
    if not isinstance(found, dict):
        raise DescriptionError(f"{file}: {name} is {found!r}, expected a mapping")
    return found


def _hls4ml(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    unknown = options.keys() - {"Model", "LayerType", "LayerName"}
    if unknown:
        raise DescriptionError(
            f"{file}: hls4ml has {sorted(unknown)}, expected Model, LayerType, LayerName; layers go under LayerName"
        )
    return options


def _side(file: Path, value: dict[str, Any], name: str) -> Side:
    side = _mapping(file, value, name)
    exponents = side.get("scale_exponents", ())
    exponents = (exponents,) if isinstance(exponents, int) else tuple(exponents)
    if not all(isinstance(exponent, int) for exponent in exponents):
        raise DescriptionError(f"{file}: {name}.scale_exponents is {exponents}, expected integers")
    try:
        fixed = FixedPoint.parse(str(side["precision"])) if side.get("precision") else None
    except PrecisionError as error:
        raise DescriptionError(f"{file}: {name}.{error}") from error
    return Side(str(side.get("name", name)), fixed, exponents)


def _gate(file: Path, gate: dict[str, Any]) -> Gate | None:
    if not gate:
        return None
    rows, tolerance = str(gate.get("rows", "")), gate.get("tolerance")
    if ":" not in rows or not isinstance(tolerance, int | float):
        raise DescriptionError(f"{file}: gate is {gate}, expected rows: 'module:function' and tolerance: a number")
    return Gate(rows, float(tolerance))
