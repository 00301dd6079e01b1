# SPDX-License-Identifier: Apache-2.0
"""Models whose inputs leave sizes open: a copy with sizes is described, and a wrong shape is refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import yaml

from hypersonic.arguments import parse_shape
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.tune.sized import named_with, write_sized
from tests.end_to_end.command_line import hypersonic, refused
from tests.support.session import run_session

pytestmark = pytest.mark.whole("hls/frontend", "hls/tune", "requirements.lock")

#: of the network with two inputs
BOTH = ("--shape", "more=3", "--shape", "steps=9,4")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("open")
    run_session(Path(__file__).with_name("open_sizes.py"), directory)
    return directory


@pytest.mark.parametrize(
    ("file", "shapes", "copy", "inputs"),
    [
        ("third.keras", BOTH, "third_3_9x4.keras", {"steps", "more"}),
        ("third.h5", BOTH[2:], "third_9x4.h5", {"steps", "more"}),
        ("second.h5", BOTH[2:], "second_9x4.h5", {"steps", "more"}),
        ("sequential.keras", ("--shape", "7,4"), "sequential_7x4.keras", {None}),
        ("named.onnx", ("--shape", "6,4"), "named_6x4.onnx", {None}),
    ],
)
def test_a_copy_with_sizes_is_described(
    models: Path, file: str, shapes: tuple[str, ...], copy: str, inputs: set[str | None]
) -> None:
    before = (models / file).read_bytes()
    done = hypersonic("new", models / file, *shapes)
    assert done.returncode == 0, done.stderr
    assert f"next: hypersonic build {models / copy}" in done.stderr
    described = yaml.safe_load((models / copy).with_suffix(".yaml").read_text())
    assert set(described.get("inputs", {None: ...})) == inputs
    assert (models / file).read_bytes() == before
    refused(hypersonic("new", models / file, *shapes), f"{models / copy} exists; --force replaces it")


def test_without_a_shape_the_refusal_says_how_to_give_one(models: Path) -> None:
    for file in ("third.keras", "second.h5", "named.onnx"):
        refused(hypersonic("new", models / file), "new MODEL --shape SIZE,...")


@pytest.mark.parametrize("file", ["third.keras", "second.h5", "named.onnx"])
@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ({"other": (9, 4)}, "--shape names other, the inputs of the model are"),
        ({"FIRST": (9, 4, 1)}, "the shape 9,4,1, and the file (?, 4)"),
        ({"FIRST": (9, 5)}, "the shape 9,5, and the file (?, 4)"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(
    models: Path, tmp_path: Path, file: str, shapes: dict[str, tuple[int, ...]], why: str
) -> None:
    first = "x" if file == "named.onnx" else "steps"
    given = {first if name == "FIRST" else name: shape for name, shape in shapes.items()}
    with pytest.raises(ConversionError) as caught:
        write_sized(models / file, given, tmp_path / file)
    assert why.replace("(?, 4)", "(steps, 4)" if first == "x" else "(?, 4)") in str(caught.value)
    assert not (tmp_path / file).exists()


def test_one_shape_for_two_inputs_is_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="--shape names no input, the inputs of the model are"):
        write_sized(models / "third.keras", {"": (9, 4)}, tmp_path / "third.keras")


@pytest.mark.parametrize("suffix", [".keras", ".h5", ".onnx"])
@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    file = tmp_path / f"bad{suffix}"
    file.write_bytes(content)
    copy = named_with(file, {"": (2, 3)})
    assert copy.name == f"bad_2x3{suffix}"
    with pytest.raises(ConversionError, match=str(file)):
        write_sized(file, {"": (2, 3)}, copy)
    assert not copy.exists()


def test_a_shape_is_sizes_separated_by_commas() -> None:
    for text in ("16,x", "0,4", "-1", "", "a=", "1,,2"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected sizes without the batch"):
            parse_shape(text)
    assert parse_shape("16,4") == ("", (16, 4))
    assert parse_shape("a=b=3") == ("a=b", (3,))
