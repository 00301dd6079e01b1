# SPDX-License-Identifier: Apache-2.0
"""An example manifest."""

from __future__ import annotations

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

XCLBIN = assemble_xclbin("facile", Target.HW_EMU, find_platform("u250"), b"simulator", compute_units=2)


INPUT = TensorSpec("x", (18,), FixedPoint(16, 6), scale_exponents=tuple(range(18)))


OUTPUT = TensorSpec("y", (1,), FixedPoint(24, 12))


MANIFEST = Manifest.of(
    XCLBIN, model="facile", platform="u250", core="da", inputs=Row((INPUT,)), outputs=Row((OUTPUT,)), ii=1, latency_cycles=14,
    max_batch_size=160_000, tools={"hls4ml": "1.3.0"}, report={"sigma68": [0.1, 0.2]},
)  # fmt: skip
