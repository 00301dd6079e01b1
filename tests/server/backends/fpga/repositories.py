# SPDX-License-Identifier: Apache-2.0
"""A model repository with versions of the test kernel, loaded by the fpga backend alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.server.backends.fpga.backend import FpgaBackend, FpgaModel
from hypersonic.server.core.config.read import read_config
from tests.host.conftest import manifest_of, weights_of
from tests.server.backends.fpga.zeros import close

DIGEST = "d" * 64


class Repository:
    """A repository, and the models that were loaded from it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.backend = FpgaBackend()
        self.loaded: list[FpgaModel] = []

    def publish(
        self, model: str, xclbin: bytes, weights: float | None = None, version: int | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Path:  # fmt: skip
        content = None if weights is None else weights_of(weights)
        manifest = replace(manifest_of(xclbin, content), model=model)
        text = config_pbtxt(manifest, parameters={"slots": "1", "slot_rows": "16", "retry_ms": "10", **(parameters or {})})
        return publish(self.place, xclbin, manifest, text, weights=content, version=version)

    def load(self, version: Path) -> FpgaModel:
        config = read_config(version.parent / "config.pbtxt", version.parent.name)
        self.loaded.append(self.backend.load(version, config))
        return self.loaded[-1]

    def close(self, model: FpgaModel) -> None:
        self.loaded.remove(model)
        close(model)


def linked(image: bytes, units: int = 1, *, weights: bool = False, digest: str = DIGEST, mhz: int = 300) -> bytes:
    """An xclbin with kernel `facile`; its bytes differ by the number of units and the clock."""
    platform = replace(find_platform("u250"), kernel_clock_mhz=mhz)
    return assemble_xclbin("facile", Target.SW_EMU, platform, image, compute_units=units, weights=weights, digest=digest)
