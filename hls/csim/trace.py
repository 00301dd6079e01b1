# SPDX-License-Identifier: Apache-2.0
"""Compares every layer of hls4ml's C++ with the trained model's. Like hls/convert.py, it works in a process of its own::

    python -m hypersonic.hls.csim.trace MODEL_FILE PROJECT X.npz OUT.json

The model is converted again with hls4ml's tracing, which copies each layer's result; types and bits are the same. X.npz has the
inputs as arrays "0", "1", ... (rows, size) float32, in the wire's units.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.cache import cached
from hypersonic.hls.child import python_argv, refuse, run_child
from hypersonic.hls.closeness.difference import difference
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.csim.layer_trace import LayerTrace
from hypersonic.hls.errors import ConversionError, ToolResourceError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import ModelDescription, description_file, read_description, sides_of
from hypersonic.hls.frontend.graph import write_project
from hypersonic.hls.frontend.hgq import environment_of
from hypersonic.hls.frontend.load import data_beside, load_trained
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.model_graph import result_precision
from hypersonic.hls.project import HlsProject

#: rows that are traced, at most: each is a call of its own
MOST_ROWS = 200

_SOURCE = Path(__file__).with_name("trace.cpp")


class NoTraceError(ConversionError):
    """The model's layers cannot be compared. The message says why."""


def trace_layers(model_file: Path, project: HlsProject, rows: Sequence[NDArray[np.float32]]) -> tuple[LayerTrace, ...]:
    """Return the layers in the order in which the C++ computes them, the inputs first; cached by content.

    Args:
        project: a conversion of the model.
        rows: (rows, size) for each input, in the wire's units; the first MOST_ROWS are used.

    Raises:
        NoTraceError: For a model whose layers the front end does not know (QONNX), and if the process fails.
    """
    inputs = [np.ascontiguousarray(x[:MOST_ROWS], np.float32) for x in rows]

    def ask(directory: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            x = Path(scratch) / "x.npz"
            np.savez(x, allow_pickle=False, **{str(place): each for place, each in enumerate(inputs)})
            argv = python_argv("-m", __name__, str(model_file), str(project.path), str(x), str(directory / "layers.json"))
            done = run_child(argv, environment_of(model_file), f"the comparison of the layers of {model_file}")
        if done.code:
            raise NoTraceError(done.refusal or f"its process ended with {done.code}: {done.last}")

    parts: list[str | bytes | Path] = [
        model_file,
        *data_beside(model_file),
        description_file(model_file),
        project.hls / "firmware",
    ]
    place = cached("traces", [*parts, _SOURCE, Path(__file__), *(x.tobytes() for x in inputs)], ask)
    return tuple(LayerTrace(**each) for each in json.loads((place / "layers.json").read_text()))


def main(argv: Sequence[str]) -> int:
    """Trace the model of argv[0] (see the module's description). Return 0, or 2 for a model that is refused."""
    model_file, project = Path(argv[0]), HlsProject.load(Path(argv[1]))
    with np.load(argv[2]) as stored:
        wire = [stored[str(place)] for place in range(len(stored.files))]
    try:
        layers = trace_loaded(load_trained(model_file), read_description(model_file), project, wire)
    except (ConversionError, ToolResourceError) as error:
        return refuse(error)
    Path(argv[3]).write_text(json.dumps([asdict(layer) for layer in layers]))
    return 0


def trace_loaded(
    trained: TrainedModel, description: ModelDescription, project: HlsProject, wire: Sequence[NDArray[np.float32]]
) -> list[LayerTrace]:
    """As trace_layers, in the process that has loaded the model and without the cache."""
    if trained.results is None:
        raise NoTraceError("hls4ml's ONNX front end reads it, which does not keep the results of single nodes")
    inputs = sides_of(description.inputs, [tensor.name for tensor in trained.inputs], "input")
    outputs = sides_of(description.outputs, [tensor.name for tensor in trained.outputs], "output")
    numbers = [np.ldexp(x.astype(np.float64), spec.exponents) for x, spec in zip(wire, project.inputs.tensors, strict=True)]
    kind = CoreKind.RF if description.core is CoreKind.RF else CoreKind.DA
    with tempfile.TemporaryDirectory() as scratch:
        graph, _ = write_project(trained, description, inputs, outputs, Path(scratch) / "hls", kind, trace=True)
        traced = replace(project, path=Path(scratch))
        library = compile_csim(traced, extra_sources=[_SOURCE], output="trace.so")
    x = [each.astype(np.float32).reshape(-1, *tensor.shape) for each, tensor in zip(numbers, trained.inputs, strict=True)]
    wanted = _wanted(trained, graph, trained.results(x))
    layers = [layer for layer in graph.get_layers() if layer.name in wanted and layer.get_attr("function_cpp")]
    raw = traced.inputs.to_raw([spec.quantise(each) for spec, each in zip(project.inputs.tensors, wire, strict=True)])
    got = _results(Csim(library, traced), raw, {layer.name: wanted[layer.name].shape[1] for layer in layers})
    own = {new: old for old, new in trained.names.items()}
    first = [
        _compare(tensor.name, "input", spec.fixed, spec.fixed.to_float(part), number)
        for tensor, spec, part, number in zip(
            trained.inputs, project.inputs.tensors, project.inputs.split(raw), numbers, strict=True
        )
    ]
    return first + [
        _compare(
            own.get(layer.name, layer.name), layer.class_name, result_precision(layer), got[layer.name], wanted[layer.name]
        )
        for layer in layers
    ]


def _wanted(trained: TrainedModel, graph: Any, results: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """The trained model's results, (rows, elements), by the names of the graph's layers; only where the sizes agree."""
    present = {layer.name: layer for layer in graph.get_layers()}
    fused = {before: behind for behind, before in trained.fused if behind not in present}
    found = {}
    for name, layer in present.items():
        result = results.get(fused.get(name, name))
        if result is not None and result[0].size == layer.get_output_variable().size():
            found[name] = result.reshape(len(result), -1)
    return found


def _results(csim: Csim, raw: NDArray[np.int64], sizes: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """Each layer's result for each row, (rows, elements)."""
    register = ctypes.CDLL(str(csim.library)).hypersonic_trace
    register.argtypes, register.restype = [ctypes.c_char_p, ctypes.c_void_p], None
    places = {name: np.zeros(size) for name, size in sizes.items()}
    for name, place in places.items():
        register(name.encode(), place.ctypes.data)
    results = {name: np.zeros((len(raw), size)) for name, size in sizes.items()}
    for row in range(len(raw)):
        csim.predict_raw(raw[row : row + 1])
        for name, place in places.items():
            results[name][row] = place
    return results


def _compare(name: str, kind: str, fixed: FixedPoint, got: NDArray[np.float64], wanted: NDArray[np.float64]) -> LayerTrace:
    low, high = (float(np.ldexp(float(raw), -fixed.fraction)) for raw in (fixed.min_raw, fixed.max_raw))
    step = float(np.ldexp(1.0, -fixed.fraction))
    outside = (wanted < low - step) | (wanted > high + step)
    found = difference(got, wanted)
    return LayerTrace(
        name, kind, str(fixed), float(wanted.min()), float(wanted.max()), low, high, float(outside.mean()),
        found.rms, found.spread, step,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
