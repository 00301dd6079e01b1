# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypersonic.firmware.errors import PlatformError
from hypersonic.firmware.f2 import registers
from hypersonic.firmware.platform import DIRECTORY, GIB, PLATFORMS, Flow, Platform, find_platform, read_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.sections import MEMORY_KINDS

U250 = (DIRECTORY / "u250.toml").read_text()


def written(directory: Path, text: str, name: str = "u250.toml") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_u250_has_its_four_banks_where_the_card_has_them() -> None:
    banks = find_platform("u250").memory
    assert [bank.base_address for bank in banks] == [0x4000000000, 0x5000000000, 0x6000000000, 0x7000000000]
    assert {bank.size_bytes for bank in banks} == {16 * GIB}
    assert [bank.tag for bank in banks] == ["bank0", "bank1", "bank2", "bank3"]
    assert [bank.sp for bank in banks] == ["DDR[0]", "DDR[1]", "DDR[2]", "DDR[3]"]
    assert [bank.slr for bank in banks] == [0, 1, 2, 3]


def test_the_cards_of_the_plan_are_there_with_what_is_known_of_them() -> None:
    assert {"aws_f2", "u200", "u250", "u280", "u50", "u55c"} <= PLATFORMS.keys()
    assert {name for name in ("u200", "u250", "u280", "u50", "u55c") if PLATFORMS[name].newest_vitis == "2025.1"} == {
        "u200", "u250", "u280",
    }  # fmt: skip
    assert sum(die.lut for die in PLATFORMS["u250"].slrs) == 1_380_000
    assert [len(PLATFORMS[name].slrs) for name in ("u250", "u200", "u280", "u55c", "u50")] == [4, 3, 3, 3, 2]
    assert PLATFORMS["aws_f2"].flow is Flow.F2_HDK
    assert {PLATFORMS[name].flow for name in ("u250", "u200", "u280", "u55c", "u50")} == {Flow.XRT}


def test_channels_of_hbm_are_named_and_lie_side_by_side() -> None:
    channels = find_platform("u55c").memory
    assert [channel.tag for channel in channels] == [channel.sp for channel in channels] == [f"HBM[{k}]" for k in range(32)]
    assert [channel.base_address for channel in channels[:3]] == [0, GIB // 2, GIB]
    assert [bank.kind for bank in find_platform("u280").memory[31:]] == ["HBM", "DDR4", "DDR4"]


def test_what_is_known_of_the_whole_card_alone_is_spread_evenly_and_marked() -> None:
    u55c = find_platform("u55c")
    assert u55c.spread == ("ff", "dsp", "bram36", "uram")
    assert [die.lut for die in u55c.slrs] == [386_000, 364_000, 381_000]
    assert {die.dsp for die in u55c.slrs} == {8304 // 3}


def test_targets_are_spelled_as_vitis_spells_them() -> None:
    assert [str(target) for target in Target] == ["sw_emu", "hw_emu", "hw"]
    assert [target.emulated for target in Target] == [True, True, False]


def test_an_unknown_platform_is_refused_with_those_there_are() -> None:
    assert "u999" not in PLATFORMS
    with pytest.raises(PlatformError, match=f"platform is 'u999', expected one of {', '.join(sorted(PLATFORMS))}"):
        find_platform("u999")


def test_a_card_of_the_past_is_refused_with_its_successor() -> None:
    with pytest.raises(PlatformError, match=r"platform is 'aws_f1', expected one of .*; did you mean aws_f2\?"):
        find_platform("aws_f1")


def test_the_f2_shell_has_its_own_module_and_its_own_limit_and_uses_host_memory() -> None:
    others = [(p.compute_units, p.host_memory, p.shell_module) for p in PLATFORMS.values() if p.flow is not Flow.F2_HDK]
    assert set(others) == {(128, False, "")}
    f2 = find_platform("aws_f2")
    assert (f2.compute_units, f2.host_memory, f2.shell_module) == (registers.MAX_UNITS, True, "f2_shell")


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


@pytest.mark.parametrize(
    ("field", "replacement", "message"),
    [
        ("kernel_mhz = 300", "kernel_mhz = true", r"\[clock\]: kernel_mhz is True, expected an integer of 0 or more"),
        ("kernel_mhz = 300", "kernel_mhz = -1", r"\[clock\]: kernel_mhz is -1, expected an integer"),
        ("kernel_mhz = 300", "kernel_mhz = 300\nfan = 1", r"\[clock\]: unknown field 'fan', expected kernel_mhz, system_mhz"),
        ("kernel_mhz = 300", "", r"\[clock\]: kernel_mhz is missing, expected an integer"),
        ("h2c_gb_s = 9.3", "h2c_gb_s = '9'", r"\[pcie\]: h2c_gb_s is '9', expected a number above 0"),
        ('part = "', 'colour = "red"\npart = "', "unknown field 'colour'"),
        ('build = "xrt"', 'build = "gcc"', "build is 'gcc', expected one of xrt, f2_hdk"),
        ('build = "xrt"', 'build = "xrt"\nhost_memory = 1', "host_memory is 1, expected true or false"),
        ('newest_vitis = "2025.1"', 'newest_vitis = "soon"', "newest_vitis is 'soon', expected a release such as 2025.1"),
        ("807a580e", "807A", "interface_uuid is .*, expected 32 hexadecimal digits"),
        ('name = "u250"', 'name = "u251"', "name is 'u251', expected the file's name 'u250'"),
        ("uram = 320", "", r"uram must be given in every \[\[slr\]\], or once in \[total\]"),
        ("uram = 320", "uram = 1.5", r"slr\[0\]: uram is 1.5, expected an integer"),
        ('kind = "DDR4"', 'kind = "tape"', r"memory\[0\]: kind is 'tape', expected DDR4 or HBM"),
        (
            "read_gb_s = 16.8",
            "read_gb_s = 19.3",
            r"memory\[0\]: read_gb_s is 19.3, expected at most its peak of 19.2",
        ),
        ("write_gb_s = 15.2", "write_gb_s = 20", r"memory\[0\]: write_gb_s is 20, expected at most its peak of 19.2"),
        ("read_gb_s = 16.8", "", r"memory\[0\]: expected read_gb_s, write_gb_s and their source, or none of them"),
        ("slr = 3", "slr = 4", r"memory\[3\]: expected slr below 4"),
        ("base = 0x5000000000", "base = 0x4000000001", "memory bank1 begins at 0x4000000001, expected 0x4400000000 or above"),
        ("unverified = []", 'unverified = ["clock.mhz"]', "unverified names 'clock.mhz', which is not a field"),
        ("unverified = []", 'unverified = ["memory[9]"]', r"unverified names 'memory\[9\]', which is not a field"),
        ("[clock]", "[clock", "is not TOML"),
    ],
)
def test_a_field_that_is_not_what_it_must_be_is_named_with_its_file(
    tmp_path: Path, field: str, replacement: str, message: str
) -> None:
    assert field in U250
    with pytest.raises(PlatformError, match=rf"^u250\.toml.*{message}"):
        read_platform(written(tmp_path, U250.replace(field, replacement, 1)))


def test_a_file_that_cannot_be_read_or_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"^none\.toml cannot be read: No such file"):
        read_platform(tmp_path / "none.toml")
    with pytest.raises(PlatformError, match=r"^u250\.toml is more than 65536 bytes"):
        read_platform(written(tmp_path, U250 + "#" * 65536))


def test_every_file_says_where_its_figures_are_from() -> None:
    for file in DIRECTORY.glob("*.toml"):
        assert re.search(r"^# .*Sources?: ", file.read_text(), re.MULTILINE), file.name
