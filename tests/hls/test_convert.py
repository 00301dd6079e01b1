# SPDX-License-Identifier: Apache-2.0
"""Converting a model file to a project: the result, the cache, and the messages of refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from hypersonic.hls import build as building
from hypersonic.hls.build import ConversionFailedError, build_project, is_converted
from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.errors import ConversionError, ProjectError, ToolError, UnsupportedLayerError
from hypersonic.hls.frontend.description import DescriptionError, describe, find_model, read_description
from hypersonic.hls.frontend.onnx import model as onnx_model
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore
from hypersonic.hls.spec import SpecMismatchError
from tests.support.caches import make_cold_cache
from tests.support.shadow_modules import plant, ran

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

MAKE_MODEL = """
import sys
from hypersonic.hls.frontend.keras.model import use_keras_2
use_keras_2()
import tf_keras as keras
from qkeras import QActivation, QDense, quantized_bits, quantized_relu
keras.utils.set_random_seed(4)
bits = quantized_bits(8, 1, alpha=1)
model = keras.Sequential([
    keras.Input((4,), name="x"),
    QDense(6, kernel_quantizer=bits, bias_quantizer=bits, name="hidden"),
    QActivation(quantized_relu(8, 3), name="relu"),
    QDense(2, kernel_quantizer=bits, bias_quantizer=bits, name="out"),
    QActivation(quantized_bits(12, 4, alpha=1), name="energy"),
])
model.save(sys.argv[1])
"""

DESCRIPTION = {
    "name": "tiny",
    "input": {"name": "x", "precision": "ap_fixed<12,5,AP_RND_CONV,AP_SAT>", "scale_exponents": [0, 1, -1, 2]},
    "output": {"name": "energy", "scale_exponents": 1},
    "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<16,6>"}, "Strategy": "distributed_arithmetic"}},
    "gate": {"rows": "tests.hls.test_convert:gate_rows", "tolerance": "none", "quantised_tolerance": 1e-9},
}


def gate_rows() -> np.ndarray:
    """Called by the conversion's process."""
    return np.random.default_rng(0).normal(scale=4, size=(200, 4)).astype(np.float32)


def python(*argv: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, argv)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "small.h5"
    done = python("-c", MAKE_MODEL, file)
    assert file.is_file(), done.stderr
    file.with_suffix(".yaml").write_text(yaml.safe_dump(DESCRIPTION))
    return file


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("refusals")
    done = python(HERE / "frontend" / "refusals.py", directory)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((directory / "messages.json").read_text()))


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERSONIC_CACHE", str(make_cold_cache(tmp_path_factory.mktemp("cache"))))
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def built(
    model_file: Path, planted: Path, own_cache: object, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HlsProject, Core, list[str]]:
    """Built in a directory full of modules with the names of libraries, which PYTHONPATH names by an empty entry."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(planted)
        patch.setenv("PYTHONPATH", f":{ROOT}:")
        project, core = build_project(str(model_file), tmp_path_factory.mktemp("build") / "small", progress=lines.append)
    assert core is not None
    return project, core, lines


def test_a_conversion_runs_no_file_of_the_working_directory(built: tuple[HlsProject, Core, list[str]], planted: Path) -> None:
    project, _, _ = built
    assert project.report["gate"]["rows"] == 200
    assert not ran(planted)


def test_a_project_is_complete_and_says_what_it_is(built: tuple[HlsProject, Core, list[str]]) -> None:
    project, core, lines = built
    assert (project.name, project.part, project.max_batch_size) == ("tiny", "xcu250-figd2104-2L-e", 160_000)
    assert project.inputs.tensors[0].scale_exponents == (0, 1, -1, 2)
    assert project.outputs.tensors[0].scale_exponents == (1, 1)
    assert str(project.outputs.tensors[0].fixed) == "ap_fixed<12,5,AP_RND_CONV,AP_SAT>"
    assert {"hls4ml", "da4ml", "qkeras"} <= project.tools.keys()
    for file in ("build_prj.tcl", "tiny_test.cpp", "firmware/tiny.cpp", "firmware/weights/w2.h"):
        assert (project.hls / file).is_file(), file
    assert project.report["core"]["ii"] == core.ii == 1
    assert lines[:2] == ["loading small.h5", "converting with hls4ml"]


def test_the_report_counts_a_rows_multiplications(built: tuple[HlsProject, Core, list[str]]) -> None:
    assert built[0].report["multiplications"] == 4 * 6 + 6 * 2


def test_the_report_holds_the_gates_figures(built: tuple[HlsProject, Core, list[str]]) -> None:
    gate = built[0].report["gate"]
    assert gate["rows"] == 200
    assert gate["quantised_max_abs_difference"] <= gate["quantised_tolerance"] < gate["max_abs_difference"]
    assert gate["fraction_exact"] == 1.0


def test_csim_and_rtl_give_equal_integers(built: tuple[HlsProject, Core, list[str]]) -> None:
    project, core, _ = built
    x = project.inputs.to_raw([gate_rows()])
    csim = Csim(compile_csim(project), project)
    expected = csim.predict_raw(x)
    assert len(np.unique(expected)) > 50
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x), expected)
    with pytest.raises(SpecMismatchError, match=r"shape \(200, 3\), expected \(rows, 4\)"):
        csim.predict_raw(x[:, :3])


def test_extra_sources_and_defines_go_into_the_same_library(built: tuple[HlsProject, Core, list[str]], tmp_path: Path) -> None:
    import ctypes

    extra = tmp_path / "extra.cpp"
    extra.write_text('extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }\n')
    library = compile_csim(built[0], extra_sources=[extra], defines=["ANSWER=42"], output="model.so")
    assert library.name == "model.so"
    assert ctypes.CDLL(str(library)).answer() == 42
    extra.write_text("this is not C++\n")
    with pytest.raises(ToolError, match=r"extra\.cpp:1"):
        compile_csim(built[0], extra_sources=[extra])


def test_a_second_build_runs_nothing_and_replaces_only_a_project(
    built: tuple[HlsProject, Core, list[str]], model_file: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    project, core = build_project(str(model_file), tmp_path / "again", progress=lines.append)
    assert lines == []
    assert [is_converted(describe(str(model_file)), kind) for kind in ("da", "csim")] == [True, False]
    assert (project.report, core) == (built[0].report, Core.load(project.core))
    build_project(str(model_file), tmp_path / "again")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    with pytest.raises(ProjectError, match=r"not empty and does not hold an HLS project"):
        build_project(str(model_file), foreign)


def test_a_conversion_depends_on_the_module_beside_the_model_that_gives_the_rows(tmp_path: Path) -> None:
    (tmp_path / "m.h5").touch()
    (tmp_path / "m.yaml").write_text(yaml.safe_dump({**DESCRIPTION, "gate": {"rows": "its_rows:rows", "tolerance": 1.0}}))
    (tmp_path / "its_rows.py").write_text("import their_source\nimport numpy\n")
    (tmp_path / "their_source.py").touch()
    (tmp_path / "else.py").touch()
    parts = building._parts(tmp_path / "m.h5", read_description(tmp_path / "m.h5"), "da", "")
    assert {"its_rows.py", "their_source.py"} <= {part.name for part in parts if isinstance(part, Path)}
    assert tmp_path / "else.py" not in parts


def test_a_gate_above_its_tolerance_is_a_refusal_with_both_numbers(model_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.h5"
    file.write_bytes(model_file.read_bytes())
    rough = {**DESCRIPTION, "output": {"name": "energy", "precision": "ap_fixed<6,5,AP_TRN,AP_SAT>"}}
    file.with_suffix(".yaml").write_text(yaml.safe_dump(rough))
    with pytest.raises(ConversionError, match=r"row \d+ of tests.hls.test_convert:gate_rows gives .*quantised_tolerance 1e-09"):
        build_project(str(file), tmp_path / "out", core="csim")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("weight_out_of_range", r"layer 'd': weight runs from 1 to 1, its type .* from -0.5 to 0.49"),
        ("clipped_relu", r"layer 'r4': ReLU with max_value=4.0, with another option beside it; expected no negative_slope"),
        ("unknown_layer", r"layer 'unit': hls4ml's Keras front end has no UnitNormalization"),
        (
            "unread_wrapper",
            r"layer 'td': hls4ml does not convert a TimeDistributed\(Conv1D\), only one around convolutions and",
        ),
        ("many_products", r"layer 'conv': unrolled it has 524288 products, the da core takes up to 262144; .*--core rf"),
        ("dropout_output", r"the model's outputs are drop, and hls4ml turns them into nothing"),
        ("input_as_output", r"the model's outputs are same, d, and hls4ml turns them into x, d: an output must be computed"),
        ("output_twice", r"output 'd' is an input, or a layer that is an output twice; give it a layer of its own"),
        ("shared_layer", r"converted to ap_fixed<"),
        ("broadcast", r"converted to ap_fixed<"),
        ("quantised_branch", r"layer 'q': it quantises one branch after layer 'd', whose type is automatic"),
        ("falling", "layer 'bn': a scale is 0 or less, expected positive ones in front of the binary or ternary 'step'"),
        ("fused_output", r"converted to ap_fixed<7,4,AP_RND,AP_SAT>"),
        ("relu_output", r"converted to ap_ufixed<8,4,AP_RND,AP_SAT>"),
        ("least_weight", r"layer 'd': weight runs from -1 to -1, its type .* from -0.875 to 0.875"),
        ("no_such_input", r"inputs names y, the model has x"),
        ("undescribed_input", r"inputs does not name b, expected each of a, b, with its precision"),
        ("only_input", r"the model has the inputs a, b: describe each by its name under inputs, not input"),
        ("same_name", r"a row has the tensors z, z: a name appears twice"),
        (
            "softmax_type",
            r"layer 'soft': its input is ap_fixed<38,18,.*>, whose numbers can be 262144 apart: .* write inp_norm_t",
        ),
        ("setting", r"LayerName.d: hls4ml does not read 'Reusefactor' there and would ignore it, did you mean ReuseFactor"),
        ("wide_output", r"the output 'd' is ap_fixed<70,20,.*>, 70 bits, expected up to 62"),
        ("broken.h5", r"broken\.h5 does not hold a Keras 2 or QKeras model"),
        ("broken.onnx", r"broken\.onnx is not an ONNX model"),
        ("nan_weights", r"layer 'd': weight holds NaN or infinity"),
        (
            "unknown_shape",
            r"input 'x': shape is \(batch, None\), expected at least one dimension after the batch, each of them a number",
        ),
        ("unknown_layer_name", r"hls4ml.LayerName names \['dens'\], the model has \['d',"),
    ],
)
def test_what_cannot_be_faithful_is_refused_by_layer_name(refusals: dict[str, str], case: str, message: str) -> None:
    assert re.search(message, refusals[case]), refusals[case]


def test_an_onnx_model_becomes_a_core_of_equal_integers(tmp_path: Path) -> None:
    file = tmp_path / "gemm.onnx"
    write_onnx(file)
    description = {
        "name": "gemm",
        "input": {"precision": "ap_fixed<10,4>"},
        "output": {"precision": "ap_fixed<16,8,AP_RND,AP_SAT>"},
    }
    file.with_suffix(".yaml").write_text(yaml.safe_dump(description))
    project, core = build_project(str(file), tmp_path / "out")
    assert core is not None
    assert str(project.outputs.tensors[0].fixed) == "ap_fixed<16,8,AP_RND,AP_SAT>"
    assert project.report["gate"]["quantised_max_abs_difference"] <= 2.0**-9
    x = np.random.default_rng(3).integers(-512, 512, (500, 4))
    with RtlCore(core, optimisation="-O0") as rtl:
        np.testing.assert_array_equal(rtl.predict_raw(x), Csim(compile_csim(project), project).predict_raw(x))


def test_a_conversion_that_dies_leaves_its_words_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    monkeypatch.setattr(building, "environment_of", lambda _model, _progress: environment)
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(ConversionFailedError, match=r"small.h5 ended with 1; .* please report it with (\S+\.log)$") as caught:
        building._convert(tmp_path / "small.h5", tmp_path, "da", "", lambda _: None)
    assert caught.value.exit_code == 1
    assert list(tmp_path.glob("hypersonic-convert-*.log"))


def test_an_interrupted_conversion_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "convert"
    script.write_text("#!/bin/sh\necho 'hypersonic: '$$\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    processes: list[int] = []

    def interrupt(line: str) -> None:
        processes.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        building._convert(tmp_path / "small.h5", tmp_path, "da", "", interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(processes[0], 0)


def write_onnx(file: Path) -> None:
    """Gemm, Relu, Gemm with weights in steps of 1/8, as torch writes a Linear; in the newest format that onnx has."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {"w1": (5, 4), "b1": (5,), "w2": (2, 5), "b2": (2,)}
    constants = [
        numpy_helper.from_array((rng.integers(-16, 16, shape) / 8).astype(np.float32), name) for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="second", transB=1),
    ]
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 4]), ("y", [1, 2]))]
    graph = helper.make_graph(nodes, "gemm", sides[:1], sides[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), file)


def test_an_onnx_quantiser_on_one_branch_is_refused_because_hls4ml_moves_it_before_the_branching() -> None:
    dense = SimpleNamespace(name="MatMul_0", op_type="MatMul", input=["x", "w"], output=["h"])
    quantiser = SimpleNamespace(name="Quant_0", op_type="Quant", input=["h", "scale", "zero", "bits"], output=["q"])
    relu = SimpleNamespace(name="Relu_0", op_type="Relu", input=["h"], output=["r"])
    nodes = [dense, quantiser, relu]
    model = SimpleNamespace(
        graph=SimpleNamespace(node=nodes, output=[SimpleNamespace(name="q"), SimpleNamespace(name="r")]),
        find_producer=lambda tensor: next((node for node in nodes if tensor in node.output), None),
        find_consumers=lambda tensor: [node for node in nodes if tensor in node.input],
    )
    with pytest.raises(UnsupportedLayerError, match=r"layer 'Quant_0': it quantises one branch after layer 'MatMul_0'"):
        onnx_model._check_nodes(model, ["MatMul", "Quant", "Relu"])
    nodes.remove(relu)
    onnx_model._check_nodes(model, ["MatMul", "Quant", "Relu"])


def test_a_model_that_is_not_there_is_an_error_with_the_zoos_names(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"model is 'facille', expected a zoo name \(.*facile.*\) or a path"):
        find_model("facille")
    with pytest.raises(DescriptionError, match=r"no.h5 does not exist"):
        find_model(str(tmp_path / "no.h5"))
    with pytest.raises(DescriptionError, match=r"core is 'quantum', expected one of da, rf, csim"):
        build_project("facile", tmp_path, core="quantum")
    (tmp_path / "lonely.h5").touch()
    with pytest.raises(
        DescriptionError, match=r"lonely.yaml does not exist; a model needs a YAML .*: hypersonic new .*lonely.h5"
    ):
        build_project(str(tmp_path / "lonely.h5"), tmp_path)


#: how a refusal of the da core ends that the rf core does not make
BY_RF = r"runs the model's own C\+\+; or build it with --core rf \(hls4ml's Strategy: Resource\)$"


def test_what_the_rf_core_takes_is_refused_by_the_da_core_with_its_name(refusals: dict[str, str]) -> None:
    assert re.search(BY_RF, refusals["many_products"]), refusals["many_products"]


@pytest.mark.parametrize("case", ["unknown_layer", "clipped_relu", "nan_weights", "wide_output", "softmax_type"])
def test_what_no_core_takes_is_refused_without_naming_another(refusals: dict[str, str], case: str) -> None:
    assert "--core rf" not in refusals[case], refusals[case]
