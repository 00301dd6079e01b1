# SPDX-License-Identifier: Apache-2.0
"""The note of a build about models that have the same kernel and other weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish, same_kernel
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from tests.firmware.publish.test_publish import X, Y

WEIGHTS = {"barrel": bytes(64), "endcap": bytes([1] * 64)}
XCLBIN = assemble_xclbin("calo", Target.HW_EMU, find_platform("u250"), b"simulator", weights=True, digest="ab" * 32)


def manifest(model: str) -> Manifest:
    return Manifest.of(
        XCLBIN, model=model, platform="u250", core="rf", inputs=X, outputs=Y, ii=1, latency_cycles=1, max_batch_size=16,
        weights=WEIGHTS[model],
    )  # fmt: skip


def test_a_model_that_differs_in_its_weights_alone_is_named_with_its_version(tmp_path: Path) -> None:
    assert same_kernel(tmp_path, manifest("endcap")) == ""
    publish(tmp_path, XCLBIN, manifest("barrel"), "name", weights=WEIGHTS["barrel"])
    assert "'endcap' has the kernel of 'barrel' version 1: they differ in weights.bin only" in same_kernel(
        tmp_path, manifest("endcap")
    )
    for _ in range(7):
        publish(tmp_path, XCLBIN, manifest("barrel"), "name", weights=WEIGHTS["barrel"])
    assert "'barrel' version 5 and 3 more: " in same_kernel(tmp_path, manifest("endcap"))


def test_another_kernel_target_or_none_is_not(tmp_path: Path) -> None:
    publish(tmp_path, XCLBIN, manifest("barrel"), "name", weights=WEIGHTS["barrel"])
    (tmp_path / "damaged" / "1").mkdir(parents=True)
    (tmp_path / "damaged" / "1" / "manifest.json").write_text("{")
    own = manifest("endcap")
    for other in (replace(own, kernel_sha256="cd" * 32), replace(own, target=Target.HW), replace(own, kernel_sha256="")):
        assert same_kernel(tmp_path, other) == ""
