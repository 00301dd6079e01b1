# SPDX-License-Identifier: Apache-2.0
"""Reads the YAML beside a model file: precisions, scales, hls4ml's options, and the test rows of the conversion.

::

    name: facile                    # an identifier: the kernel's and the model's name
    part: xcu250-figd2104-2L-e      # default
    max_batch_size: 160000          # default
    input:
      name: rows
      precision: ap_fixed<18,10,AP_RND_CONV,AP_SAT>
      scale_exponents: [0, -3, ...] # one per element, or one number for all; default 0
      datatype: FP32                # on the wire: FP32 (default), or another key of DATATYPES (spec.py)
      shape: [18, 1]                # optional: shape on the wire, without the batch, with the same number of elements
      wire: ap_fixed<16,10>         # optional, for INT and UINT: their type; default: precision's binary point where it fits
      fields: [...]                 # instead of datatype: packed rows, or `table` with datatype UINT8 or UINT16; see fields.py
    output:
      name: energy
      scale_exponents: 0
      precision: ap_fixed<...>      # optional: the type of the last layer's result
    inputs:                         # instead of input, for a model with several: by the model's names, in any order
      calo: {precision: "ap_fixed<18,10>"}      # `name` (on the wire) defaults to the model's name
      track: {precision: "ap_fixed<12,4>", datatype: INT16}
    outputs:                        # instead of output; an output that is left out has all defaults
      energy: {scale_exponents: -10}
    hls4ml:                         # overrides config_from_keras_model(granularity="name")
      Model: {Precision: {default: "ap_fixed<18,8>"}, Strategy: distributed_arithmetic}
      LayerName: {dense_1: {Precision: {accum: "ap_fixed<32,12>"}}}
      IOType: io_parallel           # default; io_stream for images
    network: package.module:function    # for a zoo folder without a .h5: writes one to the given path (frontend/zoo_weights.py)
    gate:
      rows: package.module:function # () -> (rows, n_in) float32, as on the wire; a sequence of arrays for several inputs;
                                    # or a .npy or .npz file, from the YAML's directory (frontend/rows.py)
      tolerance: 0.05               # largest |answer - trained model's| of any output, in its units on the wire, on the rows
                                    # as given; or one per output by name; or none: nothing is refused. Without it, answers that
                                    # are far from the trained model's are refused (closeness/)
      quantised_tolerance: 0        # the same on the rows as the inputs' types keep them, before the wire rounds the answers
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.fixed import FixedPoint, PrecisionError
from hypersonic.hls.frontend.checks import DescriptionError, check_keys, integer, mapping
from hypersonic.hls.frontend.fields import KEYS, packed_datatype
from hypersonic.hls.frontend.gate import Gate, read_gate
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.frontend.zoo_weights import make_model
from hypersonic.hls.names import KEYWORDS, is_identifier
from hypersonic.hls.near import nearest
from hypersonic.hls.row import MAX_TENSORS
from hypersonic.hls.sources import source_files
from hypersonic.hls.spec import DATATYPES

__all__ = [
    "MAX_NAME_LENGTH", "MAX_SCALE_EXPONENT", "SUFFIXES", "ZOO", "DescriptionError", "Gate", "ModelDescription", "Side",
    "describe", "description_file", "find_model", "read_description", "read_zoo_yaml", "sides_of",
]  # fmt: skip

SUFFIXES = (".h5", ".keras", ".onnx")
ZOO = Path(__file__).resolve().parents[1] / "zoo"
_PART = "xcu250-figd2104-2L-e"
_MAX_BATCH_SIZE = 160_000

#: XRT names a compute unit <name>:<name>_<number> in 63 characters, and there are up to 128 of them
MAX_NAME_LENGTH = 29

#: a factor beyond 2**300 makes every float32 overflow or underflow
MAX_SCALE_EXPONENT = 300

_SIDES = (("input", "inputs"), ("output", "outputs"))
_FIELDS = {"name", "input", "inputs", "output", "outputs", "part", "max_batch_size", "hls4ml", "gate", "network"}
_SIDE_FIELDS = {"name", "precision", "scale_exponents", "datatype", "wire", "shape"}
_HLS4ML_FIELDS = {"Model", "LayerType", "LayerName", "IOType"}
_IO_TYPES = ("io_parallel", "io_stream")

_PART_NAME = re.compile(r"[A-Za-z0-9_-]+")  # it is written into Tcl scripts that Vitis runs


@dataclass(frozen=True)
class Side:
    """An input or output as the YAML describes it.

    Attributes:
        name: the name on the wire.
        fixed: the type inside the fabric; None: hls4ml's.
        scale_exponents: empty (all zero), one for all elements, or one per element (see TensorSpec).
        datatype, wire: as in TensorSpec.
        tensor: the model's name; None if the YAML describes the only input or output.
        shape: of one row on the wire; empty: the model's.
        packed: the YAML's `fields` or `table` under its key, which frontend/fields.py reads; empty for an input that is not
            packed.
    """

    name: str
    fixed: FixedPoint | None = None
    scale_exponents: tuple[int, ...] = ()
    datatype: str = "FP32"
    wire: FixedPoint | None = None
    tensor: str | None = None
    shape: tuple[int, ...] = ()
    packed: dict[str, Any] = field(default_factory=dict)

    def exponents(self, size: int) -> tuple[int, ...]:
        """Return the scale exponents of a tensor with `size` elements: one per element, or empty for all zero."""
        return self.scale_exponents * size if len(self.scale_exponents) == 1 else self.scale_exponents


@dataclass(frozen=True)
class ModelDescription:
    """A model file and its YAML.

    Attributes:
        file: the model file.
        name: the kernel's and the model's.
        inputs, outputs: as in the YAML; sides_of matches them with the model's tensors.
        part: the AMD part.
        max_batch_size: rows.
        hls4ml: the YAML's settings for hls4ml.
        network: the "module:function" that writes the model file, or None.
    """

    file: Path
    name: str
    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    part: str = _PART
    max_batch_size: int = _MAX_BATCH_SIZE
    hls4ml: dict[str, Any] = field(default_factory=dict)
    gate: Gate | None = None
    network: str | None = None

    @property
    def core(self) -> CoreKind:
        """The core that hls4ml's Strategy selects: rf if any layer's Strategy is Resource, da otherwise."""
        layers = [self.hls4ml.get("Model"), *(self.hls4ml.get("LayerName") or {}).values()]
        layers += (self.hls4ml.get("LayerType") or {}).values()
        strategies = {str((settings or {}).get("Strategy", "")).lower() for settings in layers}
        return CoreKind.RF if "resource" in strategies else CoreKind.DA


def sides_of(sides: tuple[Side, ...], names: Sequence[str], role: str) -> tuple[Side, ...]:
    """Return a YAML's descriptions of the tensors `names`, in that order; an output that it leaves out has all defaults.

    Args:
        role: "input" or "output".

    Raises:
        DescriptionError: If the YAML describes other tensors.
    """
    listed = ", ".join(names)
    if [side.tensor for side in sides] == [None]:
        if len(names) > 1:
            raise DescriptionError(f"the model has the {role}s {listed}: describe each by its name under {role}s, not {role}")
        return sides
    by_name = {side.tensor: side for side in sides}
    if unknown := sorted(str(name) for name in by_name.keys() - set(names)):
        raise DescriptionError(f"{role}s names {', '.join(unknown)}, the model has {listed}")
    if role == "input" and (missing := [name for name in names if name not in by_name]):
        raise DescriptionError(f"inputs does not name {', '.join(missing)}, expected each of {listed}, with its precision")
    return tuple(by_name.get(name, Side(name)) for name in names)


def zoo_models() -> tuple[str, ...]:
    """Return the names of the zoo's models, sorted."""
    return tuple(sorted(file.parent.name for file in source_files(ZOO, "*/*.yaml")))


def find_model(model: str) -> Path:
    """Return the model file for a zoo name or a path.

    The weights of a zoo model that ships without them are made from its seed the first time, which can take a minute. Raises
    DescriptionError, with the names in the zoo, if there is no such model, and ConversionError if its weights cannot be made.
    """
    path = Path(model)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise DescriptionError(f"model file {model} does not exist{_near(path)}")
        return path
    folder = ZOO / model
    files = [file for suffix in SUFFIXES if (file := folder / f"{model}{suffix}").is_file()]
    if not files and (described := folder / f"{model}.yaml").is_file():
        return _make(described, read_description(described).network)
    if not files:
        raise DescriptionError(
            f"model is {model!r}, expected a zoo name ({', '.join(zoo_models())}) or a path to a {', '.join(SUFFIXES)} file"
            f"{_near(path)}"
        )
    return files[0]


def _near(path: Path) -> str:
    """Return the zoo model, or the model file in the same directory, that a name resembles, for a message; "" for none."""
    files = sorted(file.name for file in path.parent.glob("*") if file.suffix in SUFFIXES)
    near = nearest(path.name, [*files, *zoo_models()])
    return f"; did you mean {path.with_name(near) if near in files else near}?" if near else ""


def _make(described: Path, network: str | None) -> Path:
    if network is None:
        raise DescriptionError(f"{described}: no model file beside it and no network that writes one, expected either")
    return make_model(described, network)


def read_zoo_yaml(model: str, zoo: Path = ZOO) -> object:
    """Return the parsed YAML of a zoo model, not checked; None if the zoo has no such model."""
    folder = zoo / model
    file = folder / f"{folder.name}.yaml"
    return _read_yaml(file) if folder.parent == zoo and file.is_file() else None


def describe(model: str, value: object = None) -> ModelDescription:
    """Find a model and read its description; the same as find_model and read_description, but the YAML is read only once.

    Raises as those functions do.

    Args:
        model: a zoo name or a path.
        value: the result of read_zoo_yaml(model), if the caller has it.
    """
    path = Path(model)
    described = ZOO / model / f"{model}.yaml"
    shipped = path.suffix in SUFFIXES or any(described.with_suffix(suffix).is_file() for suffix in SUFFIXES)
    if shipped or not described.is_file():
        return read_description(find_model(model), value)
    description = read_description(described, value)
    return replace(description, file=_make(described, description.network))


def description_file(model_file: Path) -> Path:
    """Return the path of the YAML beside a model file. Raises DescriptionError if it does not exist."""
    file = model_file.with_suffix(".yaml")
    if not file.is_file():
        raise DescriptionError(
            f"{file} does not exist; a model needs a YAML beside it with at least name, input and output: "
            f"write one with: hypersonic new {shlex.quote(str(model_file))}"
        )
    return file


def read_description(model_file: Path, value: object = None) -> ModelDescription:
    """Read the YAML beside a model file.

    Raises DescriptionError.

    Args:
        value: its parsed content, if the caller has it.
    """
    file = description_file(model_file)
    fields = _check_yaml(file, _read_yaml(file) if value is None else value)
    inputs, outputs = (_sides(file, fields, *words) for words in _SIDES)
    for side in inputs:
        if side.fixed is None and not uses_hgq(model_file):
            where = "input" if side.tensor is None else f"inputs.{side.tensor}"
            raise DescriptionError(
                f"{file}: {where}.precision is missing, expected for example ap_fixed<18,8,AP_RND_CONV,AP_SAT>"
            )
    return ModelDescription(
        file=model_file,
        name=_name(file, fields["name"]),
        inputs=inputs,
        outputs=outputs,
        part=_part(file, fields.get("part", _PART)),
        max_batch_size=integer(f"{file}: max_batch_size", fields.get("max_batch_size", _MAX_BATCH_SIZE), 1, (1 << 31) - 1),
        hls4ml=_hls4ml(file, fields),
        gate=read_gate(file, fields),
        network=_network(file, fields.get("network")),
    )


def _read_yaml(file: Path) -> object:
    try:
        value: object = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DescriptionError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    return value


def _check_yaml(file: Path, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DescriptionError(f"{file} holds {value!r:.80}, expected the fields name, input and output")
    if "backend" in value:
        raise DescriptionError(f"{file.stem} has no kernel: the server's backend {value['backend']} runs it on the host")
    check_keys(f"{file}", value, _FIELDS)
    missing = [words[0] for words in (*_SIDES, ("name",)) if not value.keys() & set(words)]
    if missing:
        raise DescriptionError(f"{file}: {', '.join(missing)} missing, expected name, input and output")
    return value


def _name(file: Path, name: Any) -> str:
    if not isinstance(name, str) or not is_identifier(name) or len(name) > MAX_NAME_LENGTH:
        raise DescriptionError(
            f"{file}: name is {name!r}, expected a letter, then letters, digits and single underscores, "
            f"{MAX_NAME_LENGTH} characters at most: it is the kernel's name"
        )
    if name in KEYWORDS:
        raise DescriptionError(f"{file}: name is {name!r}, a keyword or reserved name of Verilog or C++; choose another")
    return name


def _part(file: Path, part: Any) -> str:
    if not isinstance(part, str) or not _PART_NAME.fullmatch(part):
        raise DescriptionError(f"{file}: part is {part!r}, expected an AMD part such as {_PART}")
    return part


def _network(file: Path, network: Any) -> str | None:
    if network is not None and (not isinstance(network, str) or not all(network.partition(":"))):
        raise DescriptionError(f"{file}: network is {network!r}, expected 'module:function', which writes the .h5 it is given")
    return network


def _hls4ml(file: Path, value: dict[str, Any]) -> dict[str, Any]:
    options = mapping(f"{file}: hls4ml", value.get("hls4ml"), _HLS4ML_FIELDS)
    io_type = options.get("IOType", _IO_TYPES[0])
    if io_type not in _IO_TYPES:
        raise DescriptionError(f"{file}: hls4ml.IOType is {io_type!r}, expected {' or '.join(_IO_TYPES)}")
    for group, content in options.items():
        if group == "IOType":
            continue
        for layer, settings in mapping(f"{file}: hls4ml.{group}", content).items():
            if group != "Model":
                mapping(f"{file}: hls4ml.{group}.{layer}", settings)
    return {group: content for group, content in options.items() if content is not None}


def _sides(file: Path, value: dict[str, Any], one: str, several: str) -> tuple[Side, ...]:
    if one in value and several in value:
        raise DescriptionError(f"{file}: both {one} and {several}, expected one of them")
    if one in value:
        return (_side(file, value[one], one, None),)
    tensors = mapping(f"{file}: {several}", value[several])
    if (one == "input" and not tensors) or len(tensors) > MAX_TENSORS:
        raise DescriptionError(f"{file}: {several} describes {len(tensors)} tensors, expected 1 to {MAX_TENSORS} by name")
    for tensor in tensors:
        if not isinstance(tensor, str):
            raise DescriptionError(f"{file}: {several} describes {tensor!r}, expected a tensor's name, a text")
    return tuple(_side(file, content, f"{several}.{tensor}", tensor) for tensor, content in tensors.items())


def _side(file: Path, content: Any, where: str, tensor: str | None) -> Side:
    side = mapping(f"{file}: {where}", content, _SIDE_FIELDS | (KEYS if where.startswith("input") else set()))
    name = side.get("name", where if tensor is None else tensor)
    if not isinstance(name, str) or not name or not name.isprintable():
        raise DescriptionError(f"{file}: {where}.name is {name!r}, expected the tensor's name, printable text")
    packed = {key: side[key] for key in sorted(KEYS) if key in side}
    datatype = packed_datatype(f"{file}: {where}", side) if packed else side.get("datatype", "FP32")
    if datatype not in DATATYPES:
        raise DescriptionError(f"{file}: {where}.datatype is {datatype!r}, expected one of {', '.join(DATATYPES)}")
    fixed, wire = (_fixed(f"{file}: {where}", side, field) for field in ("precision", "wire"))
    exponents = _exponents(f"{file}: {where}.scale_exponents", side.get("scale_exponents", ()))
    shape = _shape(f"{file}: {where}.shape", side.get("shape", []))
    return Side(name, fixed, exponents, datatype, wire, tensor, shape, packed)


def _shape(where: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(
        isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in shape
    ):
        raise DescriptionError(f"{where} is {shape!r}, expected a list of positive integers")
    return tuple(shape)


def _fixed(where: str, side: dict[str, Any], field: str) -> FixedPoint | None:
    try:
        return FixedPoint.parse(str(side[field])) if side.get(field) else None
    except PrecisionError as error:
        raise DescriptionError(f"{where}.{field}: {error}") from error


def _exponents(where: str, value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(integer(where, exponent, -MAX_SCALE_EXPONENT, MAX_SCALE_EXPONENT) for exponent in values)
