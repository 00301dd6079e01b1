# SPDX-License-Identifier: Apache-2.0
"""hls4ml's own Keras layers, by which files that hold them are loaded."""

from __future__ import annotations

from typing import Any


def garnet_layers() -> dict[str, Any]:
    """Return GarNet and GarNetStack by name. hls4ml 1.3.0's GarNetStack cannot be made from its own configuration."""
    from hls4ml.contrib.garnet import GarNet, GarNetStack

    def from_config(cls: Any, config: dict[str, Any]) -> Any:
        return cls(**{key: value for key, value in config.items() if key != "n_sublayers"})

    stack = type("GarNetStack", (GarNetStack,), {"from_config": classmethod(from_config)})
    return {"GarNet": GarNet, "GarNetStack": stack}
