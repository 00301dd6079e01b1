# SPDX-License-Identifier: Apache-2.0
"""The entry point of the hls4ml plugin `Hypersonic` (group hls4ml.backends).

hls4ml calls register() while its own package is still loading, so this module imports hls4ml only inside register().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register(register_backend: Callable[[str, Any], None], register_writer: Callable[[str, Any], None]) -> None:
    """Register the backend `Hypersonic` and its writer, so that every convert_from_* function takes `backend="Hypersonic"`.

    hls4ml's plugin loader calls this once, with its own register_backend and register_writer.
    """
    from hypersonic.hls.plugin.hls4ml_backend import HypersonicBackend, HypersonicWriter
    from hypersonic.hls.plugin.keras_2 import read_keras_2

    read_keras_2()
    register_writer("Hypersonic", HypersonicWriter)
    register_backend("Hypersonic", HypersonicBackend)
