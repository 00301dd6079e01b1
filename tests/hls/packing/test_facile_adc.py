# SPDX-License-Identifier: Apache-2.0
"""FACILE from ADC codes: the same channels in 11 bytes, and nearly the same energies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.frontend.fields import read_packing
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.zoo.facile.events import FIRST_CHARGE, FIRST_DEPTH, qie_edges
from hypersonic.hls.zoo.facile.report import resolution_table
from hypersonic.hls.zoo.facile.task import TASK as FACILE
from hypersonic.hls.zoo.facile.task import thinned
from hypersonic.hls.zoo.facile_adc import codes
from hypersonic.hls.zoo.facile_adc.task import TASK


def description(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ZOO / name / f"{name}.yaml").read_text()))


def test_the_yaml_describes_the_layout_of_the_codes() -> None:
    side = description("facile_adc")["input"]
    assert read_packing("input", {"fields": side["fields"]}, "UINT8", 18, ZOO / "facile_adc") == codes.PACKING
    assert (codes.PACKING.row_bytes, codes.PACKING.size) == (11, 18)


def test_the_network_is_that_of_facile() -> None:
    ours, facile = description("facile_adc"), description("facile")
    assert ours["hls4ml"] == facile["hls4ml"]
    assert (ZOO / "facile_adc/facile_adc.h5").read_bytes() == (ZOO / "facile/facile.h5").read_bytes()
    for key in ("precision", "scale_exponents"):
        assert (ours["input"][key], ours["output"][key]) == (facile["input"][key], facile["output"][key])


def test_a_code_stands_for_the_centre_of_its_bin_and_the_setting_for_its_scale() -> None:
    charges, edges = codes.charges(), qie_edges()
    widths = np.diff(edges)
    assert charges.shape == (2, 256)
    assert (charges[0] - edges[:-1] == pytest.approx(widths / 2)) is True
    for range_ in range(4):  # eight times as coarse as the range before
        assert widths[64 * range_ : 64 * range_ + 64] == pytest.approx(widths[:64] * 8.0**range_)
    np.testing.assert_array_equal(charges, charges[0] * np.array([[1], [8]]))
    np.testing.assert_allclose(codes.gains()[::2] / codes.gains()[128], np.exp(0.00625 * (np.arange(128) - 64)))


def test_a_packed_channel_has_the_charges_and_the_place_of_the_channel() -> None:
    (channels,) = FACILE.sample(4000, 5).inputs
    rows = codes.packed(channels)
    assert rows.shape == (len(channels), 11)
    again = codes.channels_of(rows)
    np.testing.assert_array_equal(again[:, FIRST_CHARGE:FIRST_DEPTH], channels[:, FIRST_CHARGE:FIRST_DEPTH])
    np.testing.assert_array_equal(again[:, FIRST_DEPTH:], channels[:, FIRST_DEPTH:])
    np.testing.assert_array_equal(again[:, :2], channels[:, :2])
    np.testing.assert_allclose(again[:, 2], channels[:, 2], rtol=0.0032)


def test_the_resolution_is_that_of_facile_within_one_per_cent_in_every_bin() -> None:
    """The gain has 128 steps, and the answer 11 bits. By the network before quantisation; the models share its integers."""
    generated, kept = thinned(240_000, 77)
    channels, truth = np.ascontiguousarray(generated.rows[kept]), generated.energy[kept]
    assert FACILE.float_predict
    assert TASK.float_predict
    (facile,), (ours,) = FACILE.float_predict((channels,)), TASK.float_predict((codes.packed(channels),))
    answer = TensorSpec("output", (1,), FixedPoint.parse("ap_fixed<20,1,AP_RND_CONV,AP_SAT>"), "FP16", (-10,))
    sent = answer.from_raw(answer.fixed.from_float(np.ldexp(ours, -10))).astype(np.float64)
    table = {(row.low_gev, row.method): row.sigma68 for row in resolution_table({"facile": facile, "ours": sent}, truth)}
    for low, _ in sorted(table):
        assert abs(table[low, "ours"] / table[low, "facile"] - 1) < 0.01, (low, table)
