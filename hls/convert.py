# SPDX-License-Identifier: Apache-2.0
"""A model file and the YAML beside it -> an HLS project and a core, in a process of its own:

    python -m hypersonic.hls.convert MODEL --output DIR [--core da|rf|csim]

Alone with hls4ml's two loaders (keras_model.py, onnx_model.py) and the plugin (hls4ml_backend.py, passes.py) this
touches hls4ml and TensorFlow, which take seconds to import and must see Keras 2. Refusals go to standard error, exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.gate import compare, modules_beside
from hypersonic.hls.da.read import TensorType, multiplications, read_network, tensor_types, vocabularies
from hypersonic.hls.da.write import write_core
from hypersonic.hls.errors import ConversionError, UnsupportedLayerError
from hypersonic.hls.frontend.description import DescriptionError, ModelDescription, Side, find_model, read_description, sides_of
from hypersonic.hls.frontend.keras.names import in_the_models_names, translated
from hypersonic.hls.frontend.notes import hls4ml_warnings, notes
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.frontend.reuse import check_own_settings
from hypersonic.hls.frontend.settings import check_settings, spread_model_settings
from hypersonic.hls.frontend.trained import Tensor, TrainedModel
from hypersonic.hls.frontend.traps import check_graph
from hypersonic.hls.plugin.refusal import naming_rf
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rf.fit.exchange import card_from_json, fit_to_json
from hypersonic.hls.rf.fit.search import fit, with_design
from hypersonic.hls.rf.read import read_rf_network
from hypersonic.hls.rf.write import write_rf_core
from hypersonic.hls.row import Row
from hypersonic.hls.spec import SpecMismatchError, TensorSpec
from hypersonic.hls.verilator import MissingToolError

#: begins every line of standard output that is progress, not hls4ml's talk
PROGRESS = "hypersonic: "

#: begins the one line of standard error that says what was refused
REFUSAL = "hypersonic refuses: "

#: in the model's order
Sides = tuple[Side, ...]

#: layers that hls4ml fuses others into
_FUSED = ("Dense", *(f"{kind}Conv{n}D" for kind in ("", "Pointwise", "Depthwise") for n in (1, 2)))

_TOOLS = ("hls4ml", "da4ml", "numpy", "tensorflow-cpu", "tf-keras", "qkeras", "verilator")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hypersonic.hls.convert", description="model -> HLS project and RTL core")
    parser.add_argument("model", help="a zoo name or a path to a .h5, .keras or .onnx file with a YAML beside it")
    parser.add_argument("--output", type=Path, required=True, help="directory to write")
    parser.add_argument("--core", choices=("da", "rf", "csim"), default="da")
    parser.add_argument("--card", default="", metavar="JSON", help="rf: take reuse factors that fill this card")
    arguments = parser.parse_args(argv)
    try:
        convert(find_model(arguments.model), arguments.output, core=arguments.core, card=arguments.card)
    except (ConversionError, SpecMismatchError, MissingToolError) as error:
        sys.stderr.write(f"{REFUSAL}{' '.join(str(error).split())}\n")
        return 2
    return 0


def convert(model_file: Path, directory: Path, *, core: str, card: str = "") -> HlsProject:
    """Write the project into `directory` and return it. core: "da", "rf" or "csim" (none). card: JSON (fit/exchange.py), or "".

    Raises ConversionError.
    """
    description = read_description(model_file)
    _say(f"loading {model_file.name}")
    trained = load_trained(model_file)
    directory.mkdir(parents=True, exist_ok=True)
    _say("converting with hls4ml")
    inputs = sides_of(description.inputs, [tensor.name for tensor in trained.inputs], "input")
    outputs = sides_of(description.outputs, [tensor.name for tensor in trained.outputs], "output")
    if description.gate:
        description.gate.check([tensor.name for tensor in trained.outputs])
    with in_the_models_names(trained.names):
        graph, said = _graph(trained, description, inputs, outputs, directory / "hls", core)
        project = _project(description, trained, inputs, outputs, graph, directory)
        made = _write_core(core, card, graph, project) if core != "csim" else {}
    report: dict[str, Any] = {"notes": said, "multiplications": multiplications(graph), **made}
    if made:
        report["notes"] = [*said, *report["core"].get("notes", ())]
    _say("compiling hls4ml's C++")
    csim = Csim(compile_csim(project), project)
    _say("comparing with the trained model")
    with modules_beside(model_file):
        report["gate"] = compare(csim, trained, description.gate, vocabularies(graph))
    project = replace(project, report=report)
    project.save()
    return project


def _write_core(core: str, card: str, graph: Any, project: HlsProject) -> dict[str, Any]:
    """The RTL; its figures as "core", and how its reuse factors were found as "fit" where a card was to be filled."""
    where = project.name, project.inputs, project.outputs, project.core
    if core == "da":
        _say("factoring the weights into adders")
        with naming_rf(graph):
            return {"core": write_core(read_network(graph), *where, _say)[1]}
    network, report = read_rf_network(graph), {}
    if card:
        _say("searching the reuse factors that fill the card")
        room = replace(card_from_json(json.loads(card)), x_bytes=project.inputs.row_bytes, y_bytes=project.outputs.row_bytes)
        found = fit(network, room)
        network, report["fit"] = with_design(network, found.chosen.design), fit_to_json(found)
    _say("planning the layers' multipliers and memories")
    return {**report, "core": write_rf_core(network, *where)[1]}


def _graph(
    trained: TrainedModel, description: ModelDescription, inputs: Sides, outputs: Sides, directory: Path, core: str
) -> tuple[Any, list[str]]:
    """hls4ml's ModelGraph, its HLS project written into `directory`, and what it made of what was asked, in lines."""
    options = dict(description.hls4ml)
    io_type = options.pop("IOType", "io_parallel")
    options["LayerName"] = translated(trained.names, options.get("LayerName") or {})
    config = _config(trained, options, inputs, outputs, unrolled=core == "da")
    from hypersonic.hls.plugin.hls4ml_backend import possible_settings  # a plugin of hls4ml, which the loader has imported

    try:
        with hls4ml_warnings() as heard, possible_settings():
            graph = trained.convert(config, directory, description.name, description.part, io_type)
    except Exception as error:
        raise ConversionError(f"hls4ml does not convert the model: {type(error).__name__}: {error}") from error
    _settle_outputs(graph, trained)
    _pin_fused(graph, trained, outputs, config["LayerName"])
    check_graph(graph)
    if core == "csim":  # da unrolls all, rf computes with the factors that were asked for, whatever the C++ takes
        check_own_settings(graph, options)
    snap_weights(graph)
    graph.write()
    repair(directory)
    called = [f"layer {old!r} is called {new!r} in the HLS project" for old, new in trained.names.items()]
    return graph, [*called, *trained.notes, *notes(graph, options, core), *heard]


def _say(line: str) -> None:
    sys.stdout.write(f"{PROGRESS}{line}\n")
    sys.stdout.flush()


def load_trained(model_file: Path) -> TrainedModel:
    """A .h5, .keras or .onnx file by the framework that reads it. Raises ConversionError."""
    if model_file.suffix == ".onnx":
        from hypersonic.hls.frontend.onnx.model import load_onnx

        return load_onnx(model_file)
    from hypersonic.hls.frontend.keras.model import load_keras, use_keras_2

    use_keras_2()
    return load_keras(model_file)


def _config(trained: TrainedModel, options: dict[str, Any], inputs: Sides, outputs: Sides, *, unrolled: bool) -> dict[str, Any]:
    """hls4ml's configuration: its own proposal, the YAML's words over it, the inputs' (and outputs') types over both."""
    check_settings(options, trained.config)
    named = {layer: settings or {} for layer, settings in options.get("LayerName", {}).items()}
    config: dict[str, Any] = _merged(trained.config, {**options, "LayerName": named})
    config["LayerName"] = layers = spread_model_settings(options, config["LayerName"])
    unknown = named.keys() - trained.config.get("LayerName", {}).keys()
    if unknown:
        raise DescriptionError(f"hls4ml.LayerName names {sorted(unknown)}, the model has {sorted(trained.config['LayerName'])}")
    for layer, settings in named.items():
        if f"{layer}_linear" not in named:
            _pin_linear(layers, layer, settings)
    for side, tensor in (*zip(inputs, trained.inputs, strict=True), *zip(outputs, trained.outputs, strict=True)):
        if side.fixed:
            _pin(layers, tensor.layer, str(side.fixed))
            _pin_linear(layers, tensor.layer, layers[tensor.layer])
    for layer, before in reversed(trained.linear):
        _pin_before(layers, layer, before)
    _check_branches(trained, layers)
    for settings in (config["Model"], *layers.values()):
        # the da strategy of hls4ml 1.3.0 wants an older da4ml than the core; all compute the same bits
        if str(settings.get("Strategy", "")).lower() in ("distributed_arithmetic", "da"):
            settings["Strategy"] = "Latency"
        if unrolled and "Strategy" in settings:
            settings.update(Strategy="Latency", ReuseFactor=1)
    return config


def _pin(layers: dict[str, Any], layer: str, precision: str) -> None:
    options = layers.setdefault(layer, {})
    previous = options.get("Precision")
    options["Precision"] = {**(previous if isinstance(previous, dict) else {}), "result": precision}


def _pin_linear(layers: dict[str, Any], layer: str, options: Any) -> None:
    """hls4ml gives every Dense a linear activation of its own and keeps that one's type, whatever the layer's was set to."""
    precision = options.get("Precision") if isinstance(options, dict) else None
    if isinstance(precision, dict) and "result" in precision and f"{layer}_linear" in layers:
        _pin(layers, f"{layer}_linear", precision["result"])


def _pin_before(layers: dict[str, Any], layer: str, before: str) -> None:
    """hls4ml 1.3.0 removes a linear quantiser behind a layer of automatic type, its own type with it: give it to that layer."""
    result = _result(layers, layer)
    if result != "auto" and _result(layers, before) == "auto":
        _pin(layers, before, result)
        if f"{before}_linear" in layers:
            _pin(layers, f"{before}_linear", result)


def _check_branches(trained: TrainedModel, layers: dict[str, Any]) -> None:
    for layer, before in trained.branching:
        if _result(layers, layer) != "auto" and _result(layers, before) == "auto":
            raise UnsupportedLayerError(
                f"layer {layer!r}: it quantises one branch behind layer {before!r}, whose type is automatic, and hls4ml would "
                f"leave it out; give {before!r} a result precision of its own"
            )


def _result(layers: dict[str, Any], layer: str) -> str:
    precision = layers.get(layer, {}).get("Precision", "auto")
    return str(precision.get("result", "auto") if isinstance(precision, dict) else precision)


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **over, **{key: _merged(base[key], over[key]) for key in base.keys() & over.keys()}}
    return over


def _settle_outputs(graph: Any, trained: TrainedModel) -> None:
    """An output that is a Reshape is what it reshapes: hls4ml 1.3.0 says so of one Reshape, but not of one after another.

    Raises ConversionError for outputs that hls4ml lost or that became one.
    """
    made_by = {tensor: layer for layer in graph.get_layers() for tensor in layer.outputs}
    for index, output in enumerate(graph.outputs):
        tensor = output
        while made_by[tensor].class_name == "Reshape":
            tensor = made_by[tensor].inputs[0]
        graph.outputs[index] = tensor
    if len(set(graph.outputs)) != len(trained.outputs) or set(graph.outputs) & set(graph.inputs):
        raise ConversionError(
            f"the model's outputs are {', '.join(tensor.name for tensor in trained.outputs)}, what hls4ml makes of them is "
            f"{', '.join(graph.outputs) or 'nothing'}: an output must be computed, and by a layer of its own; leave out a last "
            "layer that only passes its numbers on (Dropout, Reshape, a linear Activation)"
        )


def _pin_fused(graph: Any, trained: TrainedModel, outputs: Sides, layers: dict[str, Any]) -> None:
    """hls4ml makes one layer of a dense and the bias or normalisation behind it and forgets the type of the latter."""
    present = {layer.name: layer for layer in graph.get_layers()}
    for behind, before in trained.fused:
        if behind not in present and before in present and _result(layers, behind) != "auto":
            _retype(graph, present[before], _result(layers, behind))
    made_by = {tensor: layer for layer in present.values() for tensor in layer.outputs}
    for side, tensor in zip(outputs, graph.outputs, strict=True):
        if side.fixed and made_by[tensor].class_name in _FUSED:
            _retype(graph, made_by[tensor], str(side.fixed))


def _retype(graph: Any, layer: Any, precision: str) -> None:
    kind = layer.get_output_variable().type
    kind.precision = copy(kind.precision)  # which other layers may have too
    vars(kind.precision).update(vars(graph.config.backend.convert_precision_string(precision)))


def snap_weights(graph: Any) -> None:
    """Put every constant on its type's grid, to nearest: ap_fixed would truncate, and wrap what does not fit.

    Raises UnsupportedLayerError for a constant outside its type's range.
    """
    for layer in graph.get_layers():
        for name, variable in layer.weights.items():
            precision = variable.type.precision
            if not type(precision).__name__.endswith("FixedPrecisionType") or type(variable.type).__name__ == "ExponentType":
                continue
            if not np.isfinite(variable.data).all():
                raise UnsupportedLayerError(f"layer {layer.name!r}: {name} holds NaN or infinity; train the model again")
            lsb = 2.0 ** (int(precision.integer) - int(precision.width))
            high = 2.0 ** (int(precision.integer) - bool(precision.signed)) - lsb
            low = -(high if str(precision.saturation_mode) == "SAT_SYM" else high + lsb) if precision.signed else 0.0
            snapped = np.clip(np.rint(np.asarray(variable.data, dtype=np.float64) / lsb) * lsb, low, high)
            worst = float(np.abs(snapped - variable.data).max(initial=0.0))
            if worst > lsb / 2:  # rounding moves no constant further; what is further off did not fit
                raise UnsupportedLayerError(
                    f"layer {layer.name!r}: {name} runs from {variable.data.min():g} to {variable.data.max():g}, its type "
                    f"{precision} from {low:g} to {high:g}; give it more integer bits under "
                    f"hls4ml.LayerName.{layer.name}.Precision.{name}"
                )
            variable.data = snapped


def _row(sides: Sides, tensors: tuple[Tensor, ...], types: tuple[TensorType, ...], role: str) -> Row:
    try:
        specs = [_tensor(*described, role) for described in zip(sides, tensors, types, strict=True)]
        return Row(tuple(specs))
    except SpecMismatchError as error:
        raise DescriptionError(str(error)) from error


def _tensor(side: Side, tensor: Tensor, made: TensorType, role: str) -> TensorSpec:
    if prod(made.shape) != tensor.size:
        raise ConversionError(f"{role} {tensor.name!r}: shape is {tensor.shape}, hls4ml makes it {made.shape}")
    if side.fixed not in (None, made.fixed):
        raise ConversionError(
            f"{role} {tensor.name!r}: precision is {side.fixed}, hls4ml makes it {made.fixed}: layer {made.layer!r} has a type "
            "of its own, maybe a quantiser's; leave the precision out or say the same there"
        )
    if side.shape and prod(side.shape) != tensor.size:
        raise DescriptionError(f"{role} {tensor.name!r}: shape on the wire is {side.shape}, the model's is {tensor.shape}")
    return TensorSpec(side.name, side.shape or tensor.shape, made.fixed, side.datatype, side.exponents(tensor.size), side.wire)


def _project(
    description: ModelDescription, trained: TrainedModel, inputs: Sides, outputs: Sides, graph: Any, directory: Path
) -> HlsProject:
    x, y = tensor_types(graph)
    return HlsProject(
        path=directory,
        name=description.name,
        inputs=_row(inputs, trained.inputs, x, "input"),
        outputs=_row(outputs, trained.outputs, y, "output"),
        part=description.part,
        tools={name: version(name) for name in _TOOLS},
        max_batch_size=description.max_batch_size,
    )


if __name__ == "__main__":
    sys.exit(main())
