# SPDX-License-Identifier: Apache-2.0
"""Converts a trained model with hls4ml: gives the ModelGraph after hls4ml's optimisers, and writes its HLS project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.errors import ELSEWHERE, ConversionError, Edit, UnsupportedLayerError, layer_place
from hypersonic.hls.frontend.checks import local_of, said_by
from hypersonic.hls.frontend.configuration import Sides, asked_result, configure
from hypersonic.hls.frontend.description import ModelDescription
from hypersonic.hls.frontend.keras.names import translated
from hypersonic.hls.frontend.notes import hls4ml_warnings, notes
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.frontend.reuse import check_own_settings
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.frontend.traps import check_graph, joined
from hypersonic.hls.model_graph import precision_of, retype

#: layers that hls4ml fuses other layers into
_FUSED = ("Dense", "Conv2DBatchnorm", *(f"{kind}Conv{n}D" for kind in ("", "Pointwise", "Depthwise") for n in (1, 2)))


def write_project(
    trained: TrainedModel, description: ModelDescription, inputs: Sides, outputs: Sides, directory: Path, core: CoreKind,
    *, trace: bool = False,
) -> tuple[Any, list[str]]:  # fmt: skip
    """Convert the model with hls4ml and write its HLS project into `directory`; return the ModelGraph and notes.

    The notes, a line each, say where hls4ml deviates from the YAML.

    Args:
        trace: let the C++ copy each layer's result (csim/trace.py); nothing else changes.

    Raises:
        ConversionError: For a model that hls4ml cannot convert, and for one that it would convert wrongly.
    """
    graph, remarks = model_graph(trained, description, inputs, outputs, directory, core)
    if trace:
        graph.config.trace_output = True
        for layer in graph.get_layers():
            layer.set_attr("trace", True)
    graph.write()
    repair(directory)
    return graph, remarks


def model_graph(
    trained: TrainedModel, description: ModelDescription, inputs: Sides, outputs: Sides, directory: Path, core: CoreKind
) -> tuple[Any, list[str]]:
    """Do what write_project does without writing the project.

    Args:
        directory: where the graph would be written.
    """
    options = dict(description.hls4ml)
    io_type = options.pop("IOType", "io_parallel")
    options["LayerName"] = translated(trained.names, options.get("LayerName") or {})
    config = configure(trained, options, inputs, outputs, unrolled=core is CoreKind.DA)
    from hypersonic.hls.frontend.passes.flow import last_passes  # imports hls4ml, which the loader has imported by now

    try:
        with hls4ml_warnings() as heard, last_passes():
            graph = trained.convert(config, directory, description.name, description.part, io_type)
    except ConversionError:
        raise
    except Exception as error:
        found = [each for each in local_of(error, "node", "layer", "self") if hasattr(each, "class_name")]
        where = f"layer {found[0].name!r} ({found[0].class_name})" if found else "the model"
        raise UnsupportedLayerError(f"hls4ml does not convert {where}: {said_by(error)}; {ELSEWHERE}") from error
    _settle_outputs(graph, trained)
    _pin_fused(graph, trained, outputs, config["LayerName"])
    check_graph(graph)
    if core is CoreKind.CSIM:  # da unrolls everything, and rf uses the YAML's factors even if the C++ does not support them
        check_own_settings(graph, options)
    snap_weights(graph)
    called = [f"layer {old!r} is called {new!r} in the HLS project" for old, new in trained.names.items()]
    return graph, [*called, *trained.notes, *notes(graph, options, core), *heard]


def _settle_outputs(graph: Any, trained: TrainedModel) -> None:
    """Replace an output that is a Reshape by its input. hls4ml 1.3.0 does so for one Reshape, but not for several in a row.

    Raises ConversionError for outputs that hls4ml lost or merged into one.
    """
    made_by = {tensor: layer for layer in graph.get_layers() for tensor in layer.outputs}
    for index, output in enumerate(graph.outputs):
        tensor = output
        while made_by[tensor].class_name == "Reshape":
            tensor = made_by[tensor].inputs[0]
        graph.outputs[index] = tensor
    if len(set(graph.outputs)) != len(trained.outputs) or set(graph.outputs) & set(graph.inputs):
        raise ConversionError(
            f"the model's outputs are {', '.join(tensor.name for tensor in trained.outputs)}, and hls4ml turns them into "
            f"{', '.join(graph.outputs) or 'nothing'}: an output must be computed, and by a layer of its own; leave out a last "
            "layer that only passes its numbers on (Dropout, Reshape, a linear Activation)"
        )


def _pin_fused(graph: Any, trained: TrainedModel, outputs: Sides, layers: dict[str, Any]) -> None:
    """Restore the type of a bias or normalisation that hls4ml fused into the layer before it, which loses that type."""
    present = {layer.name: layer for layer in graph.get_layers()}
    for behind, before in trained.fused:
        if behind not in present and before in present and asked_result(layers, behind) != "auto":
            retype(graph, present[before].get_output_variable().type, asked_result(layers, behind))
    made_by = {tensor: layer for layer in present.values() for tensor in layer.outputs}
    for side, tensor in zip(outputs, graph.outputs, strict=True):
        if side.fixed and made_by[tensor].class_name in _FUSED:
            retype(graph, made_by[tensor].get_output_variable().type, str(side.fixed))


def snap_weights(graph: Any) -> None:
    """Round every weight of the graph to its type's nearest value, in place. ap_fixed would truncate, and wrap on overflow.

    Raises UnsupportedLayerError for a weight that is not finite or is outside its type's range.
    """
    faults = [
        fault
        for layer in graph.get_layers()
        for name, variable in layer.weights.items()
        if (fault := _snap(layer.name, name, variable))
    ]
    if faults:
        raise UnsupportedLayerError(joined(map(str, faults)), tuple(edit for fault in faults for edit in fault.edits))


def _snap(layer: str, name: str, variable: Any) -> UnsupportedLayerError | None:
    """Round a weight in place; return what is wrong with it."""
    precision = variable.type.precision
    if not type(precision).__name__.endswith("FixedPrecisionType") or type(variable.type).__name__ == "ExponentType":
        return None
    if not np.isfinite(variable.data).all():
        return UnsupportedLayerError(f"layer {layer!r}: {name} holds NaN or infinity; train the model again")
    lsb = 2.0 ** (int(precision.integer) - int(precision.width))
    high = 2.0 ** (int(precision.integer) - bool(precision.signed)) - lsb
    low = -(high if str(precision.saturation_mode) == "SAT_SYM" else high + lsb) if precision.signed else 0.0
    snapped = np.clip(np.rint(np.asarray(variable.data, dtype=np.float64) / lsb) * lsb, low, high)
    if float(np.abs(snapped - variable.data).max(initial=0.0)) <= lsb / 2:
        variable.data = snapped
        return None
    # more than rounding can change: the constant does not fit
    least, greatest, place = float(variable.data.min()), float(variable.data.max()), layer_place(layer, "Precision", name)
    wide = _wide(precision, least, greatest)
    shown = precision_of(precision, f"layer {layer!r}: {name}")
    return UnsupportedLayerError(
        f"layer {layer!r}: {name} runs from {least:g} to {greatest:g}, its type {shown} from {low:g} to {high:g}; write "
        f"{wide} in {'.'.join(place)}",
        (Edit(place, wide),),
    )


def _wide(precision: Any, least: float, greatest: float) -> str:
    """The type with the step of `precision` that holds all numbers from least to greatest, as ap_fixed."""
    fraction = int(precision.width) - int(precision.integer)
    is_signed = bool(precision.signed) or least < 0
    largest = max(abs(round(least * 2.0**fraction)), abs(round(greatest * 2.0**fraction)))
    width = largest.bit_length() + is_signed
    return f"ap_{'' if is_signed else 'u'}fixed<{width},{width - fraction}>"
