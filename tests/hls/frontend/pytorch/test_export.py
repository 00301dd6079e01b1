# SPDX-License-Identifier: Apache-2.0
"""Refusals of PyTorch modules before torch is needed, or where it is missing. tests/torch has the exports themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from hypersonic import cli
from hypersonic.hls.frontend.pytorch import export, program
from hypersonic.hls.frontend.pytorch.export import PYTHON, TorchError, export_module, names_function, onnx_of


@pytest.fixture
def jets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv(PYTHON, raising=False)
    (tmp_path / "jets.py").write_text("def make_model():\n    return None\n")
    return f"{tmp_path / 'jets.py'}:make_model"


def small_onnx(scale: float = 1.0) -> onnx.ModelProto:
    """The network y = scale * x."""
    tensors = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 2]) for name in "xy"]
    nodes = [helper.make_node("Mul", ["x", "s"], ["y"])]
    constants = [helper.make_tensor("s", onnx.TensorProto.FLOAT, [1], [scale])]
    graph = helper.make_graph(nodes, "small", tensors[:1], tensors[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jets.py:make", True),
        ("a/b.py:f", True),
        ("jets.py", True),
        ("facile", False),
        ("own.onnx", False),
        ("a.py/own.h5", False),
    ],
)
def test_a_python_file_with_a_function_is_a_module(text: str, expected: bool) -> None:
    assert names_function(text) is expected


def test_the_onnx_file_stands_beside_the_python_file_and_has_both_names() -> None:
    assert onnx_of("a/jets.py:make_model") == Path("a/jets_make_model.onnx")


def test_without_torch_the_command_says_what_to_do(jets: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["build"], ["new"], ["report"]):
        assert cli.main([*command, jets, "--quiet"]) == 2
        said = capsys.readouterr().err
        assert f"{sys.executable} has no torch; set HYPERSONIC_TORCH_PYTHON to the path of a Python that has it" in said


def test_a_named_python_without_torch_is_refused(jets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON, sys.executable)
    with pytest.raises(TorchError, match=r"cannot import torch: No module named 'torch'; install torch there"):
        export_module(jets)
    monkeypatch.setenv(PYTHON, "/nowhere/python")
    with pytest.raises(TorchError, match=r"HYPERSONIC_TORCH_PYTHON is '/nowhere/python', expected the path of a Python"):
        export_module(jets)


def test_a_text_that_names_no_function_of_a_file_is_refused(jets: str, tmp_path: Path) -> None:
    for text in (str(tmp_path / "jets.py"), f"{tmp_path / 'jets.py'}:", f"{tmp_path / 'jets.py'}:a b"):
        with pytest.raises(TorchError, match=r"or file\.py:function, the function that returns the torch\.nn\.Module"):
            export_module(text)
    with pytest.raises(TorchError, match=r"other\.py does not exist"):
        export_module(f"{tmp_path / 'other.py'}:make_model")


def test_a_file_of_another_origin_is_never_replaced(jets: str) -> None:
    onnx_of(jets).write_bytes(b"somebody's")
    with pytest.raises(TorchError, match=r"jets_make_model\.onnx exists and was not made from jets\.py:make_model; move it"):
        export_module(jets)
    onnx.save(small_onnx(), str(onnx_of(jets)))
    with pytest.raises(TorchError, match=r"was not made from"):
        export_module(jets)
    assert onnx_of(jets).is_file()


def test_an_exported_file_says_what_it_was_made_from(tmp_path: Path) -> None:
    onnx.save(small_onnx(), str(tmp_path / "model.onnx"))
    export._keep(export._marked(tmp_path / "model.onnx", "jets.py:make_model"), tmp_path / "jets_make_model.onnx")
    assert export._made_from(tmp_path / "jets_make_model.onnx") == "jets.py:make_model"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jets_make_model.onnx", "model.onnx"]


def test_an_export_that_differs_from_the_module_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(small_onnx(scale=2.0), str(file))
    answers = {"inputs": {"x": [[1.0, 2.0], [3.0, 4.0]]}, "outputs": [[[2.0, 4.0], [6.0, 8.0]]]}
    export._check_alike("jets.py:f", file, answers)
    answers["outputs"] = [[[2.0, 4.0], [6.0, 8.5]]]
    with pytest.raises(TorchError, match=r"jets\.py:f: its ONNX file differs from the module by 0\.5 in 'y', where"):
        export._check_alike("jets.py:f", file, answers)


@pytest.mark.parametrize(
    ("value", "shapes"),
    [((3, 8, 8), [(3, 8, 8)]), ([16], [(16,)]), ([(4,), (2, 5)], [(4,), (2, 5)]), (((4,), [2]), [(4,), (2,)])],
)
def test_an_input_shape_is_one_shape_or_one_for_each_input(value: object, shapes: list[tuple[int, ...]]) -> None:
    assert program._shapes(value, "f()") == shapes


@pytest.mark.parametrize("value", [None, (), (0,), (2.0, 3), "ab", [(4,), 3], (-1, 3), [()]])
def test_another_input_shape_is_refused(value: object) -> None:
    with pytest.raises(
        program.RefusedError, match=r"f\(\) gives the input_shape .*, expected the numbers of one row without the batch"
    ):
        program._shapes(value, "f()")
