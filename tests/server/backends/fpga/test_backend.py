# SPDX-License-Identifier: Apache-2.0
"""The fpga backend releases everything it took from a card, by the journal of a faulty XRT."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.server.backends.fpga.backend import FpgaBackend, FpgaModel
from hypersonic.server.core.config.read import read_config
from hypersonic.server.errors import BackendError, InstanceAwayError, InstanceTimeoutError, ModelLoadError
from tests.host.conftest import Build
from tests.host.register_values import HEALTHY

SLOT = ["run", "buffer", "buffer"]
UNIT = [*SLOT, "kernel"]
#: in the order of an ordinary end, and of a card that is released
CLOSED = LET_GO = [*UNIT, *UNIT, "device"]


@pytest.fixture
def model(faulty: Any, build: Build, tmp_path: Path) -> FpgaModel:
    """On a card whose registers tell how its two units are."""
    xclbin, manifest = build
    parameters = {"slots": "1", "slot_rows": "16", "timeout_ms": "30", "retry_ms": "250"}
    publish(tmp_path, xclbin.read_bytes(), manifest, config_pbtxt(manifest, parameters=parameters))
    faulty.set(f"registers={HEALTHY}")
    directory = tmp_path / "facile"
    return FpgaBackend().load(directory / "1", read_config(directory / "config.pbtxt", "facile"))


def close(model: FpgaModel) -> None:
    """As the server does: the instances, then the model."""
    for instance in model.instances:
        instance.close()
    model.close()


def hang(model: FpgaModel, faulty: Any, number: int) -> None:
    slot = model.instances[number].slots[0]
    faulty.set(f"registers={HEALTHY} state=3")
    slot.start([])
    with pytest.raises(InstanceTimeoutError, match="did not complete within 30 ms"):
        slot.finish()
    faulty.set(f"registers={HEALTHY}")


def test_a_model_that_is_closed_gives_its_card_back_in_order(faulty: Any, model: FpgaModel) -> None:
    close(model)
    assert faulty.journal() == CLOSED


def test_slots_that_no_bank_has_room_for_are_refused_before_the_card_is_opened(
    faulty: Any, build: Build, tmp_path: Path
) -> None:
    xclbin, manifest = build
    parameters = {"slots": "64", "slot_rows": "1000000000"}
    publish(tmp_path, xclbin.read_bytes(), manifest, config_pbtxt(manifest, parameters=parameters))
    directory = tmp_path / "facile"
    with pytest.raises(ModelLoadError, match=r"64 slots of 1000000000 rows of 'facile' take .* reduce slots or slot_rows"):
        FpgaBackend().load(directory / "1", read_config(directory / "config.pbtxt", "facile"))
    assert faulty.journal() == []


def test_a_large_xclbin_is_refused_before_it_is_read(build: Build, tmp_path: Path) -> None:
    xclbin, manifest = build
    publish(tmp_path, xclbin.read_bytes(), manifest, config_pbtxt(manifest))
    directory = tmp_path / "facile"
    for size_bytes, said in ((6 << 30, "6442450944 bytes, expected an xclbin of at most"), (1 << 30, "bytes after the image")):
        os.truncate(directory / "1" / "model.xclbin", size_bytes)
        tracemalloc.start()
        try:
            with pytest.raises(ModelLoadError, match=rf"^1/model\.xclbin: .*{said}"):
                FpgaBackend().load(directory / "1", read_config(directory / "config.pbtxt", "facile"))
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < 4 << 20


def test_a_model_with_a_hung_unit_gives_its_card_back_too_so_that_a_reset_finds_nobody_there(
    faulty: Any, model: FpgaModel
) -> None:
    hang(model, faulty, 0)
    close(model)
    assert faulty.journal() == LET_GO


def test_a_lost_unit_asks_to_be_looked_for_later_while_the_other_serves(faulty: Any, model: FpgaModel) -> None:
    hang(model, faulty, 1)
    with pytest.raises(InstanceAwayError, match="facile_2 can be recovered once facile_1 of the same card") as caught:
        model.instances[1].revive()
    assert caught.value.retry_s == 0.25
    assert faulty.journal() == []
    close(model)


def test_once_all_units_are_lost_the_card_is_given_back_and_opened_anew(faulty: Any, model: FpgaModel) -> None:
    for number in (0, 1):
        hang(model, faulty, number)
    first, second = model.instances
    with pytest.raises(InstanceAwayError, match="once facile_2"):
        first.revive()
    assert second.revive()
    assert faulty.journal() == LET_GO
    assert first.revive()
    assert first.in_service
    assert second.in_service
    first.slots[0].start([])
    first.slots[0].finish()
    close(model)
    assert faulty.journal() == LET_GO + CLOSED


def test_a_card_that_cannot_be_opened_anew_is_tried_again_later(faulty: Any, model: FpgaModel, tmp_path: Path) -> None:
    for number in (0, 1):
        hang(model, faulty, number)
    first, second = model.instances
    with pytest.raises(InstanceAwayError):
        first.revive()
    faulty.set("xrtDeviceOpen=19")
    with pytest.raises(InstanceAwayError, match="there is no such card"):
        second.revive()
    (tmp_path / "facile" / "1" / "model.xclbin").unlink()  # the server keeps the file open
    faulty.set(f"registers={HEALTHY}")
    assert second.revive()
    close(model)


def test_a_run_that_fails_is_no_loss_of_its_unit(faulty: Any, model: FpgaModel) -> None:
    slot = model.instances[0].slots[0]
    faulty.set(f"registers={HEALTHY} state=5")
    slot.start([])
    with pytest.raises(BackendError, match="ended as ERROR, expected COMPLETED"):
        slot.finish()
    assert model.instances[0].in_service
    close(model)


def test_a_model_that_is_far_from_the_trained_one_is_a_warning_in_the_log(
    faulty: Any, build: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    xclbin, manifest = build
    far = replace(manifest, report={"gate": {"accepted": ["output 'y': the rms difference is 40 % of the answers' spread"]}})
    publish(tmp_path, xclbin.read_bytes(), far, config_pbtxt(far))
    faulty.set(f"registers={HEALTHY}")
    directory = tmp_path / "facile"
    close(FpgaBackend().load(directory / "1", read_config(directory / "config.pbtxt", "facile")))
    said = "'facile' version 1 is far from the trained model, which its build accepted: output 'y': the rms difference is 40 %"
    assert said in caplog.text
