# SPDX-License-Identifier: Apache-2.0
"""Reuse factors for a card: every design of the search is one that plan() makes, and the one taken fits."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.building.fit.card import SHELL, FillError, card_of, rate_lines
from hypersonic.building.fit.picture import draw_fit
from hypersonic.firmware.estimate.rates import NETWORK_GBPS, card_rate
from hypersonic.firmware.kernel.slices import SLICES
from hypersonic.firmware.platform import PLATFORMS, find_platform
from hypersonic.hls.network.base import Network, WeightsIn
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.rf.fit.design import BUSY, CardResources, Fit, FitError
from hypersonic.hls.rf.fit.exchange import card_from_json, card_to_json, fit_from_json, fit_to_json
from hypersonic.hls.rf.fit.place import pipeline_cost
from hypersonic.hls.rf.fit.search import fit, rate, with_design, with_reuse_factors
from hypersonic.hls.rf.fit.text import fit_lines, slowest
from hypersonic.hls.rf.plan import interval, plan
from hypersonic.hls.rf.stage import row_beats
from hypersonic.hls.rf.timing import clocks
from hypersonic.hls.zoo import facile
from tests.hls.rf.fit.networks import Net, emtrk, facile_v2, jets, resnet50, separable, transformer

DIE = Amounts(lut=200_000, ff=300_000, dsp=2_200, bram36=280, uram=256)
CARD = CardResources("card", (DIE,) * 4, 4, 300.0)
SMALL = CardResources("small", (Amounts(lut=40_000, ff=60_000, dsp=100, bram36=60, uram=8),), 1, 200.0)

NETWORKS = {"jets": jets, "facile_v2": facile_v2, "separable": separable, "transformer": transformer}


def check(network: Network, result: Fit) -> None:
    """The interval of every point is plan()'s, and what the sketch estimates is near what plan() makes."""
    for point in result.points:
        if not point.design.reuse_factors:
            continue
        asked = with_reuse_factors(network, point.design.reuse_factors)
        pipeline = plan(asked)
        assert clocks(pipeline).ii == point.design.interval >= interval(asked)
        assert not pipeline.notes, "every reuse factor is one that divides"


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("card", [CARD, SMALL], ids=lambda card: card.name)
def test_every_point_is_a_pipeline_with_that_interval(name: str, card: CardResources) -> None:
    network = NETWORKS[name]()
    check(network, fit(network, card))


def test_a_product_of_two_tensors_shares_multipliers_and_has_no_weights() -> None:
    result = fit(transformer(), SMALL)
    dense, *products = result.layers
    assert dense.weights_in is WeightsIn.LUT
    assert [layer.weights_in for layer in products] == [None, None]
    assert all(layer.reuse_factor > 0 and layer.multipliers for layer in products)
    assert fit_from_json(json.loads(json.dumps(fit_to_json(result)))).layers == result.layers
    assert any(line.startswith(products[0].name) and "  -" in line for line in fit_lines(result))


@settings(max_examples=8)
@given(
    st.integers(4, 14),
    st.integers(1, 12),
    st.sampled_from([1, 3, 5]),
    st.integers(1, 2),
    st.integers(1, 16),
    st.integers(50, 2000),
)
def test_the_interval_is_the_plans_whatever_the_shapes(
    side: int, channels: int, kernel: int, stride: int, filters: int, dsp: int
) -> None:
    net = Net(side, side + 1, channels).convolution(filters, kernel, stride).relu().pool(2, 2)
    network = net.convolution(filters, 1).depthwise(3).flat().dense(7).network("drawn")
    check(network, fit(network, replace(CARD, dies=(replace(DIE, dsp=dsp),))))


def test_no_point_beats_another_and_the_fastest_that_fits_a_die_is_taken() -> None:
    result = fit(facile_v2(), SMALL)
    for faster, slower in pairwise(result.points):
        assert faster.rate_hz > slower.rate_hz
        assert faster.fullest > slower.fullest
    assert result.chosen == result.points[0]
    assert all(point.design.unit.fits(SMALL.dies[0]) and 0 < point.fullest <= 1 for point in result.points)
    # and the card is filled: some layer could not be made faster
    assert result.chosen.fullest > 0.6


def test_the_sketch_costs_what_the_plan_costs() -> None:
    for network in (facile_v2(), separable(), resnet50(((2, 16), (1, 32)), 32)):
        result = fit(network, replace(SMALL, dies=(replace(SMALL.dies[0], dsp=900, bram36=600, lut=150_000, ff=250_000),)))
        planned = pipeline_cost(plan(with_reuse_factors(network, result.reuse_factors)))
        taken = result.chosen.design.unit
        assert taken.dsp == planned.dsp
        assert taken.lut == pytest.approx(planned.lut, rel=0.1)
        assert taken.ff == pytest.approx(planned.ff, rel=0.1)


def test_latency_and_layers_are_the_pipelines_own() -> None:
    network = separable()
    result = fit(network, SMALL)
    timed = clocks(plan(with_reuse_factors(network, result.reuse_factors)))
    assert result.latency_cycles == timed.latency
    assert [layer.name for layer in result.layers] == ["l0", "l2", "l5"]
    assert {layer.name: layer.reuse_factor for layer in result.layers} == dict(result.reuse_factors)


def test_multipliers_of_the_slowest_layer_work_and_others_that_rest_are_said_to_be_coarse() -> None:
    result = fit(facile_v2(), SMALL)
    bottleneck = slowest(result)
    assert bottleneck is not None
    assert bottleneck.busy >= BUSY
    for layer in result.layers:
        assert layer.coarse == (layer.busy < BUSY and layer.multipliers > 1)
    # 31 and 11 are prime: few reuse factors divide
    assert any(layer.coarse for layer in result.layers)


def test_weights_go_to_ultraram_where_block_ram_overflows() -> None:
    tight = replace(SMALL, dies=(replace(SMALL.dies[0], bram36=6, dsp=20),))
    result = fit(facile_v2(), tight)
    places = result.chosen.design.weights_in
    assert WeightsIn.URAM in places.values()
    assert 0 < result.chosen.design.unit.uram <= 8
    assert any("UltraRAM, loaded at run time: " in line for line in fit_lines(result))


def test_units_repeat_where_there_is_room_and_memory_for_them() -> None:
    result = fit(jets(), replace(CARD, units=3))
    assert result.chosen.units == 3
    assert result.chosen.rate_hz == 3 * 300e6 / result.chosen.design.interval


def wide() -> Network:
    net = Net(256)
    for _ in range(4):
        net = net.dense(256).relu()
    return net.network("wide")


def test_a_unit_larger_than_a_die_is_laid_out_over_them_and_the_plan_is_printed_and_built() -> None:
    dies = (Amounts(lut=40_000, ff=60_000, dsp=100, bram36=20, uram=4),) * 4
    result = fit(wide(), replace(CARD, dies=dies, units=1, boundary_wires=2_000))
    design, laid = result.chosen.design, result.chosen.design.dies
    assert design.spans
    assert laid is not None
    assert all(amounts.fits(die) for amounts, die in zip(laid.amounts, dies, strict=True))
    assert laid.total == design.unit
    lines = fit_lines(result)
    assert any(line.startswith("the unit does not fit one die; its stages on the dies") for line in lines)
    assert [line.split()[0] for line in lines if line.startswith("SLR")] == ["SLR0", "SLR1", "SLR2", "SLR3"]
    assert fit_lines(fit_from_json(json.loads(json.dumps(fit_to_json(result))))) == lines
    planned = plan(with_design(wide(), design), cuts=laid.cuts)
    assert clocks(planned).latency == result.latency_cycles
    assert clocks(planned).ii == design.interval
    kept = [stage for stage in planned.stages if stage.module not in ("axis_skid", "rf_lanes")]
    for die, ends in enumerate(laid.layers):
        layers = [stage.layer for stage in kept if stage.die == die]
        assert (layers[0], layers[-1]) == ends


def test_a_unit_that_no_division_fits_is_refused_with_the_die_and_what_is_short() -> None:
    dies = (Amounts(lut=40_000, ff=60_000, dsp=100, bram36=14),) * 5
    short = "has no room on SLR1 for layer 'l0': URAM288 beside full block RAM: got 8, expected at most 0; give weights"
    with pytest.raises(FitError, match=rf"'wide' does not fit card: the smallest design, a row every [\d,]+ clocks, {short}"):
        fit(wide(), replace(CARD, dies=dies, units=1))


def test_weights_that_no_chip_holds_stay_in_the_cards_memory_and_the_port_keeps_up() -> None:
    """EmTrkMichelId's 95 Mb, and a die of 12."""
    die = Amounts(lut=80_000, ff=120_000, dsp=400, bram36=280, uram=16)
    result = fit(emtrk(), replace(CARD, dies=(die,), units=1))
    design = result.chosen.design
    assert WeightsIn.DRAM in design.weights_in.values()
    assert design.unit.fits(die)
    pipeline = plan(with_design(emtrk(), design))
    assert sum(map(row_beats, pipeline.stages)) <= design.interval == clocks(pipeline).ii
    assert any("weights from the card's memory" in line for line in fit_lines(result))


def test_what_fits_no_card_is_refused_with_the_resource_and_how_much() -> None:
    with pytest.raises(FitError, match=r"'emtrk' does not fit small: .*RAMB36: got [\d,]+, expected at most 60; .*fewer bits"):
        fit(emtrk(), replace(SMALL, dies=(replace(SMALL.dies[0], uram=0),)))


def test_the_hosts_link_and_the_memory_bound_the_rate() -> None:
    link = replace(CARD, x_bytes=640, y_bytes=64, h2c_gb_s=32, c2h_gb_s=32)
    assert rate(link, 5, 1) == (300e6 / 10, "the memory's bus")
    assert rate(link, 5, 2) == (50e6, "host to card")
    assert rate(link, 40, 1) == (300e6 / 40, "the core")
    both = replace(link, both_gb_s=33, bank_gb_s=30)
    for card, units, per_s, by in (
        (both, 4, 33e9 / 704, "the host's link"),
        (both, 1, 30e9 / (2 * 704), "the memory bank"),
        (replace(both, one_bank=False), 1, 30e9 / (2 * 640), "the memory bank"),
    ):
        found, part = rate(card, 5, units)
        assert found == pytest.approx(per_s)
        assert part == by
    # of designs that all fill the link the smallest is taken
    bound, free = fit(jets(), link), fit(jets(), CARD)
    assert bound.chosen.bound == "host to card"
    assert bound.chosen.fullest < free.chosen.fullest


@given(
    st.sampled_from(("u250", "u200", "u280", "u55c", "u50", "aws_f2")), st.integers(1, 500), st.integers(1, 500),
    st.integers(1, 20_000), st.integers(1, 4),
)  # fmt: skip
def test_a_search_counts_links_and_banks_as_the_predicted_rate_does(
    name: str, x_beats: int, y_beats: int, interval: int, units: int
) -> None:
    platform, x, y = find_platform(name), 64 * x_beats, 64 * y_beats
    clocks = max(interval, x_beats, y_beats)
    parts = [each for each in card_rate(platform, clocks, (x, y), units=units).limits if each.part not in ("network", "card")]
    got, _ = rate(card_of(platform, x, y), interval, units)
    assert got == pytest.approx(min(each.events_per_s for each in parts))


def test_a_search_through_resnet_50_sketches_few_designs() -> None:
    result = fit(resnet50(side=64), CARD)
    assert result.tried <= 48
    assert len(result.layers) == 54
    assert result.chosen.design.unit.fits(CARD.whole)


def test_a_fit_and_its_card_travel_as_json() -> None:
    result = fit(jets(), CARD)
    back = fit_from_json(json.loads(json.dumps(fit_to_json(result))))
    assert fit_lines(back) == fit_lines(result)
    assert back.chosen == result.chosen
    assert back.layers == result.layers
    assert card_from_json(json.loads(json.dumps(card_to_json(CARD)))) == CARD


def test_the_shell_that_a_search_assumes_holds_that_of_facile_with_registers_at_its_ports() -> None:
    modules = json.loads((Path(facile.__file__).parent / "resources.json").read_text())["modules"]
    shell = {kind: modules["facile"][kind] - modules["facile/facile_core"][kind] + getattr(SLICES, kind) for kind in KINDS}
    assert {kind: shell[kind] for kind in KINDS if shell[kind] > getattr(SHELL, kind)} == {}


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_every_card_has_room_for_units(name: str) -> None:
    card = card_of(PLATFORMS[name])
    assert card.units >= 1
    assert min(getattr(card.whole, kind) for kind in KINDS) > 0
    half = card_of(PLATFORMS[name], fill_percent=40)
    assert half.whole.dsp < card.whole.dsp
    for percent in (-1, 0, 101):
        with pytest.raises(FillError, match=f"card '{name}': fill is {percent} per cent, expected 1 to 100"):
            card_of(PLATFORMS[name], fill_percent=percent)


def test_the_tables_and_the_picture_of_a_card(tmp_path: Path) -> None:
    result = fit(facile_v2(), card_of(PLATFORMS["u250"], 47 * 4, 4))
    lines = [*fit_lines(result), *rate_lines(result, NETWORK_GBPS)]
    draw_fit(result, tmp_path / "fit.png")
    assert lines[0].startswith("facile_v2 on u250: 3 compute units, each a row every 16 clocks ")
    assert "limited by host to card; " in lines[1]
    assert any(line.startswith("* ") for line in lines)
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
    assert result.chosen.fullest <= 1
