# SPDX-License-Identifier: Apache-2.0
"""Exports a network around each layer of torch.nn as hypersonic does, in the Python that has torch:

python every_module.py PROGRAM.py DIRECTORY

Writes NAME.onnx for each layer, which is the module `mine` in it, and said.json: the name of a layer -> the reason if there is
no file, which begins with "not made: " if no arguments and shape were found for the layer. After an abort, run it again: it
goes on with the next layer.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

#: of a row: vectors, sequences, images and volumes
SHAPES = ((4,), (6, 4), (4, 8, 8), (4, 4, 4, 4))

#: containers, and what compares with labels
OUTSIDE = ("Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


def layers() -> Iterator[tuple[str, Any]]:
    """The public layers of torch.nn."""
    for name, kind in sorted(vars(nn).items()):
        known = inspect.isclass(kind) and issubclass(kind, nn.Module)
        if known and name not in OUTSIDE and not name.startswith("Lazy") and "Loss" not in name:
            yield name, kind


def arguments(shape: tuple[int, ...]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments that layers may need for an input of this shape, the usual ones first."""
    first, last = shape[0], shape[-1]
    batch_first = {"batch_first": True}
    yield from (((last, 3), batch_first), ((last, 2), batch_first), ((last, 2, 1, 1, 4), batch_first))
    yield from (((first, 3, 3), {}), ((last, 3), {}), ((2, first), {}), ((first,), {}), ((last,), {}))
    yield from (((2,), {}), ((), {}), ((1,), {}), ((2, 2), {}), ((4, 4, 3), {}), ((1, (2, 2)), {}), (((2, 2), 2), {}))
    yield ((2,), {"output_size": 2})


class Around(nn.Module):  # type: ignore[misc]
    """A layer between a ReLU and its answer, the first of several."""

    def __init__(self, layer: Any, reads: int) -> None:
        super().__init__()
        self.before = nn.ReLU()
        self.mine = layer
        self.reads = reads

    def forward(self, x: Any) -> Any:
        y = self.mine(*[self.before(x)] * self.reads)
        return y[0] if isinstance(y, tuple) else y


def shapes_of(name: str) -> tuple[tuple[int, ...], ...]:
    """The shapes to try, with as many axes as the layer's name has dimensions: torch takes a batch for channels, too."""
    dimensions = {"1d": 1, "2d": 2, "3d": 3, "Shuffle": 2, "shuffle": 2, "Upsample": 2, "Norm": 1}
    least = next((axes for end, axes in dimensions.items() if name.endswith(end)), 0)
    return SHAPES[least:]


def made(kind: Any) -> tuple[Any, tuple[int, ...]]:
    """A network around the layer, and the shape of its rows. Raises ValueError if none computes two rows."""
    reasons = []
    for shape in shapes_of(kind.__name__):
        for positional, named in arguments(shape):
            for reads in (1, 2, 3):
                try:
                    module = Around(kind(*positional, **named), reads).eval()
                    rows = torch.rand(2, *shape)
                    answer = module(rows)
                except Exception as error:  # noqa: BLE001 - each layer says in its own way that it does not take these
                    reasons.append(f"{type(error).__name__}: {str(error)[:200]}")
                    continue
                if isinstance(answer, torch.Tensor) and answer.shape[:1] == (2,) and answer.dim() > 1:
                    return module, shape
    raise ValueError(reasons[-1])


def main(program: Path, directory: Path) -> None:
    spec = importlib.util.spec_from_file_location("program", program)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    place = directory / "said.json"
    said: dict[str, str] = json.loads(place.read_text()) if place.exists() else {}
    for name, kind in layers():
        if name not in said:
            said[name] = "it is not exported: the process ended"  # as it does if torch's exporter aborts
            place.write_text(json.dumps(said, indent=1))
            said[name] = exported(loaded, kind, directory / f"{name}.onnx")
    place.write_text(json.dumps(said, indent=1))


def exported(program: Any, kind: Any, file: Path) -> str:
    """Export a network around a layer; return the reason if that fails, or an empty text."""
    torch.manual_seed(0)
    try:
        module, shape = made(kind)
        program._exported(module, [shape], file)
    except ValueError as error:
        return f"not made: {error}"
    except program.RefusedError as refusal:
        file.unlink(missing_ok=True)
        return str(refusal)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
