# SPDX-License-Identifier: Apache-2.0
"""EmTrkMichelId from packed patches: emtrk's network and emtrk's integers, in 3,456 bytes instead of 9,216."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.frontend.fields import read_packing
from hypersonic.hls.spec import TensorSpec
from hypersonic.hls.zoo.emtrk import events as emtrk
from hypersonic.hls.zoo.emtrk_packed.events import PACKING, packed


@pytest.fixture(scope="module")
def descriptions() -> tuple[dict[str, Any], dict[str, Any]]:
    ours, theirs = (yaml.safe_load((ZOO / name / f"{name}.yaml").read_text()) for name in ("emtrk_packed", "emtrk"))
    return ours, theirs


def test_the_network_is_that_of_emtrk_with_other_bytes_on_the_wire(descriptions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    ours, theirs = descriptions
    for key in ("part", "max_batch_size", "network", "hls4ml"):
        assert ours[key] == theirs[key]
    fields = ours["input"].pop("fields")
    assert ours["input"] == theirs["input"]
    assert {name: side.pop("datatype") for name, side in ours["outputs"].items()} == dict.fromkeys(theirs["outputs"], "UINT16")
    assert ours["outputs"] == theirs["outputs"]
    assert read_packing("input", {"fields": fields}, "UINT8", emtrk.SIZE**2, ZOO) == PACKING
    assert PACKING.row_bytes == 3456


def test_a_packed_patch_has_the_integers_of_the_patch(descriptions: tuple[dict[str, Any], dict[str, Any]]) -> None:
    fixed = FixedPoint.parse(descriptions[0]["input"]["precision"])
    patches = emtrk.gate_rows()
    patches[0, :4] = 7.999, 9.0, -8.0, -30.0
    patches[1, :4] = np.array([0.5, 1.5, -0.5, -1.5]) / 256  # halfway: to even
    rows = packed(patches)
    assert (rows.shape, rows.dtype.name) == ((len(patches), 3456), "uint8")
    sent = TensorSpec("x", (3456,), fixed, "UINT8", packing=PACKING).to_raw(rows)
    np.testing.assert_array_equal(sent, TensorSpec("x", (48, 48, 1), fixed).to_raw(patches))
    assert sent[0, :4].tolist() == [2047, 2047, -2048, -2048]
    assert sent[1, :4].tolist() == [0, 2, 0, -2]
