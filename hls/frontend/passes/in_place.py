# SPDX-License-Identifier: Apache-2.0
"""A pass of hls4ml's optimiser that changes single layers in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hls4ml.model.optimizer import OptimizerPass


# hls4ml is untyped, and mypy --strict does not allow untyped base classes
class InPlace(OptimizerPass):  # type: ignore[misc]
    """Calls `change` with each layer, once or several times; it changes the layer in place, refuses it, or does nothing."""

    def __init__(self, change: Callable[[Any], None]) -> None:
        self.change = change

    def match(self, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Return True."""
        return True

    def transform(self, model: Any, node: Any) -> bool:  # noqa: ARG002 - hls4ml's signature
        """Call `change`; return False, since the graph's structure does not change."""
        self.change(node)
        return False
