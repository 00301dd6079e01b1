# SPDX-License-Identifier: Apache-2.0
"""ResNet-50's weights, drawn from a seed, because 25.6 million are too many to ship."""

from __future__ import annotations

from pathlib import Path

from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.resnet50.network import network


def save(file: Path) -> None:
    """Write the network, its weights drawn from seed 1, to `file` (.h5)."""
    keras_2.save(network(), file)
