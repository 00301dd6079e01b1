# SPDX-License-Identifier: Apache-2.0
"""`hypersonic.hls.overflows`: the overflow sanitizer for hls4ml's own users, without a model file or a YAML of this project."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.hls.csim.overflow.figures import Overflows
from hypersonic.hls.csim.overflow.run import find_overflows
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.repairs import repair
from hypersonic.hls.model_graph import tensor_types
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

_BACKENDS = ("Vivado", "Vitis", "Hypersonic")

#: the methods of hls4ml's writers that write C++; the last is only in the Vitis backend's
_PARTS = (
    "project_dir", "project_cpp", "project_header", "weights", "defines", "parameters", "nnet_utils", "generated_code",
    "nnet_utils_overrides",
)  # fmt: skip

#: the type of outputs, of which only the sizes matter
_ANY = FixedPoint(16, 6)


def overflows(hls_model: Any, rows: ArrayLike | list[ArrayLike]) -> Overflows:
    """Compute rows with hls4ml's C++ and return what did not fit into each layer's variables.

    Raises ToolError if g++ fails.

    Args:
        hls_model: a ModelGraph of the backend Vivado, Vitis or Hypersonic, compiled or not; its output directory is left alone.
        rows: as hls_model.predict takes them, an array (rows, ...) of real numbers, or a list of arrays for several inputs.
            print() shows the result as a table.

    Raises:
        ConversionError: For anything but a ModelGraph, for a model of another backend, and for rows of another shape, no rows,
            or rows with NaN.
    """
    backend = getattr(getattr(getattr(hls_model, "config", None), "backend", None), "name", None)
    if backend is None:
        raise ConversionError(
            f"the model is a {type(hls_model).__name__}, expected a ModelGraph, as hls4ml's converters return it"
        )
    if backend not in _BACKENDS:
        raise ConversionError(f"the model's backend is {backend}, expected {' or '.join(_BACKENDS)}, which write ap_fixed")
    x, y = tensor_types(hls_model, wide_outputs=True)
    inputs = Row(tuple(TensorSpec(f"x{place}", kind.shape, kind.fixed) for place, kind in enumerate(x)))
    outputs = Row(tuple(TensorSpec(f"y{place}", kind.shape, _ANY) for place, kind in enumerate(y)))
    x_raw = _raw(inputs, rows)
    with tempfile.TemporaryDirectory() as scratch:
        project = HlsProject(Path(scratch), hls_model.config.get_project_name(), inputs, outputs, "", {})
        _write(hls_model, project.hls)
        return find_overflows(project, x_raw)


def _raw(inputs: Row, rows: ArrayLike | list[ArrayLike]) -> NDArray[np.int64]:
    parts = [np.asarray(part, np.float64) for part in (rows if len(inputs.tensors) > 1 else [rows])]  # type: ignore[union-attr]
    wanted = " and ".join(str(("rows", *spec.shape)).replace("'", "") for spec in inputs.tensors)
    if len(parts) != len(inputs.tensors) or any(
        part.ndim == 0 or not len(part) or part.shape[:1] != parts[0].shape[:1] or part.size != len(part) * spec.size
        for part, spec in zip(parts, inputs.tensors, strict=True)
    ):
        raise ConversionError(f"rows have shape {' and '.join(str(part.shape) for part in parts)}, expected {wanted}")
    if not all(np.isfinite(part).all() for part in parts):
        raise ConversionError("rows hold NaN or infinity, expected numbers")
    numbers = zip(inputs.tensors, parts, strict=True)
    return np.concatenate([spec.fixed.from_float(part.reshape(len(part), -1)) for spec, part in numbers], axis=1)


def _write(hls_model: Any, directory: Path) -> None:
    """Write the project's C++, with the weights in it, into a directory of ours, whatever the model's options are.

    Only the parts of hls4ml's writer that write C++ run: no scripts, no test bench, and no core of the backend Hypersonic.
    """
    config, writer = hls_model.config, hls_model.config.backend.writer
    with (
        _changed(config.config, {"OutputDir": str(directory)}),
        _changed(config.writer_config, {"WriteWeightsTxt": False}),
        _changed(vars(config), {"trace_output": False}),
    ):
        for part in _PARTS:
            getattr(writer, f"write_{part}", lambda _: None)(hls_model)
    repair(directory)


@contextmanager
def _changed(settings: dict[str, Any], own: dict[str, Any]) -> Iterator[None]:
    kept = {name: settings[name] for name in own if name in settings}
    settings.update(own)
    try:
        yield
    finally:
        for name in own:
            del settings[name]
        settings.update(kept)
