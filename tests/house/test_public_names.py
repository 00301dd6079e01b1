# SPDX-License-Identifier: Apache-2.0
"""The public names of `hypersonic`: each exists and has a docstring, and none is loaded before it is used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import hypersonic
from hypersonic.client import Model
from tests.house.graph import ROOT

NAMES = [name for name in hypersonic.__all__ if name != "__version__"]

#: what neither the package nor its client needs to be imported
HEAVY = (
    "hypersonic.server", "hypersonic.hls", "hypersonic.firmware", "hypersonic.host", "hypersonic.sim", "hypersonic.building",
    "tensorflow", "tf_keras", "keras", "hls4ml", "da4ml", "qkeras", "onnx", "onnxruntime", "matplotlib", "scipy", "starlette",
    "rich", "uproot", "awkward", "pyarrow",
)  # fmt: skip
NUMERIC = ("numpy", "grpc", "google.protobuf", "tritonclient")


def loaded(code: str, *modules: str) -> list[str]:
    """Run the code in a new process; return those of `modules` that it has imported."""
    program = f"import sys\n{code}\nprint(*(name for name in {modules!r} if name in sys.modules), sep='\\n')"
    output = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return output.split()


@pytest.mark.parametrize("code", ["import hypersonic", "import hypersonic; dir(hypersonic)"])
def test_the_package_is_imported_without_client_server_compiler_and_numpy(code: str) -> None:
    assert loaded(code, *HEAVY, *NUMERIC) == []


@pytest.mark.parametrize("code", ["import hypersonic; hypersonic.Client", "import hypersonic.client.load"])
def test_the_client_takes_numpy_and_tritonclient_and_nothing_else(code: str) -> None:
    assert loaded(code, *HEAVY, *NUMERIC) == list(NUMERIC)


def test_reading_an_xclbin_loads_neither_the_server_nor_the_compiler() -> None:
    rooms = {"hypersonic.hls", "hypersonic.firmware"}  # nouns of both
    assert set(loaded("import hypersonic; hypersonic.Xclbin", *HEAVY)) <= rooms


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_resolves_and_explains_itself(name: str) -> None:
    value = getattr(hypersonic, name)
    assert value.__name__ == name
    assert name in dir(hypersonic)
    assert re.search(rf"^    .*\b{name}\b", hypersonic.__doc__ or "", re.MULTILINE), "not in the package's own docstring"
    text = inspect.getdoc(value) or ""
    assert text
    if inspect.isfunction(value):
        assert "Raises" in text


def test_what_takes_or_gives_arrays_says_their_shapes_and_types() -> None:
    for value in (hypersonic.Csim.predict_raw, Model.infer):
        assert re.search(r"\(rows, .*\b(int64|dtype)\b", (inspect.getdoc(value) or "").replace("\n", " ")), value


def test_type_checkers_know_the_same_names() -> None:
    stub = (ROOT / "hypersonic" / "__init__.pyi").read_text()
    imported = re.findall(r"^from ([\w.]+) import (\w+) as \2$", stub, re.MULTILINE)
    assert {name: module for module, name in imported} == vars(hypersonic)["_MODULES"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hypersonic' has no attribute 'nothing'"):
        getattr(hypersonic, "nothing")  # noqa: B009 - mypy knows that there is no such name
