# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own PyTorch front end: python by_hls4ml.py MODULES.py FUNCTION ROWS.npy DIRECTORY SITE_PACKAGES_WITH_TORCH

Writes DIRECTORY/y.npy: the answers of hls4ml's C++ for the Vitis backend, all of its types ap_fixed<24,10>.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np


def main(modules: Path, function: str, rows: Path, directory: Path, site: str) -> None:
    sys.path.append(site)  # behind this environment's packages
    import torch
    from hls4ml.converters import convert_from_pytorch_model
    from hls4ml.utils import config_from_pytorch_model

    spec = importlib.util.spec_from_file_location("modules", modules)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    torch.manual_seed(0)
    module, shape = getattr(loaded, function)()
    options = {"default_precision": "ap_fixed<24,10>", "granularity": "model", "backend": "Vitis"}
    config = config_from_pytorch_model(module, shape, **options)
    graph = convert_from_pytorch_model(
        module, hls_config=config, output_dir=str(directory / "hls"), backend="Vitis", project_name="peer"
    )
    graph.compile()
    np.save(directory / "y.npy", graph.predict(np.load(rows)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
