# SPDX-License-Identifier: Apache-2.0
"""Every model folder of the zoo is made of the same files; hls/zoo/README.md lists them and each exception."""

from __future__ import annotations

import pytest

from tests.house.graph import ROOT

ZOO = ROOT / "hls" / "zoo"

MODULES = {"__init__", "network", "events", "train", "weights", "report", "task"}
#: modules that one model has in addition
MORE_MODULES = {
    "facile": {"baselines", "geometry", "recipe", "scales"},
    "facile_adc": {"codes"},
    "facile_v2": {"recipe"},
    "jets": {"constituents", "observables", "shower"},
}
#: model folders, and the one to copy
FOLDERS = sorted(file.parent for file in (*ZOO.glob("*/*.yaml"), *ZOO.glob("template/*/*.yaml")))


def test_every_folder_of_the_zoo_is_a_model_or_the_template() -> None:
    folders = {file.parent for file in ZOO.glob("*/__init__.py")}
    assert folders - set(FOLDERS) == {ZOO / "template"}


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_a_model_folder_has_only_the_files_that_every_model_has(name: str) -> None:
    folder = next(folder for folder in FOLDERS if folder.name == name)
    modules = {file.stem for file in folder.glob("*.py")}
    assert {"__init__"} <= modules <= MODULES | MORE_MODULES.get(name, set())
    others = {entry.name for entry in folder.iterdir() if entry.suffix != ".py" and entry.name != "__pycache__"}
    allowed = {f"{name}.yaml", f"{name}.h5", f"{name}.keras", f"{name}_float.npz", "repository", "resources.json"}
    assert {f"{name}.yaml"} <= others <= allowed


def test_the_readme_lists_every_file_name() -> None:
    text = (ZOO / "README.md").read_text()
    names = (MODULES - {"__init__"}).union(*MORE_MODULES.values())
    assert not [name for name in sorted(names) if f"`{name}.py`" not in text]
