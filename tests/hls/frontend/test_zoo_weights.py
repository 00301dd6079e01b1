# SPDX-License-Identifier: Apache-2.0
"""Zoo models without shipped weights: made once by the function the YAML names, kept, found again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend import description, zoo_weights
from hypersonic.hls.frontend.description import DescriptionError, find_model
from hypersonic.hls.frontend.zoo_weights import codes_of, make_model

NETWORK = """
import os
import sys
from pathlib import Path

def save(file):
    assert "tensorflow" not in sys.modules and os.environ["TF_USE_LEGACY_KERAS"] == "1"
    with (Path(__file__).parent / "calls").open("a") as calls:
        calls.write("called\\n")
    file.write_bytes(b"weights")

def fail(file):
    raise ValueError("no seed is that bad")

def forget(file):
    pass
"""


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A YAML of a model called tiny; the module that makes it can be imported as made_networks."""
    (tmp_path / "made_networks.py").write_text(NETWORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(description, "ZOO", tmp_path / "zoo")
    file = tmp_path / "zoo" / "tiny" / "tiny.yaml"
    file.parent.mkdir(parents=True)
    return file


def test_weights_are_made_once_and_stand_beside_the_description_of_the_day(described: Path) -> None:
    first = "name: tiny\nnetwork: 'made_networks:save'\ninput: {precision: 'ap_fixed<8,4>'}\noutput: {}\n"
    described.write_text(first)
    one = find_model("tiny")
    assert (one.name, one.read_bytes()) == ("tiny.h5", b"weights")
    assert one.with_suffix(".yaml").read_text() == first
    assert find_model("tiny") == one
    described.write_text(first.replace("<8,4>", "<9,4>"))
    other = find_model("tiny")
    assert other != one
    assert other.with_suffix(".yaml").read_text() != first
    assert other.samefile(one) or other.read_bytes() == b"weights"
    assert (described.parents[2] / "calls").read_text() == "called\n"


def test_models_with_the_same_function_share_its_weights(described: Path) -> None:
    text = "network: 'made_networks:save'\ninput: {precision: 'ap_fixed<8,4>'}\noutput: {}\n"
    for name in ("tiny", "other"):
        file = described.parents[1] / name / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"name: {name}\n{text}")
        one = find_model(name)
        assert (one.name, one.read_bytes()) == (f"{name}.h5", b"weights")
    assert (described.parents[2] / "calls").read_text() == "called\n"


def test_a_function_that_writes_nothing_is_named_with_its_last_words_and_leaves_nothing(described: Path) -> None:
    described.touch()
    for network, words in (
        ("made_networks:fail", r"network 'made_networks:fail' did not write tiny.h5: .* ended with 1, .* no seed is that bad"),
        ("made_networks:forget", r"ended with 0, its last line was: nothing; expected module:function"),
        ("made_networks:absent", r"has no attribute 'absent'"),
        ("no.such.module:save", r"No module named 'no'"),
    ):
        for _ in range(2):
            with pytest.raises(ConversionError, match=words):
                make_model(described, network)
    assert not list((described.parents[2] / "cache").rglob("*.h5"))


def test_a_zoo_folder_with_neither_weights_nor_network_says_so(described: Path) -> None:
    described.write_text("name: tiny\ninput: {precision: 'ap_fixed<8,4>'}\noutput: {}\n")
    with pytest.raises(DescriptionError, match=r"tiny.yaml: no model file beside it and no network that writes one"):
        find_model("tiny")


@pytest.mark.parametrize("network", ["module", ":save", "module:", 3])
def test_a_network_that_is_no_function_is_refused(described: Path, network: object) -> None:
    described.write_text(f"name: tiny\nnetwork: {network!r}\ninput: {{precision: 'ap_fixed<8,4>'}}\noutput: {{}}\n")
    with pytest.raises(DescriptionError, match=r"network is .*, expected 'module:function', which writes the .h5"):
        find_model("tiny")


def test_weights_depend_on_the_code_that_makes_them_and_on_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hypersonic"
    for name in (
        "keras_2",
        "seeded",
        "jets/events",
        "deepcalo/weights",
        "deepcalo/network",
        "deepcalo/task",
        "deepcalo/events",
    ):
        (package / "hls/zoo" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(description.ZOO / f"{name}.py", package / "hls/zoo" / f"{name}.py")
    monkeypatch.setattr(zoo_weights, "_PACKAGE", package)
    network = "hypersonic.hls.zoo.deepcalo.weights:save"
    before = codes_of(network)
    for name, changes in (("deepcalo/events", True), ("seeded", True), ("deepcalo/task", False), ("jets/events", False)):
        file = package / "hls/zoo" / f"{name}.py"
        text = file.read_text()
        file.write_text(f"# a comment\n{text}")
        assert codes_of(network) == before
        file.write_text(f"{text}NEW = 1\n")
        assert (codes_of(network) != before) == changes, name
        file.write_text(text)
    assert codes_of("somewhere.else:rows") == []
