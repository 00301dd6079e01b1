# SPDX-License-Identifier: Apache-2.0
"""Writes small PyTorch networks of published architectures as ONNX files, as a user does who knows only PyTorch.

    .venv-torch/bin/python -m bench.own.pytorch DIRECTORY [NAME ...]      (make dev-torch makes that Python)

Each gets a folder that bench.own.networks takes: model.onnx, rows.npy in the module's own layout, and the module's answers in
expected.npz. All are trained for a few steps on random rows, so that weights and statistics differ from those of a new module.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.own.pytorch import images, sequences, vectors

ROWS, STEPS = 256, 5

#: by name: what makes a network, and the shape of a row
NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    make.__name__: (make, shape) for part in (vectors, images, sequences) for make, shape in part.NETWORKS.items()
}


def write(name: str, folder: Path) -> None:
    """Train a network for some steps and write its folder."""
    make, shape = NETWORKS[name]
    torch.manual_seed(len(name))
    model, x = make(), torch.randn(ROWS, *shape)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        loss = sum(((each - torch.randn_like(each)) ** 2).mean() for each in _listed(model(x)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        answers = {str(place): each.numpy() for place, each in enumerate(_listed(model(x)))}
    np.save(folder / "rows.npy", x.numpy())
    np.savez(folder / "expected.npz", allow_pickle=False, **answers)
    torch.onnx.export(
        model, (x[:1],), str(folder / "model.onnx"), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )


def _listed(answers: Any) -> tuple[Any, ...]:
    return answers if isinstance(answers, tuple) else (answers,)


def main() -> None:
    """Write the folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NETWORKS], default=[])
    asked = parser.parse_args()
    for name in asked.names or NETWORKS:
        write(name, asked.directory / name)
        print(name, flush=True)


if __name__ == "__main__":
    main()
