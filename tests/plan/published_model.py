# SPDX-License-Identifier: Apache-2.0
"""The folder of a published model, without its xclbin: what a plan reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.target import Target
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec

#: 11 numbers of 16 bits and 7 flags in, one number out, all FP32 on the wire
MANIFEST = Manifest(
    model="two", kernel="two", target=Target.SW_EMU, platform="u250", core="da", uuid="0" * 32, sha256="0" * 64,
    inputs=Row((TensorSpec("x", (11,), FixedPoint(16, 2)), TensorSpec("flags", (7,), FixedPoint(1, 1, signed=False)))),
    outputs=Row((TensorSpec("y", (1,), FixedPoint(20, 1)),)), compute_units=("two_1", "two_2"), ii=3, latency_cycles=20,
    max_batch_size=100,
)  # fmt: skip


def publish_two(repository: Path, *, preferred_rows: int = 100, delay_us: int = 100) -> Path:
    """Write two versions of MANIFEST, of which the second has an interval of 5 clocks; return the model's folder."""
    folder = repository / MANIFEST.model
    for version, ii in (("1", 3), ("2", 5)):
        (folder / version).mkdir(parents=True)
        (folder / version / "manifest.json").write_text(replace(MANIFEST, ii=ii).to_json())
    text = config_pbtxt(MANIFEST, preferred_batch_size=preferred_rows, max_queue_delay_us=delay_us)
    (folder / "config.pbtxt").write_text(text)
    return folder
