# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 has images but no figure of merit, because its weights are not trained. A report shows that its outputs equal
csim's and how far csim is from Keras."""

from __future__ import annotations

from hypersonic.hls.zoo.resnet50.events import images
from hypersonic.hls.zoo.task import Sample, Task

_SEED = 50_000  # images of this seed and above are used neither for the batch norms nor in the gate


def sample(rows: int, seed: int) -> Sample:
    """Return pixels, 0 to 255, as on the wire, flattened (rows, 150528)."""
    return Sample((256 * images(rows, _SEED + seed).reshape(rows, -1),))


#: hls4ml's C++ takes about 13 s an image, the Verilated core half a minute
TASK = Task(sample, "none: nothing was trained", None, rows=4, rtl_rows=2, event_rows=1)
