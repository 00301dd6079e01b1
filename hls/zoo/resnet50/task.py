# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 has images, but no figure: its weights are from a seed, and which of a thousand kinds it names means nothing. What
can be said of it is that its answers are csim's, and how far csim is from Keras."""

from __future__ import annotations

from hypersonic.hls.zoo.resnet50.events import images
from hypersonic.hls.zoo.task import Sample, Task

_SEED = 50_000  # and above: neither the batch norms nor the gate have seen these images


def sample(rows: int, seed: int) -> Sample:
    """Pixels, 0 to 255, as on the wire."""
    return Sample((256 * images(rows, _SEED + seed).reshape(rows, -1),))


#: hls4ml's C++ takes about 13 s an image, the Verilated core half a minute
TASK = Task(sample, "none: nothing was trained", None, rows=4, rtl_rows=2, event_rows=1)
