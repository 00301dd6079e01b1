# SPDX-License-Identifier: Apache-2.0
"""The fpga backend and a version with weights.bin, on the emulated card."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.server.backends.fpga.backend import FpgaBackend, FpgaModel
from hypersonic.server.core.config.read import read_config
from hypersonic.server.errors import ModelLoadError
from tests.host.conftest import Build, manifest_of, weights_of
from tests.server.backends.fpga.zeros import a_row_of_zeros, close

SLOT_ROWS = 16


def published(build: Build, repository: Path, value: float, beats: int = 2) -> Path:
    xclbin, weights = build[0].read_bytes(), weights_of(value, beats)
    manifest = manifest_of(xclbin, weights)
    parameters = {"slots": "1", "slot_rows": str(SLOT_ROWS)}
    return publish(repository, xclbin, manifest, config_pbtxt(manifest, parameters=parameters), weights=weights)


def load(version: Path) -> FpgaModel:
    return FpgaBackend().load(version, read_config(version.parent / "config.pbtxt", "facile"))


def test_each_version_answers_with_its_own_weights(weighted: Build, tmp_path: Path) -> None:
    for value in (3.0, 4.0):
        model = load(published(weighted, tmp_path, value))
        for instance in model.instances:
            (slot,) = instance.slots
            slot.start([a_row_of_zeros(read_config(tmp_path / "facile" / "config.pbtxt", "facile"))])
            slot.finish()
            assert b"".join(slot.answer(0).outputs[0].chunks) == np.float32(value).tobytes()
        card = model.card(model.instances[0])
        assert card is not None
        assert card.held_bytes == 2 * (SLOT_ROWS * (72 + 4) + 128)
        close(model)


def led_out(file: Path) -> None:
    outside = file.parents[2] / "outside.bin"
    file.rename(outside)
    file.symlink_to(outside)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda file: file.unlink(), r"weights\.bin cannot be read \(No such file"),
    "cut short": (lambda file: os.truncate(file, 64), r"weights\.bin is 64 bytes, expected 128"),
    "sparse and huge": (lambda file: os.truncate(file, 1 << 40), r"weights\.bin is 1099511627776 bytes, expected 128"),
    "one bit": (lambda file: file.write_bytes(weights_of(3)[:-1] + b"\1"), r"weights\.bin has sha256 \w+, expected \w+ as"),
    "outside": (led_out, r"1/weights\.bin leads out of the model's directory"),
    "a pipe": (lambda file: (file.unlink(), os.mkfifo(file)), r"weights\.bin is 0 bytes, expected 128"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_weights_that_are_not_the_published_ones_are_refused_and_the_card_is_free(
    weighted: Build,
    tmp_path: Path,
    name: str,
) -> None:
    version = published(weighted, tmp_path, 3)
    damage, message = DAMAGE[name]
    damage(version / "weights.bin")
    with pytest.raises(ModelLoadError, match=message):
        load(version)
    close(load(published(weighted, tmp_path, 4)))


def test_fewer_weights_than_the_kernel_reads_are_refused(weighted: Build, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="facile_1 reads 128 bytes of weights"):
        load(published(weighted, tmp_path, 3, beats=1))
