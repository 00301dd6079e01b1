# SPDX-License-Identifier: Apache-2.0
"""Exports a PyTorch module to ONNX. It runs in a Python that has torch and need not have hypersonic, so it imports no other
module of this package::

    python program.py FILE.py FUNCTION OUT.onnx SAID.json

SAID.json gets {"refused": text}, or {"inputs": {name: rows}, "outputs": [rows, ...]} with rows of random numbers and the
module's answers to them.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OPSET = 17
#: rows that the module is traced with; two, because operations such as squeeze() treat a batch of one differently
_ROWS = 2


class RefusedError(Exception):
    """The file or the function cannot be used. The message says why."""


def main(file: Path, function: str, output: Path, said: Path) -> None:
    """Export the module that `function` of `file` returns, and write `said` in the format described above."""
    try:
        module, shapes = _made(file, function)
        result = _exported(module, shapes, output)
    except RefusedError as refusal:
        result = {"refused": str(refusal)}
    said.write_text(json.dumps(result))


def _made(file: Path, function: str) -> tuple[Any, list[tuple[int, ...]]]:
    """Call the function; return the module and the shapes of its inputs."""
    try:
        import torch
    except ImportError as error:
        raise RefusedError(
            f"{sys.executable} cannot import torch: {error}; install torch there, or name another Python"
        ) from error

    torch.manual_seed(0)  # a module with weights drawn at random is the same each time
    sys.path.insert(0, str(file.resolve().parent))  # its own imports come from its own directory
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise RefusedError(f"{file} cannot be loaded, expected a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = loaded
    try:
        spec.loader.exec_module(loaded)
    except (Exception, SystemExit) as error:
        raise RefusedError(f"{file} cannot be imported: {_told(error, file)}") from error
    make = getattr(loaded, function, None)
    if not callable(make):
        functions = [name for name, value in vars(loaded).items() if inspect.isfunction(value) and not name.startswith("_")]
        raise RefusedError(f"{file} has no function {function!r}, it has {', '.join(functions) or 'none'}")
    try:
        made = make()
    except (Exception, SystemExit) as error:
        raise RefusedError(f"{function}() of {file} fails: {_told(error, file)}") from error
    module, shape = made if isinstance(made, tuple) and len(made) == 2 else (made, getattr(made, "input_shape", None))
    if not isinstance(module, torch.nn.Module):
        raise RefusedError(
            f"{function}() of {file} returns {_kind(made)}, expected a torch.nn.Module with an attribute input_shape, or the "
            "pair (module, input_shape)"
        )
    return module.eval(), _shapes(shape, f"{function}() of {file}")


def _shapes(value: Any, where: str) -> list[tuple[int, ...]]:
    """The shapes of the inputs, without the batch: one shape, or a sequence of shapes."""
    each = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    shapes = [tuple(shape) for shape in each] if each and all(isinstance(shape, Sequence) for shape in each) else [tuple(each)]
    if not all(shape and all(type(size) is int and size > 0 for size in shape) for shape in shapes):
        raise RefusedError(
            f"{where} gives the input_shape {value!r}, expected the numbers of one row without the batch, such as (16,) or "
            "(3, 32, 32), or a list of these for several inputs"
        )
    return shapes


def _exported(module: Any, shapes: list[tuple[int, ...]], output: Path) -> dict[str, Any]:
    import torch

    if hasattr(torch.backends, "mha"):  # one fused operator for an encoder layer, which ONNX does not have
        torch.backends.mha.set_fastpath_enabled(False)
    rows = tuple(torch.rand(_ROWS, *shape) * 2 - 1 for shape in shapes)
    answers = _answers(module, rows)
    names = list(inspect.signature(module.forward).parameters)[: len(rows)]
    if len(names) < len(rows):  # forward(*tensors)
        names = [f"input_{place}" for place in range(len(rows))]
    outputs = ["output"] if len(answers) == 1 else [f"output_{place}" for place in range(len(answers))]
    options = {"opset_version": OPSET, "input_names": names, "output_names": outputs, "dynamo": False}
    options["dynamic_axes"] = {name: {0: "batch"} for name in (*names, *outputs)}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            if any(type(part).__module__.startswith("brevitas.") for part in module.modules()):
                from brevitas.export import export_qonnx

                export_qonnx(module, args=rows, export_path=str(output), **options)
            else:
                torch.onnx.export(module, rows, str(output), **options)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise RefusedError(f"torch cannot export the module to ONNX: {first}{_where(module, rows, first)}") from error
    given = {name: part.reshape(_ROWS, -1).tolist() for name, part in zip(names, rows, strict=True)}
    return {"inputs": given, "outputs": [part.reshape(_ROWS, -1).tolist() for part in answers]}


def _answers(module: Any, rows: tuple[Any, ...]) -> list[Any]:
    """The module's answers. An exception is reported with the name of the inner module that raised it."""
    import torch

    inside: list[str] = []
    hooks = [part.register_forward_pre_hook(lambda _part, _x, name=name: inside.append(name)) for name, part in _named(module)]
    hooks += [part.register_forward_hook(lambda _part, _x, _y: inside.pop() and None) for _, part in _named(module)]
    try:
        with torch.no_grad():
            answers = module(*rows)
    except Exception as error:
        where = f"module {inside[-1]!r}" if inside else "the module"
        shapes = ", ".join(str(tuple(part.shape)) for part in rows)
        raise RefusedError(
            f"{where} fails for an input of shape {shapes}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    found = list(answers) if isinstance(answers, (tuple, list)) else [answers]
    if not all(isinstance(answer, torch.Tensor) for answer in found):
        raise RefusedError(f"the module answers {_kind(answers)}, expected a tensor or a tuple of tensors")
    if any(answer.shape[:1] != (_ROWS,) for answer in found):
        raise RefusedError(f"the module answers {_ROWS} rows with shape {tuple(found[0].shape)}, expected {_ROWS} rows")
    return found


def _where(module: Any, rows: tuple[Any, ...], text: str) -> str:
    """The names of the modules that use the operator which the exporter's error names."""
    import torch

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            graph = torch.jit.trace(module, rows, check_trace=False).inlined_graph
    except Exception:  # noqa: BLE001 - the export has failed already, and its error is reported
        return ""
    scopes = [node.scopeName() for node in graph.nodes() if f"'{node.kind()}'" in text]
    names = [scope.rpartition("/")[2].removeprefix("__module.") for scope in scopes]
    return f" (used by {', '.join(dict.fromkeys(repr(name) if name else 'the outermost module' for name in names))})" * bool(
        names
    )


def _named(module: Any) -> list[tuple[str, Any]]:
    return [(name, part) for name, part in module.named_modules() if name]


def _kind(value: Any) -> str:
    """Return the type of a value, and for a sequence those of its parts."""
    kind = type(value).__name__
    return f"{kind} of {', '.join(type(each).__name__ for each in value)}" if isinstance(value, (tuple, list)) else kind


def _told(error: BaseException, file: Path) -> str:
    """An exception with the last line of the user's file that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    at = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{at}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
