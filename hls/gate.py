# SPDX-License-Identifier: Apache-2.0
"""The gate: hls4ml's C++ against the framework that trained the model, the one comparison that has a tolerance."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.csim import Csim
from hypersonic.hls.description import DescriptionError, Gate
from hypersonic.hls.project import ConversionError
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.trained import TrainedModel


def compare(csim: Csim, trained: TrainedModel, gate: Gate | None) -> dict[str, Any]:
    """csim against the framework that trained the model, on the gate's rows, in the output's units on the wire.

    Raises ConversionError above the tolerance.
    """
    project = csim.project
    rows = _rows(gate.rows, project.input) if gate else _random_rows(project.input)
    x_raw = project.input.to_raw(rows)
    x = project.input.fixed.to_float(x_raw).astype(np.float32)
    expected = trained.predict(x.reshape(len(x), *trained.shape))
    y_raw = csim.predict_raw(x_raw)
    fixed, exponents = project.output.fixed, project.output.exponents
    got, wanted = np.ldexp(fixed.to_float(y_raw), -exponents), np.ldexp(expected, -exponents)
    difference = np.abs(got - wanted)
    worst = int(difference.max(axis=1).argmax())
    figures = {
        "rows": len(rows),
        "source": gate.rows if gate else "random",
        "max_abs_difference": float(difference.max()),
        "mean_abs_difference": float(difference.mean()),
        "fraction_exact": float(np.mean(np.rint(np.ldexp(expected, fixed.fraction)) == y_raw)),
        "tolerance": gate.tolerance if gate else None,
    }
    if gate and not difference.max() <= gate.tolerance:
        raise ConversionError(
            f"model {project.name!r}: row {worst} of {gate.rows} gives {got[worst].tolist()} in fixed point and "
            f"{wanted[worst].tolist()} in the trained model, tolerance {gate.tolerance:g}; widen the precisions in the YAML"
        )
    return figures


def _rows(place: str, spec: TensorSpec) -> NDArray[np.float32]:
    module, function = place.split(":", 1)
    try:
        rows = np.asarray(getattr(import_module(module), function)(), dtype=np.float32)
    except Exception as error:  # the function is the user's
        raise DescriptionError(
            f"gate.rows is {place!r}, which gives no rows: {type(error).__name__}: {error}; expected a function without "
            "arguments in a module that Python finds (PYTHONPATH)"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != spec.size or not len(rows):
        raise DescriptionError(f"gate.rows {place!r} gives shape {rows.shape}, expected (rows, {spec.size})")
    return rows


def _random_rows(spec: TensorSpec) -> NDArray[np.float32]:
    """A thousand rows of unit width around zero, for a model that brings none: a figure for the report, no judgement."""
    network = np.random.default_rng(1).normal(size=(1000, spec.size))
    return np.ldexp(network, -spec.exponents).astype(np.float32)
