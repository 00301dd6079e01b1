# SPDX-License-Identifier: Apache-2.0
"""The entry point of the hls4ml plugin `Hypersonic` (group hls4ml.backends).

hls4ml calls register() while its own package is still loading, so nothing of hls4ml is imported before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register(register_backend: Callable[[str, Any], None], register_writer: Callable[[str, Any], None]) -> None:
    """Called once by hls4ml's plugin loader. Makes `backend="Hypersonic"` a choice of every convert_from_* function."""
    from hypersonic.hls.plugin.hls4ml_backend import HypersonicBackend, HypersonicWriter

    register_writer("Hypersonic", HypersonicWriter)
    register_backend("Hypersonic", HypersonicBackend)
