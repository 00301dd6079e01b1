# SPDX-License-Identifier: Apache-2.0
"""`hypersonic build A B --together NAME`. The conversion and the simulators are replaced (own_models.py)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from hypersonic.arguments import parse_counts
from hypersonic.building import together
from hypersonic.building.all_models import check_models, split_zoo
from hypersonic.building.errors import BuildError
from hypersonic.building.fit.card import FitOptions
from hypersonic.building.host_models import OnHostError
from hypersonic.building.model import build
from hypersonic.building.together import build_together
from hypersonic.commands import build as command
from hypersonic.commands import inspect
from hypersonic.firmware.errors import LinkError, ResourceError
from hypersonic.firmware.estimate.report import BuildReport
from hypersonic.firmware.publish.manifest import Manifest, check
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.images import kernel_images
from hypersonic.hls.frontend.description import zoo_models
from tests.hypersonic.building.own_models import OwnModels


def _manifest(version: Path) -> Manifest:
    manifest = Manifest.read(version / "manifest.json")
    check(manifest, (version / "model.xclbin").read_bytes())
    return manifest


def test_models_become_one_xclbin_that_is_stored_once_and_published_for_each(own: OwnModels, tmp_path: Path) -> None:
    models = [own.model("alpha"), own.model("beta", weights=1), own.model("gamma")]
    repository, notes = tmp_path / "models", list[str]()
    places = build_together(models, "trigger", repository=repository, units={"alpha": 4}, on_gate=notes.append)
    assert places == [repository / name / "1" for name in ("alpha", "beta", "gamma")]
    manifests = [_manifest(place) for place in places]
    assert [manifest.compute_units for manifest in manifests] == [
        ("alpha_1", "alpha_2", "alpha_3", "alpha_4"), ("beta_1",), ("gamma_1",),
    ]  # fmt: skip
    assert len({manifest.uuid for manifest in manifests}) == 1
    assert len({manifest.kernel_sha256 for manifest in manifests}) == 3
    assert [bool(manifest.weights_bytes) for manifest in manifests] == [False, True, False]
    assert len({(place / "model.xclbin").stat().st_ino for place in places}) == 1
    assert len(list(repository.glob(".*.xclbin"))) == 1
    assert notes == [
        "note: DDR[0] is shared by alpha_1, beta_1: they share its bandwidth",
        "note: DDR[1] is shared by alpha_2, gamma_1: they share its bandwidth",
    ]
    assert list(kernel_images(Xclbin.read(places[0] / "model.xclbin"))) == ["alpha", "beta", "gamma"]
    assert build_together(models, "trigger", repository=repository, units={"alpha": 4}) == places


def test_the_accuracy_of_each_of_several_models_begins_with_its_name(own: OwnModels, tmp_path: Path) -> None:
    own.gate = {
        "rows": 10, "source": "ten.npy", "fraction_exact": 0.5, "max_abs_difference": 0.25,
        "quantised_max_abs_difference": 0.25, "tolerance": None, "warnings": [],
    }  # fmt: skip
    notes: list[str] = []
    build_together([own.model("alpha"), own.model("beta")], "both", repository=tmp_path, on_gate=notes.append)
    of_one = "accuracy: 10 rows (ten.npy) against the trained model: 50.00% of the outputs exact, worst difference 0.25"
    assert [note.rpartition(",")[0] for note in notes] == [f"alpha: {of_one}", f"beta: {of_one}"]
    arguments = argparse.ArgumentParser()
    command.add_arguments(arguments)
    given = [own.model("gamma"), own.model("delta"), "--model-repository", str(tmp_path), "--no-resources"]
    given += ["--build-directory", str(tmp_path / "build")]
    assert len([*command.build_each(arguments.parse_args(given), lambda _: None, None, notes.append)]) == 2
    assert [note.partition(":")[0] for note in notes[2:]] == ["gamma", "delta"]


def test_inspect_shows_kernels_units_banks_digests_and_who_shares_the_file(
    own: OwnModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [own.model("alpha"), own.model("beta", weights=1)]
    place, _ = build_together(models, "trigger", repository=tmp_path, units={"alpha": 4})
    assert inspect.run(argparse.Namespace(file=place / "model.xclbin")) == 0
    shown = capsys.readouterr().out
    for line in (
        "kernel         beta (ap_ctrl_chain)", f"  digest       {_manifest(place).kernel_sha256}",
        "compute unit   beta_1 at 0x1840000 (ap_ctrl_chain): argument 0 on bank0, argument 1 on bank0, argument 3 on bank0",
        "shared bank    bank0: alpha_1, beta_1", "stored once for alpha/1, beta/1",
    ):  # fmt: skip
        assert line in shown.splitlines()


def test_a_model_with_other_weights_takes_the_published_xclbin_and_says_so(own: OwnModels, tmp_path: Path) -> None:
    first, _ = build_together([own.model("barrel", "calo", weights=1), own.model("other")], "both", repository=tmp_path)
    notes: list[str] = []
    place = build(own.model("endcap", "calo", weights=2), repository=tmp_path, name="endcap", on_gate=notes.append)
    assert notes == ["endcap shares the kernel of calo: weights are swapped at run time"]
    assert (place / "model.xclbin").samefile(first / "model.xclbin")
    assert _manifest(place).kernel_sha256 == _manifest(first).kernel_sha256
    assert (place / "weights.bin").read_bytes() != (first / "weights.bin").read_bytes()
    two = build(own.model("wide", "calo", weights=3), repository=tmp_path, name="wide", compute_units=2, on_gate=notes.append)
    assert not (two / "model.xclbin").samefile(first / "model.xclbin")
    assert notes[1:] == ["wide shares the kernel of calo: weights are swapped at run time"]
    assert build(own.model("endcap", "calo", weights=2), repository=tmp_path, name="endcap") == place


@pytest.mark.parametrize(
    ("kernel", "change", "why"),
    [
        ("calo", {"W_WIDTH": "9"}, "in layer 'dense_4', W_WIDTH is 9, and 8 there"),
        ("calo", {"TRUNCATE": "1"}, "in layer 'dense_4', TRUNCATE is 1, and not set there"),
        ("calo", {"constants": "b"}, "the constants of layer 'dense_4' are part of the kernel, and other ones than there"),
        ("hcal", {}, "name in the YAML is hcal, and calo there"),
    ],
)
def test_a_kernel_of_the_same_layers_that_is_not_shared_says_why(
    own: OwnModels, tmp_path: Path, kernel: str, change: dict[str, str], why: str
) -> None:
    stage = {"layer": "dense_1", "module": "rf_mac", "W_WIDTH": "8", "constants": "a"}
    own.hardware = {"barrel": [stage], "endcap": [{**stage, "layer": "dense_4", **change}], "other": [stage, stage]}
    notes: list[str] = []
    build(own.model("barrel", "calo", weights=1), repository=tmp_path, name="barrel", on_gate=notes.append)
    build(own.model("other", "track", weights=3), repository=tmp_path, name="other", on_gate=notes.append)
    own.wide = {"endcap"}
    build(own.model("endcap", kernel, weights=2), repository=tmp_path, name="endcap", on_gate=notes.append)
    assert [note for note in notes if "kernel" in note] == [f"endcap does not share the kernel of barrel: {why}"]


def test_kernels_with_one_name_are_refused_before_any_conversion(own: OwnModels, tmp_path: Path) -> None:
    models = [own.model("barrel", "calo"), own.model("endcap", "calo")]
    with pytest.raises(BuildError, match=r"the models .*barrel\.h5 and .*endcap\.h5 both have the kernel calo"):
        build_together(models, "both", repository=tmp_path)
    assert not own.simulated


def test_more_ports_than_the_memories_take_are_refused_before_any_conversion(own: OwnModels, tmp_path: Path) -> None:
    models = [own.model("alpha"), own.model("beta")]
    with pytest.raises(LinkError, match=r"kernels alpha x 28, beta x 1 do not fit u250 together: 29 compute units have 58 AXI"):
        build_together(models, "both", repository=tmp_path, units={"alpha": 28})
    with pytest.raises(
        LinkError,
        match=r"kernels alpha x 16, beta x 1 do not fit aws_f2 together: compute units: got 17, expected 1 to 16 on aws_f2",
    ):
        build_together(models, "both", platform="aws_f2", repository=tmp_path, units={"alpha": 16})
    assert not own.simulated


def test_a_fit_for_sw_emu_has_no_multipliers_to_share_and_is_refused(own: OwnModels, tmp_path: Path) -> None:
    models, rates = [own.model("alpha"), own.model("beta")], {"alpha": 1000.0, "beta": 1000.0}
    with pytest.raises(BuildError, match=r"--fit shares the multipliers of RTL: got target sw_emu, .*; take target hw_emu"):
        build_together(models, "both", Target.SW_EMU, repository=tmp_path, fit=FitOptions("u250"), rates=rates)
    assert not own.simulated


def test_kernels_that_are_too_large_together_by_what_is_known_are_not_even_simulated(
    own: OwnModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misfit = BuildReport([], {}, "the kernels alpha x 1, beta x 1 do not fit u250 together")
    monkeypatch.setattr(together, "check_known_together", lambda *_: misfit)
    with pytest.raises(ResourceError, match="kernels alpha x 1, beta x 1 do not fit u250 together; with --no-resources it can"):
        build_together([own.model("alpha"), own.model("beta")], "both", repository=tmp_path, on_resources=lambda _: None)
    assert not own.simulated


def test_a_model_without_a_kernel_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OnHostError, match="it has no kernel for --together: leave deeptau out"):
        build_together(["facile", "deeptau"], "both", repository=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": {"alpa": 2}}, "--units names 'alpa', expected one of the models alpha, beta; did you mean alpha?"),
        ({"name": "mine"}, "--name mine is for one model: got alpha, beta"),
        ({"models": []}, "expected names or files of models, or --all"),
        ({"everything": True}, "or --all for those of the zoo; got both"),
        (
            {"rates": {"alpha": 1.0}, "together": ""},
            "--rates shares a card between alpha, beta: name their xclbin with --together",
        ),
        ({"models": ["alpha", "own/alpha.h5"]}, "models are alpha, alpha, expected each once: alpha is there twice"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    asked = {"models": ["alpha", "beta"], "everything": False, "name": "", "together": "both", "units": {}, "rates": {}}
    with pytest.raises(BuildError, match=message.replace("?", r"\?")):
        check_models(**{**asked, **options})


def test_all_is_the_zoo_with_what_runs_on_the_host() -> None:
    kernels, on_host = split_zoo("sw_emu")
    assert {"facile", "jets", "deepmet"} <= set(kernels)
    assert "deeptau" in on_host
    assert tuple(sorted(kernels + on_host)) == zoo_models()
    assert split_zoo("hw") == (kernels, [])


def test_numbers_by_name_are_read_or_refused_by_the_entry() -> None:
    assert parse_counts("facile=2,jets=1") == {"facile": 2, "jets": 1}
    for text in ("facile", "facile=0", "facile=-1", "facile=2,facile=3", "=2", "facile=x", "facile=2,"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a list such as facile=2,jets=1"):
            parse_counts(text)
