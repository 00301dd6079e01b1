# SPDX-License-Identifier: Apache-2.0
"""The environment of a process of its own for Keras 2, which QKeras and hls4ml read and no other part of us must load."""

from __future__ import annotations

import os
from pathlib import Path

import hypersonic


def keras_2_environment() -> dict[str, str]:
    """This process's, with TensorFlow's Keras as Keras 2. The package is found by the child even when it is not installed."""
    paths = [str(Path(hypersonic.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "TF_USE_LEGACY_KERAS": "1"}
