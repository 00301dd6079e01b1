# SPDX-License-Identifier: Apache-2.0
"""Exports modules with torch's newer exporter, in the Python that has torch:

python dynamo.py MODULES.py FUNCTION... DIRECTORY
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch


def main(modules: Path, functions: list[str], directory: Path) -> None:
    spec = importlib.util.spec_from_file_location("modules", modules)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    for function in functions:
        torch.manual_seed(0)
        made = getattr(loaded, function)()
        module, shape = made if isinstance(made, tuple) else (made, made.input_shape)
        shapes = {"dynamic_shapes": ({0: torch.export.Dim("batch")},), "input_names": ["x"], "output_names": ["output"]}
        torch.onnx.export(module.eval(), (torch.rand(2, *shape),), directory / f"{function}.onnx", dynamo=True, **shapes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:-1], Path(sys.argv[-1]))
