# SPDX-License-Identifier: Apache-2.0
"""Seeded images for ResNet-50. Only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIZE, COLOURS = 224, 3


def images(count: int, seed: int) -> NDArray[np.float32]:
    """Return seeded images (count, 224, 224, 3), 0 to 1 in steps of 1/256, with edges and areas of all sizes."""
    rng = np.random.default_rng([50, seed])
    image = np.zeros((count, SIZE, SIZE, COLOURS))
    for cells in (4, 16, 56, 224):
        image += np.kron(rng.normal(0.0, 1.0, (count, cells, cells, COLOURS)), np.ones((1, SIZE // cells, SIZE // cells, 1)))
    return np.asarray(np.clip(np.rint(128 + 32 * image), 0, 255) / 256, np.float32)


def gate_rows() -> NDArray[np.float32]:
    """Return one image (1, 150528) as on the wire, 0 to 255. Only one, because hls4ml's C++ is slow here."""
    return np.ldexp(images(1, 9001).reshape(1, -1), 8)
