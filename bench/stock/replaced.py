# SPDX-License-Identifier: Apache-2.0
"""Replaces the backends Vivado and Vitis in hls4ml by Hypersonic, and compares each answer with hls4ml's C++."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hls4ml
import numpy as np
from hls4ml.backends import VitisBackend
from hls4ml.model.graph import HLSConfig

from bench.stock.engine import Engine
from hypersonic.hls.csim.compiled import precompiled
from hypersonic.hls.plugin.hls4ml_backend import HypersonicBackend

OURS = "Hypersonic"

#: the backends that are replaced, in lower case
THEIRS = ("vivado", "vitis")

#: the most rows of one predict() that the core answers; the answers to the others are those of the C++
ROWS = 16

#: as hls4ml's script, but without optimisation and without warnings
_FLAGS = ("-O0", "-w", "-fPIC", "-std=c++23", "-fno-gnu-unique")

_CONVERTERS = ("convert_from_keras_model", "convert_from_pytorch_model", "convert_from_onnx_model")
_CONFIGURATIONS = ("config_from_keras_model", "config_from_pytorch_model", "config_from_onnx_model", "create_config")


@dataclass
class Seen:
    """The models and answers since the start of a case.

    replaced: whether our backend is in place. converted, compiled, compared: models, and calls of predict(). rows: of these.
    differences: a description of each answer that was not the C++'s.
    """

    replaced: bool = True
    converted: int = 0
    compiled: int = 0
    compared: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)


def replace_backends(engine: Engine) -> Callable[[bool], Seen]:
    """Change hls4ml; return a function that begins a case, with our backend in place or without, and gives its `Seen`.

    engine: computes the core's answers.
    """
    state = [Seen()]

    def begin(replaced: bool) -> Seen:
        state[0] = Seen(replaced)
        return state[0]

    def seen() -> Seen:
        return state[0]

    for module in (hls4ml.converters, hls4ml.utils, hls4ml.utils.config):
        for name in (*_CONVERTERS, *_CONFIGURATIONS):
            if hasattr(module, name):
                setattr(module, name, _with_ours(getattr(module, name), seen))
    _change_configuration(seen)
    _change_backend(seen, engine)
    return begin


def _ours(name: Any) -> Any:
    return OURS if isinstance(name, str) and name.lower() in THEIRS else name


def _with_ours(own: Callable[..., Any], seen: Callable[[], Seen]) -> Callable[..., Any]:
    """A function of hls4ml with our name for the value of its argument `backend`, its default included."""
    signature = inspect.signature(own)

    @functools.wraps(own)
    def call(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        if seen().replaced and "backend" in signature.parameters:
            default = signature.parameters["backend"].default
            bound.arguments["backend"] = _ours(bound.arguments.get("backend", default))
        return own(*bound.args, **bound.kwargs)

    return call


def _change_configuration(seen: Callable[[], Seen]) -> None:
    own = HLSConfig.__init__

    @functools.wraps(own)
    def begin(self: Any, config: dict[str, Any]) -> None:
        if seen().replaced:
            config["Backend"] = _ours(config.get("Backend", "Vivado"))
        own(self, config)
        seen().converted += self.backend.name in (OURS, "Vivado", "Vitis")

    HLSConfig.__init__ = begin


def _change_backend(seen: Callable[[], Seen], engine: Engine) -> None:
    """Compile the C++ too, and compare predict()'s answers with it."""
    own_compile, own_predict = HypersonicBackend.compile, HypersonicBackend.predict

    @functools.wraps(own_compile)
    def compile_both(self: Any, model: Any) -> str:
        _compile_fast(Path(model.config.get_output_dir()), model.config.get_project_name())
        if engine.rtl:
            own_compile(self, model)
        seen().compiled += 1
        return str(VitisBackend.compile(self, model))  # hls4ml loads the C++, whose functions ModelGraph._predict calls

    @functools.wraps(own_predict)
    def predict(self: Any, model: Any, x: Any) -> Any:
        first, rows = _first(x, [variable.size() for variable in model.get_input_variables()])
        got, wanted = own_predict(self, model, first), model._predict(first)
        seen().compared += 1
        seen().rows += rows
        seen().differences += _difference(got, wanted)
        return model._predict(x)

    for name, instead in (("compile", compile_both), ("predict", predict)):
        setattr(HypersonicBackend, name, instead)


def _compile_fast(project: Path, name: str) -> None:
    """Change the project's script: one C++ file, precompiled headers, no optimisation. The numbers are the same."""
    bridge, script = project / f"{name}_bridge.cpp", project / "build_lib.sh"
    options = " ".join([*_FLAGS, *precompiled(_FLAGS, project / "firmware" / "ap_types")])
    lines = [line for line in script.read_text().splitlines() if "firmware/${PROJECT}.cpp -o" not in line]
    words = "\n".join(lines).replace("${PROJECT}.o ${PROJECT}_bridge.o", "${PROJECT}_bridge.o")
    script.write_text(words.replace("\nINCFLAGS=", f'\nCFLAGS="{options}"\nINCFLAGS=') + "\n")
    bridge.write_text(f'#include "firmware/{name}.cpp"\n{bridge.read_text()}')


def _first(x: Any, sizes: list[int]) -> tuple[Any, int]:
    """The first rows of the arrays, as float64 if they are float32, and how many."""
    parts = x if len(sizes) > 1 else [x]
    rows = int(np.size(parts[0])) // sizes[0]
    cut = [part if rows <= ROWS else np.ascontiguousarray(part[:ROWS]) for part in parts]
    cut = [part.astype(np.float64) if getattr(part, "dtype", None) == np.float32 else part for part in cut]
    return (cut if len(sizes) > 1 else cut[0]), min(rows, ROWS)


def _difference(got: Any, wanted: Any) -> list[str]:
    """Describe the numbers of the core and of the C++ that differ; return nothing if all are equal."""
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, list) else [(got, wanted)]
    said = []
    for output, (ours, theirs) in enumerate(pairs):
        if ours.shape != theirs.shape:
            said.append(f"output {output}: shape {ours.shape}, the C++'s {theirs.shape}")
        elif not np.array_equal(ours, theirs):
            apart = np.abs(ours - theirs)
            said.append(f"output {output}: {np.count_nonzero(apart)} of {apart.size} numbers differ, by up to {apart.max():g}")
    return said
