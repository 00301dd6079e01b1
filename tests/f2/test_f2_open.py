# SPDX-License-Identifier: Apache-2.0
"""Which driver a container gets, and the server's backend over the simulated F2 card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.events.sending import closed_loop, send
from hypersonic.firmware.f2.design import assemble_f2_xclbin
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host import opening
from hypersonic.host.errors import DeviceNotFoundError, LibraryNotFoundError
from hypersonic.host.f2.driver import F2Driver
from hypersonic.host.opening import choose_driver, open_device
from hypersonic.host.xrt import Library
from hypersonic.server_process import start_server

if TYPE_CHECKING:
    from tests.f2.conftest import Built


def test_a_container_for_f2_is_opened_without_xrt(built: Built) -> None:
    with open_device(built.xclbin, 3) as device:
        assert [unit.name for unit in device.open_units()] == ["bench_1", "bench_2"]
        assert device.contents.kernel_clock_mhz == 250
    with pytest.raises(DeviceNotFoundError, match="F2 card 4 cannot be opened: 4 are simulated"):
        open_device(built.xclbin, 4)
    with pytest.raises(DeviceNotFoundError, match="F2 card -1"):
        open_device(built.xclbin, -1)


def test_platform_and_target_pick_the_driver(built: Built) -> None:
    f2, u250 = find_platform("aws_f2"), find_platform("u250")
    card = Xclbin.parse(assemble_f2_xclbin(built.design, Target.HW, f2, b"agfi-0123456789abcdef0"))
    assert isinstance(choose_driver(card), F2Driver)
    assert isinstance(choose_driver(Xclbin.read(built.xclbin)), F2Driver)
    for platform, target in ((f2, Target.SW_EMU), (u250, Target.HW_EMU)):
        assert isinstance(choose_driver(Xclbin.parse(assemble_xclbin("bench", target, platform, b"image"))), Library)


def test_a_machine_without_f2_cards_says_so(built: Built, tmp_path: Path) -> None:
    file = tmp_path / "model.xclbin"
    file.write_bytes(assemble_f2_xclbin(built.design, Target.HW, find_platform("aws_f2"), b"agfi-0123456789abcdef0"))
    with pytest.raises(DeviceNotFoundError, match="F2 card 9 cannot be opened: there is no such card"):
        open_device(file, 9)


def test_a_machine_without_the_simulator_says_so(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "F2_EMULATION", "hypersonic.sim.none")
    with pytest.raises(LibraryNotFoundError, match="the simulated F2 card cannot be loaded"):
        choose_driver(Xclbin.read(built.xclbin))


def test_the_server_serves_a_model_on_the_simulated_f2_card(built: Built, tmp_path: Path) -> None:
    publish(tmp_path, built.xclbin.read_bytes(), built.manifest, config_pbtxt(built.manifest))
    events = [built.rows(1000, seed) for seed in range(6)]
    with start_server(tmp_path) as server, Client(server.grpc, closed_loop(3)) as client:
        load = send(client, "bench", [(x,) for x, _ in events])
    for (got,), (_, wanted) in zip(load.outputs, events, strict=True):
        np.testing.assert_array_equal(got.reshape(wanted.shape).view(np.uint32), wanted.view(np.uint32))
