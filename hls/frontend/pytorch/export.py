# SPDX-License-Identifier: Apache-2.0
"""Turns `model.py:make_model`, a function that returns a PyTorch module, into an ONNX file beside model.py.

The export (program.py) runs in a Python that has torch. It is repeated each time, because the function may read weights from
anywhere; the file is replaced only if it changes, so builds of an unchanged module are found in the cache.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.child import foreign_environment, run_child, script_argv
from hypersonic.hls.errors import ConversionError

#: the environment variable with the path of a Python that has torch
PYTHON = "HYPERSONIC_TORCH_PYTHON"

#: the key of the ONNX file's metadata that says which function it was made from
_MARK = "hypersonic.made_from"
#: the largest difference between torch and onnxruntime that is allowed, relative to the largest answer: both are float32
_TOLERANCE = 1e-4


class TorchError(ConversionError):
    """A PyTorch module cannot be exported. The message says why and what to do."""


def names_function(model: str) -> bool:
    """Return whether a text is "file.py:function"."""
    return model.rpartition(":")[0].endswith(".py") or model.endswith(".py")


def onnx_of(model: str) -> Path:
    """Return the ONNX file that export_module(model) writes: for jets.py:make_model it is jets_make_model.onnx."""
    file, _, function = model.rpartition(":")
    return Path(file).with_name(f"{Path(file).stem}_{function}.onnx")


def export_module(model: str, progress: Callable[[str], None] = lambda _: None) -> Path:
    """Write the ONNX file of a PyTorch module, and return its path, onnx_of(model).

    Raises TorchError.

    Args:
        model: "file.py:function"; the function has no arguments and returns a torch.nn.Module with an attribute input_shape, or
            the pair (module, input_shape). input_shape: of one row without the batch; for several inputs a list of these. A
            module with layers of Brevitas becomes QONNX.
        progress: called with one line.
    """
    name, _, function = model.rpartition(":")
    file = Path(name or model)
    if not name or not function.isidentifier():
        raise TorchError(
            f"model is {model!r}, expected a .keras, .h5 or .onnx file, or file.py:function, the function that returns the "
            "torch.nn.Module"
        )
    if not file.is_file():
        raise TorchError(f"{file} does not exist")
    place, source = onnx_of(model), f"{file.name}:{function}"
    if place.exists() and _made_from(place) != source:
        raise TorchError(f"{place} exists and was not made from {source}; move it, because the export is written there")
    python = _python()
    progress(f"exporting {source} to ONNX with {python}")
    with tempfile.TemporaryDirectory() as scratch:
        out, said = Path(scratch) / "model.onnx", Path(scratch) / "said.json"
        program = Path(__file__).with_name("program.py")
        argv = script_argv(program, str(file), function, str(out), str(said), python=python)
        done = run_child(argv, foreign_environment(), f"the export of {model}")
        if done.code:
            raise TorchError(f"{model} is not exported: its process ended with {done.code}: {done.last}")
        answers = json.loads(said.read_text())
        if "refused" in answers:
            raise TorchError(str(answers["refused"]))
        _check_alike(model, out, answers)
        _keep(_marked(out, source), place)
    return place


def _python() -> str:
    """The Python that has torch."""
    if named := os.environ.get(PYTHON):
        if not os.access(named, os.X_OK):
            raise TorchError(f"{PYTHON} is {named!r}, expected the path of a Python that has torch")
        return named
    if find_spec("torch") is None:
        raise TorchError(
            f"{sys.executable} has no torch; set {PYTHON} to the path of a Python that has it, or pip install torch "
            "(docs/onnx.md)"
        )
    return sys.executable


def _made_from(file: Path) -> str:
    """Return what an ONNX file was made from, by its metadata; "" if these say nothing, or if it cannot be read."""
    import onnx

    try:
        proto = onnx.load(str(file), load_external_data=False)
    except Exception:  # noqa: BLE001 - any file may be there
        return ""
    return next((each.value for each in proto.metadata_props if each.key == _MARK), "")


def _marked(file: Path, source: str) -> bytes:
    import onnx

    proto = onnx.load(str(file))
    proto.metadata_props.add(key=_MARK, value=source)
    return bytes(proto.SerializeToString())


def _keep(content: bytes, place: Path) -> None:
    """Write the file, in one step, unless it is there already."""
    if place.is_file() and place.read_bytes() == content:
        return
    descriptor, scratch = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(place)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _check_alike(model: str, file: Path, answers: Mapping[str, Any]) -> None:
    """Raise TorchError unless the ONNX file gives the module's answers. QONNX is left to the conversion, which runs it."""
    from hypersonic.hls.frontend.onnx.graph import load_proto, quantisers, read_graph

    proto = load_proto(file)
    if quantisers(proto):
        return
    graph = read_graph(proto)
    rows = [np.asarray(answers["inputs"][name], np.float32).reshape(-1, *graph.shapes[name][1:]) for name in graph.inputs]
    for name, got, wanted in zip(graph.outputs, graph.predict(rows), answers["outputs"], strict=True):
        expected = np.asarray(wanted, np.float64)
        worst, largest = np.abs(got.reshape(expected.shape) - expected).max(), np.abs(expected).max()
        if not worst <= _TOLERANCE * max(1.0, largest):
            raise TorchError(
                f"{model}: its ONNX file differs from the module by {worst:g} in {name!r}, where the largest answer is "
                f"{largest:g}; does forward() depend on more than its inputs, such as random numbers?"
            )
