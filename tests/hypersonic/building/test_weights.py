# SPDX-License-Identifier: Apache-2.0
"""The line that a build prints about weights that the kernel reads at run time."""

from __future__ import annotations

from pathlib import Path

from hypersonic.building.conversion import describe_weights
from hypersonic.hls.network.base import WeightsIn
from hypersonic.hls.rf.plan import plan
from hypersonic.hls.rf.timing import clocks
from hypersonic.hls.rf.write import figures
from tests.hls.rf.weight_networks import image_network, written

ALL = ("conv", "wide", "narrow")


def described(places: dict[str, WeightsIn], directory: Path) -> str:
    network = image_network(places)
    pipeline = plan(network)
    return describe_weights({"core": figures(pipeline, clocks(pipeline))}, written(network, directory))


def test_a_swap_is_said_in_clocks_and_what_must_be_equal_by_name(tmp_path: Path) -> None:
    line = described(dict.fromkeys(ALL, WeightsIn.LOADED), tmp_path)
    # 24, 4 and 36 beats of weights, 4, 2 and 6 of biases; the row goes on while they are loaded
    assert line == (
        "weights: 4,864 bytes in weights.bin; a run after one with other weights takes 16 clocks longer (predicted)"
    )  # fmt: skip
    partly = described({"conv": WeightsIn.URAM}, tmp_path)
    assert partly.endswith(
        "; constants of 'wide', 'narrow' are part of the kernel, so models that share it must have equal ones"
    )


def test_a_core_that_reads_no_weights_has_no_line(tmp_path: Path) -> None:
    assert described({}, tmp_path) == ""
    assert describe_weights({}, None) == ""
    assert "takes at most " in described(dict.fromkeys(ALL, WeightsIn.DRAM), tmp_path / "repeats")
