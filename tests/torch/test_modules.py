# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules become networks. `make test-torch` runs these tests, with torch in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hypersonic import cli
from hypersonic.hls.build import convert_model
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.description import describe
from hypersonic.hls.frontend.predict import trained_predict
from hypersonic.hls.frontend.pytorch.export import PYTHON, TorchError, export_module
from hypersonic.hls.project import HlsProject

HERE = Path(__file__).resolve().parent
ROWS = 100

DESCRIBED = """
name: {name}
input: {{precision: "{precision}"}}
output: {{}}
hls4ml: {{Model: {{Precision: {{default: "ap_fixed<24,10>"}}}}}}
gate: {{rows: rows.npy, {gate}}}
"""

#: a module -> the shape of a row as it is served, and a layer that its network has
NETWORKS = {"jets": ((8,), "Add_0"), "images": ((4, 4, 2), "AveragePool_0"), "pulses": ((8, 1), "MaxPool_0")}


@pytest.fixture(scope="module")
def python() -> str:
    assert PYTHON in os.environ, f"run make test-torch, which sets {PYTHON}"
    return os.environ[PYTHON]


@pytest.fixture
def modules(tmp_path: Path, python: str) -> Path:
    return Path(shutil.copy(HERE / "modules.py", tmp_path))


def convert(file: Path, gate: str = "tolerance: 0.01", precision: str = "ap_fixed<24,10,AP_RND_CONV,AP_SAT>") -> HlsProject:
    """Convert with a gate on random rows, which compares csim with onnxruntime or qonnx."""
    text = DESCRIBED.format(name=file.stem, precision=precision, gate=gate)
    file.with_suffix(".yaml").write_text(text)
    project, _ = convert_model(describe(str(file)), core="csim")
    return project


def computed(project: HlsProject, rows: np.ndarray) -> np.ndarray:
    """The answers of csim to rows as they are, as numbers."""
    (tensor,) = project.inputs.tensors
    raw = Csim(compile_csim(project), project).predict_raw(project.inputs.to_raw([tensor.quantise(rows)]))
    return project.outputs.tensors[0].fixed.to_float(raw)


def write_rows(directory: Path, shape: tuple[int, ...]) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(ROWS, *shape)).astype(np.float32)
    np.save(directory / "rows.npy", rows)
    return rows


@pytest.mark.parametrize("function", NETWORKS)
def test_a_module_is_converted_and_answers_as_torch_does(modules: Path, function: str) -> None:
    shape, layer = NETWORKS[function]
    file = export_module(f"{modules}:{function}")
    assert file == modules.with_name(f"modules_{function}.onnx")
    write_rows(modules.parent, shape)
    project = convert(file)
    assert project.inputs.tensors[0].shape == shape
    assert any(layer.lower() in path.read_text().lower() for path in (project.hls / "firmware").glob("modules_*.cpp"))
    assert 0 < project.report["gate"]["max_abs_difference"] < 0.01


def test_the_newer_exporter_gives_the_same_networks(modules: Path, python: str) -> None:
    argv = [python, str(HERE / "dynamo.py"), str(modules), *NETWORKS, str(modules.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for function, (shape, _) in NETWORKS.items():
        write_rows(modules.parent, shape)
        project = convert(modules.with_name(f"{function}.onnx"))
        assert project.report["gate"]["max_abs_difference"] < 0.01, function


def test_an_unchanged_module_leaves_its_file_untouched(modules: Path) -> None:
    file = export_module(f"{modules}:jets")
    before = file.stat()
    assert export_module(f"{modules}:jets") == file
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize(("function", "shape"), [("plain", (4,)), ("encoder", (3, 4))])
def test_build_takes_a_module_and_serves_its_file(
    modules: Path, function: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(modules.parent, shape)
    model, rows = f"{modules}:{function}", str(modules.with_name("rows.npy"))
    assert cli.main(["new", model, "--rows", rows, "--quiet"]) == 0
    places = ["--model-repository", str(modules.parent / "models"), "--build-directory", str(modules.parent / "build")]
    assert cli.main(["build", model, "--target", "sw_emu", "--no-resources", "--quiet", *places]) == 0
    assert (modules.parent / "models" / f"modules_{function}" / "1" / "model.xclbin").is_file(), capsys.readouterr()


def test_hls4mls_own_front_end_computes_the_same_integers(modules: Path, python: str, tmp_path: Path) -> None:
    """All types the same, wrapping and cutting as hls4ml's default does."""
    rows = write_rows(tmp_path, (4,))
    site = subprocess.run(
        [python, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    argv = [sys.executable, str(HERE / "by_hls4ml.py"), str(modules), "plain", str(tmp_path / "rows.npy"), str(tmp_path)]
    done = subprocess.run([*argv, str(Path(site).parent)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    file = export_module(f"{modules}:plain")
    kinds = "{weight: K, bias: K, accum: K, result: K}".replace("K", '"ap_fixed<24,10>"')
    layers = "".join(f"    {name}: {{Precision: {kinds}}}\n" for name in ("Gemm_0", "Gemm_1"))
    file.with_suffix(".yaml").write_text(
        'name: mine\ninput: {precision: "ap_fixed<24,10>"}\noutput: {}\n'
        'hls4ml:\n  Model: {Precision: {default: "ap_fixed<24,10>"}}\n  LayerName:\n'
        f'{layers}    Relu_0: {{Precision: {{result: "ap_fixed<24,10>"}}}}\n'
    )
    project, _ = convert_model(describe(str(file)), core="csim")
    mine = computed(project, rows) * 2**14
    theirs = np.load(tmp_path / "y.npy") * 2**14
    assert project.outputs.tensors[0].fixed.fraction == 14
    assert np.array_equal(mine, theirs)
    assert np.ptp(mine) > 1000


def test_a_module_of_brevitas_is_exact_if_the_input_has_its_first_quantisers_type(modules: Path) -> None:
    """An input of a finer type is rounded twice, so rows close to half a step of the quantiser differ."""
    file = export_module(f"{modules}:quantised")
    rows = write_rows(modules.parent, (4,))
    equal = {}
    for precision in ("ap_fixed<8,3,AP_RND_CONV,AP_SAT>", "ap_fixed<12,4,AP_RND_CONV,AP_SAT>"):
        project = convert(file, "tolerance: none, quantised_tolerance: 0", precision=precision)
        (answers,), _ = trained_predict(file, [rows])
        equal[precision] = np.mean((computed(project, rows) == answers).all(axis=1))
    assert list(equal.values()) == [1.0, pytest.approx(0.8, abs=0.15)]


WRONG = {
    "fourier": r"Exporting the operator 'aten::fft_rfft' to ONNX opset version 17 is not supported \(used by '1.0'\)",
    "sizes": r"module '1' fails for an input of shape \(2, 3\): mat1 and mat2 shapes cannot be multiplied",
    "noise": r"modules.py:noise: its ONNX file differs from the module by .* random numbers\?",
    "fails": r"fails\(\) of .*modules.py fails: RuntimeError: no weights here \(line \d+\)",
    "number": r"number\(\) of .*modules.py returns int, expected a torch.nn.Module with an attribute input_shape, or",
    "shapeless": r"shapeless\(\) of .*modules.py gives the input_shape None, expected the numbers of one row without the batch",
    "missing": r"modules.py has no function 'missing', it has trained, jets, images",
}


@pytest.mark.parametrize("function", WRONG)
def test_a_function_that_gives_no_network_is_refused_with_the_reason(modules: Path, function: str) -> None:
    with pytest.raises(TorchError, match=WRONG[function]):
        export_module(f"{modules}:{function}")
    assert not list(modules.parent.glob("*.onnx"))


def test_a_layer_without_a_core_is_refused_by_its_modules_name(modules: Path) -> None:
    file = export_module(f"{modules}:erf")
    write_rows(modules.parent, (3,))
    with pytest.raises(ConversionError, match=r"layer 'Erf_0' \(node '/1/Erf'\): hls4ml has no layer for Erf"):
        convert(file)
