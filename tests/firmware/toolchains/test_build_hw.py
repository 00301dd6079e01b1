# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build --target hw`, from the trained model to the repository, with stand-ins for the tools (see conftest.py)."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from hypersonic.building import estimating
from hypersonic.building.errors import BuildError
from hypersonic.building.model import build
from hypersonic.building.request import CardOptions
from hypersonic.firmware.estimate.kernel import ResourceReport
from hypersonic.firmware.estimate.module_tree import Module
from hypersonic.firmware.estimate.report import Estimates
from hypersonic.firmware.publish.manifest import Manifest, check
from hypersonic.firmware.toolchains.errors import MissingVendorError, TimingError
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.resources import KINDS, Amounts
from tests.firmware.toolchains.conftest import U250, Vendor


@pytest.fixture
def installed(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Vendor:
    """The vendor's tools, and FACILE's estimate from its kept report: synthesis takes minutes (see estimate/test_kernel.py)."""
    kept = json.loads((ZOO / "facile" / "resources.json").read_text())
    facile = Module("facile", 1, Amounts.from_json({kind: kept["modules"]["facile"][kind] for kind in KINDS}))
    estimates = Estimates({"facile": ResourceReport("facile", kept["tool"], facile, (), 0.0)})
    monkeypatch.setattr(estimating, "estimating", lambda *_: nullcontext(lambda: estimates))
    monkeypatch.setenv("PATH", vendor.environment["PATH"])
    monkeypatch.setenv("PLATFORM_REPO_PATHS", vendor.environment["PLATFORM_REPO_PATHS"])
    vendor.link_as("facile", U250, 2)
    return vendor


def test_a_model_becomes_an_xclbin_for_a_card_in_the_repository(installed: Vendor, tmp_path: Path) -> None:
    options = CardOptions(needed_bytes=0)
    places = [
        build("facile", "hw", compute_units=2, repository=tmp_path / "models", directory=tmp_path / "build", options=options)
        for _ in range(2)
    ]
    assert places == [tmp_path / "models" / "facile" / "1"] * 2
    manifest = Manifest.read(places[0] / "manifest.json")
    assert check(manifest, (places[0] / "model.xclbin").read_bytes()).kernels[0].name == "facile"
    assert (manifest.target, manifest.compute_units) == ("hw", ("facile_1", "facile_2"))
    assert manifest.report["timing"]["setup_wns_ns"] == 0.021
    assert manifest.report["utilisation"]["facile_1"]["LUT"] == 20512
    assert manifest.tools["vitis"] == "2024.2"
    assert installed.steps() == ["check_part.tcl", "package_xo.tcl", "vpl.synth", "vpl.impl"]


def test_a_missed_clock_is_not_published_unless_it_is_taken(installed: Vendor, tmp_path: Path) -> None:
    installed.replace("xclbin.info", "Achieved Freq:  300 MHz", "Achieved Freq:  250 MHz")
    asked: dict[str, Any] = {"compute_units": 2, "repository": tmp_path / "models", "directory": tmp_path / "build"}
    with pytest.raises(TimingError, match="runs at 250 MHz, asked for 300"):
        build("facile", "hw", options=CardOptions(needed_bytes=0), **asked)
    assert not (tmp_path / "models").exists()
    place = build("facile", "hw", options=CardOptions(needed_bytes=0, lower_clock=True), **asked)
    assert Manifest.read(place / "manifest.json").report["clocks"][0]["achieved_mhz"] == 250.0


def test_what_is_missing_is_said_before_the_model_is_even_read(vendor: Vendor, tmp_path: Path) -> None:
    with pytest.raises(MissingVendorError, match=r"v\+\+ is neither on PATH"):
        build("no such model", "hw", repository=tmp_path)


def test_the_hls_core_is_for_cards(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="core hls is made by Vitis HLS for cards: got target hw_emu"):
        build("facile", core="hls", repository=tmp_path)
