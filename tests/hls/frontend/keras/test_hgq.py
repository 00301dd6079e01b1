# SPDX-License-Identifier: Apache-2.0
"""Models of HGQ2, with a bit width for each parameter: csim and both cores are the trained model to the bit."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml

from hypersonic.hls.build import convert_model
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend import hgq
from hypersonic.hls.frontend.description import DescriptionError, describe
from hypersonic.hls.frontend.keras.hgq import check_description
from hypersonic.hls.rtl.simulate import RtlCore

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[4]
YAML = {
    "tagger": {"name": "tagger", "input": {"name": "x"}, "outputs": {"scores": {}, "mass": {}}},
    "image": {"name": "image", "input": {"name": "x"}, "output": {}},
    "attention": {
        "name": "attention",
        "input": {"name": "x"},
        "output": {},
        "hls4ml": {"Model": {"Strategy": "Resource", "ReuseFactor": 2}},
    },
}


def config(directory: Path, text: str) -> Path:
    """A .keras file that holds only its configuration."""
    file = directory / "model.keras"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", text)
    return file


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("hgq")
    marked = config(where, json.dumps({"module": "hgq.layers.core.dense"}))
    argv = [sys.executable, str(Path(__file__).with_name("hgq_session.py")), str(where)]
    done = subprocess.run(argv, cwd=ROOT, env=hgq.environment_of(marked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, fields in YAML.items():
        (where / f"{name}.yaml").write_text(yaml.safe_dump(fields))
    return where


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tagger", "da"),
        ("image", "rf"),
        ("attention", "rf"),
        pytest.param("tagger", "rf", marks=pytest.mark.whole),
        pytest.param("attention", "da", marks=pytest.mark.whole),
    ],
)
def test_every_bit_is_the_trained_models_in_csim_and_in_both_cores(directory: Path, name: str, kind: str) -> None:
    (file,) = (file for suffix in ("keras", "h5") if (file := directory / f"{name}.{suffix}").is_file())
    project, core = convert_model(describe(str(file)), core=kind)
    assert core is not None
    assert project.report["gate"]["quantised_max_abs_difference"] == 0
    assert project.report["gate"]["fraction_exact"] == 1
    assert project.tools["hgq2"] == "0.2.0"
    (x,) = project.inputs.tensors
    rows = x.fixed.from_float(np.load(directory / f"{name}.npy").reshape(-1, x.size).astype(np.float64))
    raw = np.random.default_rng(2).integers(x.fixed.min_raw, x.fixed.max_raw, (200, x.size), endpoint=True)
    raw = np.concatenate([raw, rows])
    expected = Csim(compile_csim(project), project).predict_raw(raw)
    assert len(np.unique(expected)) > 50
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(raw), expected)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": {"precision": "ap_fixed<16,6>"}, "output": {}}, "input.precision"),
        ({"input": {}, "output": {"precision": "ap_fixed<16,6>"}}, "output.precision"),
        ({"input": {}, "output": {}, "hls4ml": {"Model": {"Precision": "ap_fixed<16,6>"}}}, "hls4ml.Model.Precision"),
        (
            {"input": {}, "output": {}, "hls4ml": {"LayerName": {"a": {"Precision": {"result": "ap_fixed<16,6>"}}}}},
            "hls4ml.LayerName.a.Precision",
        ),
    ],
)
def test_a_precision_in_the_yaml_is_refused(tmp_path: Path, fields: dict[str, object], place: str) -> None:
    file = config(tmp_path, '{"module": "hgq.layers"}')
    file.with_suffix(".yaml").write_text(yaml.safe_dump({"name": "m", **fields}))
    with pytest.raises(DescriptionError, match=f"{place} is given, and HGQ2 has trained the model's types; leave it out"):
        check_description(describe(str(file)))


@pytest.mark.parametrize(("name", "is_one"), [("hgq>QDense", True), ("Dense", False)])
def test_an_h5_file_names_the_registered_classes(tmp_path: Path, name: str, is_one: bool) -> None:
    with h5py.File(tmp_path / "model.h5", "w") as file:
        file.attrs["model_config"] = json.dumps({"config": {"layers": [{"class_name": name}]}})
    assert hgq.uses_hgq(tmp_path / "model.h5") is is_one


def test_other_files_are_not_models_of_hgq(tmp_path: Path) -> None:
    assert not hgq.uses_hgq(config(tmp_path, '{"module": "keras.layers", "name": "hgq"}'))
    (tmp_path / "damaged.keras").write_bytes(b"PK\x03\x04 not a zip file")
    (tmp_path / "damaged.h5").write_bytes(b"not a file of HDF5")
    for name in ("damaged.keras", "damaged.h5", "missing.keras", "missing.h5", "model.onnx"):
        assert not hgq.uses_hgq(tmp_path / name)


def test_an_index_that_cannot_be_reached_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    lines: list[str] = []
    with pytest.raises(ConversionError, match=r"HGQ2, which could not be installed: .*; run make dev-hgq where the package"):
        hgq.installed(lines.append)
    assert lines == ["installing hgq2==0.2.0 into the cache, once"]
    assert not list((tmp_path / "hgq").glob("*"))
