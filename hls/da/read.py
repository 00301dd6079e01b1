# SPDX-License-Identifier: Apache-2.0
"""Reads hls4ml's ModelGraph as a network for the da core."""

from __future__ import annotations

from typing import Any

from hypersonic.hls.errors import UnsupportedLayerError
from hypersonic.hls.network.base import Network
from hypersonic.hls.network.read import read_network


def read_da_network(model: Any) -> Network:
    """Return the network of a ModelGraph. Raises UnsupportedLayerError, with the layer's name, and for io_stream."""
    if (io_type := model.config.get_config_value("IOType")) != "io_parallel":
        raise UnsupportedLayerError(f"io_type is {io_type}, the da core takes io_parallel")
    return read_network(model)
