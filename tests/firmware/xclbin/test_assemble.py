# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hypersonic.firmware.errors import LinkError
from hypersonic.firmware.platform import PLATFORMS, find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from hypersonic.firmware.xclbin.connectivity import assign_banks
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.sections import Connection, Kind

U250 = find_platform("u250")


def test_compute_unit_k_is_connected_to_bank_k() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, b"image", compute_units=4))
    assert [unit.name for unit in xclbin.compute_units] == [f"facile_{k}" for k in range(1, 5)]
    assert [unit.memories for unit in xclbin.compute_units] == [{0: bank, 1: bank} for bank in range(4)]
    assert Connection(argument=1, ip=3, memory=3) in xclbin.connections


@pytest.mark.parametrize("card", ["u250", "u55c"])
def test_weights_are_connected_where_the_rows_are(card: str) -> None:
    platform = find_platform(card)
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, platform, b"image", compute_units=2, weights=True))
    for of in (xclbin.connections, xclbin.group_connections):
        reached = [sorted((to.ip, to.memory) for to in of if to.argument == argument) for argument in (0, 3)]
        assert reached[0] == reached[1] != []
    assert xclbin.kernels[0].arguments[3].name == "w"


def test_only_connected_banks_are_marked_used() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, b"", compute_units=2))
    assert [memory.used for memory in xclbin.memories] == [True, True, False, False]


def test_compute_units_are_sorted_by_address_with_ap_ctrl_chain_and_their_own_interrupt() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, b"", compute_units=3))
    assert [ip.base_address for ip in xclbin.ips] == [0x1800000, 0x1810000, 0x1820000]
    assert {ip.control_protocol for ip in xclbin.ips} == {1}
    assert [ip.properties & 1 for ip in xclbin.ips] == [1, 1, 1]
    assert [ip.properties >> 1 & 0x7F for ip in xclbin.ips] == [0, 1, 2]


def test_metadata_and_layout_agree_on_names_and_addresses() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, U250, b"", compute_units=2))
    (kernel,) = xclbin.kernels
    assert [(unit.name, unit.base_address) for unit in kernel.instances] == [
        (unit.name, unit.base_address) for unit in xclbin.compute_units
    ]


def test_groups_repeat_the_memories_so_that_group_ids_are_bank_numbers() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW, U250, b"", compute_units=2))
    assert xclbin.group_memories == xclbin.memories
    assert xclbin.group_connections == xclbin.connections


def test_channels_that_one_port_reaches_are_a_group_behind_the_memories() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, find_platform("u55c"), b"", compute_units=2))
    assert xclbin.group_memories[: len(xclbin.memories)] == xclbin.memories
    groups = xclbin.group_memories[len(xclbin.memories) :]
    assert [(group.tag, group.used) for group in groups] == [
        ("MBG[0:3]", True), ("MBG[4:7]", True), ("MBG[8:11]", True), ("MBG[12:15]", True)
    ]  # fmt: skip
    assert [(group.base_address, group.size_kib) for group in groups] == [(k * 2 << 30, 2 << 20) for k in range(4)]
    assert [unit.memories for unit in xclbin.compute_units] == [{0: 32, 1: 33}, {0: 34, 1: 35}]
    assert xclbin.compute_units[1].reach == {0: {34, 8, 9, 10, 11}, 1: {35, 12, 13, 14, 15}}
    assert [(c.argument, c.memory) for c in xclbin.connections if c.ip == 0] == [(k // 4, k) for k in range(8)]


def test_one_channel_a_port_is_no_group() -> None:
    xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, find_platform("u55c"), b"", compute_units=16))
    assert xclbin.group_memories == xclbin.memories
    assert xclbin.group_connections == xclbin.connections


def test_the_image_travels_in_bitstream_and_the_tools_in_build_metadata() -> None:
    xclbin = Xclbin.parse(
        assemble_xclbin("facile", Target.SW_EMU, U250, b"simulator", tools={"hls4ml": "1.3.0", "da4ml": "0.6.0"})
    )
    assert xclbin.bitstream == b"simulator"
    build = json.loads(xclbin.section(Kind.BUILD_METADATA) or b"")["build_metadata"]["xclbin"]
    assert build["generated_by"]["tools"] == {"da4ml": "0.6.0", "hls4ml": "1.3.0"}


def test_equal_inputs_give_equal_bytes_and_any_change_another_uuid() -> None:
    first = assemble_xclbin("facile", Target.HW_EMU, U250, b"image", tools={"a": "1", "b": "2"})
    assert assemble_xclbin("facile", Target.HW_EMU, U250, b"image", tools={"b": "2", "a": "1"}) == first
    others = [
        assemble_xclbin("facile", Target.HW_EMU, U250, b"imagf", tools={"a": "1", "b": "2"}),
        assemble_xclbin("facile", Target.SW_EMU, U250, b"image", tools={"a": "1", "b": "2"}),
        assemble_xclbin("facile", Target.HW_EMU, find_platform("u200"), b"image", tools={"a": "1", "b": "2"}),
        assemble_xclbin("facile", Target.HW_EMU, U250, b"image", compute_units=2, tools={"a": "1", "b": "2"}),
    ]
    assert len({Xclbin.parse(data).uuid for data in (first, *others)}) == 5


def test_every_platform_can_be_linked_for() -> None:
    for platform in PLATFORMS.values():
        assert Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, platform, b"", compute_units=4)).vbnv == platform.vbnv


def test_the_container_agrees_with_the_linker_configuration() -> None:
    for platform in PLATFORMS.values():
        xclbin = Xclbin.parse(assemble_xclbin("facile", Target.HW_EMU, platform, b"", compute_units=3))
        assigned = assign_banks(platform, 3, 2)
        for unit, ports in zip(xclbin.compute_units, assigned, strict=True):
            assert all(set(banks) <= unit.reach[argument] for argument, banks in enumerate(ports))
        used = {bank for unit in assigned for port in unit for bank in port}
        assert [memory.used for memory in xclbin.memories] == [index in used for index in range(len(platform.memory))]


def test_a_platform_without_memory_is_refused() -> None:
    with pytest.raises(LinkError, match="u250 has no memory to connect"):
        assemble_xclbin("facile", Target.HW_EMU, replace(U250, memory=()), b"")


@pytest.mark.parametrize("name", ["", "1st", "jet tagger", "ä", "a:b", "x" * 40])
def test_a_name_that_makes_no_kernel_is_refused(name: str) -> None:
    with pytest.raises(LinkError, match=r"kernel name is .* expected an identifier of at most 30 characters"):
        assemble_xclbin(name, Target.HW_EMU, U250, b"")


@pytest.mark.parametrize("target", list(Target))
def test_more_units_than_memories_are_refused_for_an_emulated_card_as_for_a_real_one(target: Target) -> None:
    with pytest.raises(LinkError, match=r"^5 compute units do not fit u250: got 5, expected at most 4 \(one of 4 DDR"):
        assemble_xclbin("facile", target, U250, b"", compute_units=5)


@pytest.mark.parametrize("compute_units", [0, -1, 129])
def test_a_number_of_compute_units_out_of_range_is_refused(compute_units: int) -> None:
    with pytest.raises(LinkError, match=f"compute units: got {compute_units}, expected 1 to 128"):
        assemble_xclbin("facile", Target.HW_EMU, U250, b"", compute_units=compute_units)
