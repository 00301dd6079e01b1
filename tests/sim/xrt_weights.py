# SPDX-License-Identifier: Apache-2.0
"""A program of its own, as XRT's emulation wants it: a published version whose kernel loads weights, each answer checked.

argv: the version directory, the directory of its core
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.hls.core import Core
from hypersonic.host.errors import BufferObjectError
from hypersonic.host.instance import open_instances
from hypersonic.host.opening import open_device
from tests.support.rtl.bench_weights import bench_weights_rows

ROWS = 50


def main(version: Path, core: Core) -> None:
    image = np.fromfile(version / "weights.bin", np.uint8)
    size = core.inputs.size
    with open_device(version / "model.xclbin") as device:
        for instance in open_instances(device, Manifest.read(version / "manifest.json"), slots=2, slot_rows=ROWS):
            x = np.random.default_rng(3).integers(-(1 << 15), 1 << 15, (6, ROWS, size), dtype=np.int16)
            for turn in range(3):
                for number, slot in enumerate(instance.slots):
                    slot.x[:] = x[2 * turn + number].view(np.uint8).ravel()
                    slot.start(ROWS)
                for number, slot in enumerate(instance.slots, 2 * turn):
                    slot.finish(60_000)
                    expected = bench_weights_rows(core, image, x[number], number * ROWS)
                    np.testing.assert_array_equal(slot.y.view("<i2").reshape(-1, size), expected)
        first, second = device.open_units()
        try:
            first.open_run().set_arg(3, second.allocate(4096, 3))
        except BufferObjectError as error:
            sys.stdout.write(f"exact; {error}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Core.load(Path(sys.argv[2])))
