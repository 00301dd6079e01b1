# SPDX-License-Identifier: Apache-2.0
"""The rows on which the conversion of the loop-back model is compared with the model; loopback/loopback.yaml names them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: bytes of a row, which is one beat of the kernel's memory ports
ROW_BYTES = 64


def gate_rows() -> NDArray[np.float32]:
    """Return rows (260, 64) in which each element has each value of a byte."""
    first = np.arange(260)[:, None]
    return ((first + np.arange(ROW_BYTES)) % 256).astype(np.float32)
