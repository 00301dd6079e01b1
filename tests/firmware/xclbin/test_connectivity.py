# SPDX-License-Identifier: Apache-2.0
"""Where compute units go, what v++ is told of it, and what is refused before place and route."""

from __future__ import annotations

import configparser
from dataclasses import replace

import pytest

from hypersonic.firmware.errors import LinkError, ResourceError
from hypersonic.firmware.kernel.vitis_xml import Instance, KernelDescription, describe_kernel
from hypersonic.firmware.platform import PLATFORMS, Platform, find_platform
from hypersonic.firmware.toolchains.vitis.config import check_vitis, vpp_config
from hypersonic.firmware.xclbin.connectivity import (
    INTERCONNECT,
    assign_banks,
    describe_places,
    interconnect,
    place_kernels,
    place_units,
)
from hypersonic.hls.resources import Amounts

U250, U55C, U200 = find_platform("u250"), find_platform("u55c"), find_platform("u200")


def kernel(units: int, name: str = "facile") -> KernelDescription:
    return describe_kernel(name, [Instance(f"{name}_{k + 1}", 0x1800000 + k * 0x10000) for k in range(units)])


def test_the_u250_configuration_has_a_bank_and_a_die_for_each_unit() -> None:
    places = place_units(U250, kernel(2), Amounts(lut=36_000, ff=18_000))
    assert vpp_config(U250, [kernel(2)], places, vitis="2025.1") == (
        "# Kernel facile on u250 (xilinx_u250_gen3x16_xdma_4_1_202210_1), for Vitis 2025.1: written by "
        "hypersonic, do not edit.\n"
        "kernel_frequency=0:300\n"
        "\n"
        "[connectivity]\n"
        "nk=facile:2:facile_1,facile_2\n"
        "sp=facile_1.m_axi_gmem0:DDR[0]\n"
        "sp=facile_1.m_axi_gmem1:DDR[0]\n"
        "sp=facile_2.m_axi_gmem0:DDR[1]\n"
        "sp=facile_2.m_axi_gmem1:DDR[1]\n"
        "slr=facile_1:SLR0\n"
        "slr=facile_2:SLR1\n"
    )


def test_units_on_fixed_clocks_get_a_frequency_each() -> None:
    fixed = replace(U250, scalable_clock=False)
    lines = vpp_config(fixed, [kernel(2)], place_units(fixed, kernel(2)), vitis="2025.1", kernel_mhz=200).splitlines()
    assert lines[-3:] == ["[clock]", "freqHz=200000000:facile_1", "freqHz=200000000:facile_2"]
    assert not [line for line in lines if line.startswith("kernel_frequency")]


@pytest.mark.parametrize(("vitis", "names"), [("2024.1", "k_1.k_2"), ("2024.2", "k_1,k_2"), ("2024.2.1", "k_1,k_2")])
def test_names_are_separated_as_the_release_reads_them(vitis: str, names: str) -> None:
    text = vpp_config(U250, [kernel(2, "k")], place_units(U250, kernel(2, "k")), vitis=vitis)
    assert f"nk=k:2:{names}\n" in text


def test_ports_on_hbm_get_channels_of_their_own() -> None:
    text = vpp_config(U55C, [kernel(2)], place_units(U55C, kernel(2)), vitis="2025.2", kernel_mhz=250)
    assert [line for line in text.splitlines() if line.startswith("sp=")] == [
        "sp=facile_1.m_axi_gmem0:HBM[0:3]",
        "sp=facile_1.m_axi_gmem1:HBM[4:7]",
        "sp=facile_2.m_axi_gmem0:HBM[8:11]",
        "sp=facile_2.m_axi_gmem1:HBM[12:15]",
    ]
    assert "kernel_frequency=0:250\n" in text


@pytest.mark.parametrize("units", range(1, 17))
def test_no_two_ports_share_a_channel_while_there_are_enough(units: int) -> None:
    channels = [channel for unit in assign_banks(U55C, units, 2) for port in unit for channel in port]
    assert len(channels) == len(set(channels))
    assert max(channels) < 32


def test_one_channel_is_named_alone() -> None:
    assert "sp=facile_16.m_axi_gmem1:HBM[31]\n" in vpp_config(U55C, [kernel(16)], place_units(U55C, kernel(16)), vitis="2025.2")


@pytest.mark.parametrize("name", [name for name in PLATFORMS if name != "aws_f2"])
def test_every_line_of_every_platform_is_a_key_that_vitis_knows(name: str) -> None:
    platform = PLATFORMS[name]
    text = vpp_config(platform, [kernel(4)], place_units(platform, kernel(4)), vitis="2024.2")
    parsed = configparser.ConfigParser(strict=False, delimiters="=", comment_prefixes="#", interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign] # as configparser documents it
    parsed.read_string(f"[general]\n{text}")
    assert {section: set(parsed[section]) for section in parsed.sections()} == {
        "general": {"kernel_frequency"},
        "connectivity": {"nk", "sp", "slr"},
    }


def test_a_large_unit_moves_to_the_nearest_die_with_room() -> None:
    large = Amounts(lut=110_000)
    assert [place.slr for place in place_units(U200, kernel(3), large)] == [0, 2, 2]  # SLR1 leaves 160,000 LUTs in all


def test_units_on_hbm_are_spread_over_the_dies_from_the_memory_up() -> None:
    assert [place.slr for place in place_units(U55C, kernel(4), Amounts(lut=100_000))] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("card", "units", "unit", "slrs", "registered"),
    [
        (U250, 4, Amounts(lut=36_000), [0, 1, 2, 3], False),
        (U250, 1, Amounts(lut=205_000), [1], True),
        (U250, 1, Amounts(lut=250_000), [None], True),
        (U200, 3, Amounts(lut=110_000), [0, 2, 2], True),
        (U55C, 1, Amounts(lut=36_000), [0], False),
        (U55C, 3, Amounts(lut=36_000), [0, 1, 2], True),
        (find_platform("aws_f2"), 4, Amounts(lut=36_000), [0, 1, 2, 0], False),
    ],
)
def test_a_kernel_with_a_unit_on_another_die_than_its_memory_has_registered_ports(
    card: Platform, units: int, unit: Amounts, slrs: list[int | None], registered: bool
) -> None:
    places = place_units(card, kernel(units), unit)
    assert [place.slr for place in places] == slrs
    assert {place.registered for place in places} == {registered}
    assert {line.endswith(", registered AXI ports") for line in describe_places(card, places)} == {registered}
    chosen = place_units(card, replace(kernel(units), port_registers=True), unit)
    assert all(place.registered for place in chosen), "a kernel that has them keeps them"


def test_ports_are_registered_kernel_by_kernel() -> None:
    large, small = Amounts(lut=205_000), Amounts(lut=20_000)
    places = place_kernels(U250, [kernel(1, "large"), kernel(1, "small")], [large, small])
    assert [(place.unit, place.slr, place.registered) for place in places] == [("large_1", 2, True), ("small_1", 1, False)]


def test_a_unit_that_fits_no_die_is_left_to_the_tools() -> None:
    (place,) = place_units(U250, kernel(1), Amounts(lut=250_000, dsp=100))
    assert place.slr is None
    ports = "m_axi_gmem0 on DDR[0], m_axi_gmem1 on DDR[0], registered AXI ports"
    assert describe_places(U250, [place]) == [f"facile_1: too large for one SLR: placed over several, {ports}"]
    text = vpp_config(U250, [kernel(1)], [place], vitis="2025.1")
    assert "slr=" not in text
    assert "sp=facile_1.m_axi_gmem0:DDR[0]" in text
    assert [place.slr for place in place_units(U250, kernel(2), Amounts(lut=400_000))] == [None, None]


def test_a_unit_that_all_dies_together_do_not_hold_is_refused_with_what_it_lacks_and_what_to_do() -> None:
    lut = sum(die.lut for die in U250.slrs)
    most = lut * 70 // 100 - 33_256
    with pytest.raises(ResourceError) as caught:
        place_units(U250, kernel(1), Amounts(lut=most + 1 - INTERCONNECT.lut, dsp=100))
    assert str(caught.value) == (
        f"compute unit facile_1 does not fit u250: in all SLRs together LUT: got {most + 1:,}, expected at most {most:,} "
        f"(70 % of {lut:,} less 33,256 in use); ask for fewer compute units, quantise or prune the model, or take a larger card"
    )
    assert place_units(U250, kernel(1), Amounts(lut=most - INTERCONNECT.lut, dsp=100))


def test_a_unit_is_placed_with_its_interconnect_where_v_plus_plus_makes_one() -> None:
    assert interconnect(U250) == INTERCONNECT
    assert interconnect(find_platform("aws_f2")) == Amounts(), "f2_shell connects the units"


def test_units_that_fit_a_die_each_are_not_cut_in_pieces_for_one_more() -> None:
    with pytest.raises(ResourceError) as caught:
        place_units(U55C, kernel(4), Amounts(lut=200_000))
    assert str(caught.value).startswith("compute unit facile_4 does not fit u55c: in SLR")


def test_the_controller_of_a_bank_in_use_counts() -> None:
    with pytest.raises(ResourceError, match=r"facile_1 to facile_4 do not fit u250: in all SLRs together LUT: got 860,000, "):
        place_units(U250, kernel(4), Amounts(lut=205_000))
    assert len(place_units(U250, kernel(4), Amounts(lut=198_000))) == 4


def test_f2_has_no_controller_beside_its_kernels() -> None:
    places = place_units(find_platform("aws_f2"), kernel(1), Amounts(lut=267_000))
    assert places[0].slr == 0  # 70 % of 382,333
    assert describe_places(find_platform("aws_f2"), places) == ["facile_1: rows in host memory"]


def test_every_resource_is_checked() -> None:
    whole = sum(U250.slrs, Amounts())
    for name in ("lut", "ff", "dsp", "bram36", "uram"):
        with pytest.raises(ResourceError, match="does not fit u250"):
            place_units(U250, kernel(1), Amounts(**{name: getattr(whole, name)}))


@pytest.mark.parametrize(("card", "most"), [(U250, 4), (U55C, 16)], ids=["u250", "u55c"])
def test_more_units_than_memories_are_refused(card: Platform, most: int) -> None:
    assert len(place_units(card, kernel(most))) == most
    with pytest.raises(LinkError, match=rf"{most + 1} compute units do not fit {card.name}: .* expected at most {most}"):
        place_units(card, kernel(most + 1))


def test_a_release_that_has_dropped_the_card_is_refused() -> None:
    check_vitis(U250, "2025.1")
    check_vitis(U250, "2025.1.1")
    check_vitis(U55C, "2031.2")
    with pytest.raises(
        LinkError, match=r"Vitis 2025.2 no longer supports u250: expected 2025.1 or older; install that release"
    ):
        check_vitis(U250, "2025.2")
    with pytest.raises(LinkError, match=r"Vitis release is 'v2', expected one such as 2025\.1"):
        check_vitis(U250, "v2")


def test_a_platform_without_memory_is_refused() -> None:
    with pytest.raises(LinkError, match="platform u250 has no memory to connect"):
        place_units(replace(U250, memory=()), kernel(1))
