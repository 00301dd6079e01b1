# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from hypersonic.firmware.errors import PlatformError
from hypersonic.firmware.platform import GIB, PLATFORMS, Platform, Target, find_platform
from hypersonic.firmware.sections import MEMORY_KINDS


def test_u250_has_its_four_banks_where_the_card_has_them() -> None:
    banks = find_platform("u250").memory
    assert [bank.base_address for bank in banks] == [0x4000000000, 0x5000000000, 0x6000000000, 0x7000000000]
    assert {bank.size_bytes for bank in banks} == {16 * GIB}
    assert [bank.tag for bank in banks] == ["bank0", "bank1", "bank2", "bank3"]


def test_targets_are_spelled_as_vitis_spells_them() -> None:
    assert [str(target) for target in Target] == ["sw_emu", "hw_emu", "hw"]
    assert [target.emulated for target in Target] == [True, True, False]


def test_an_unknown_platform_is_refused_with_those_there_are() -> None:
    with pytest.raises(PlatformError, match="platform is 'u999', expected one of aws_f2, u200, u250, u55c"):
        find_platform("u999")


def test_aws_f1_is_known_and_refused_as_retired() -> None:
    assert "aws_f1" in PLATFORMS
    with pytest.raises(PlatformError, match=r"aws_f1 is retired: AWS ended .* 20 December 2025.*aws_f2"):
        find_platform("aws_f1")


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=lambda platform: platform.name)
def test_memories_fit_the_xclbin_and_do_not_overlap(platform: Platform) -> None:
    assert len(platform.vbnv) < 64
    assert len(bytes.fromhex(platform.interface_uuid)) == 16
    end = 0
    for bank in platform.memory:
        assert len(bank.tag) < 16
        assert bank.kind in MEMORY_KINDS
        assert bank.base_address >= end
        end = bank.base_address + bank.size_bytes
