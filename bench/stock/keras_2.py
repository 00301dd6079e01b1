# SPDX-License-Identifier: Apache-2.0
"""Makes `import keras` mean Keras 2 (tf_keras), as in the environment in which hls4ml tests its Keras 2 front end."""

from __future__ import annotations

import sys
from importlib import import_module

_PARTS = ("", ".layers", ".models", ".regularizers", ".initializers", ".utils", ".datasets", ".optimizers", ".backend")


def use_keras_2() -> None:
    """Give tf_keras and each of its modules the name `keras` too. Nothing may have imported `keras` before."""
    for part in _PARTS:
        import_module(f"tf_keras{part}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tf_keras"]:
        sys.modules[f"keras{name.removeprefix('tf_keras')}"] = sys.modules[name]
