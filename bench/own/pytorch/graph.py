# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module from a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Graph(nn.Module):
    """A module whose forward() is a function of itself and its input. parts: modules, parameters, and tensors as buffers."""

    def __init__(self, function: Callable[[Any, Any], Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, nn.Module | nn.Parameter):
                setattr(self, name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, x: Any) -> Any:
        return self.function(self, x)
