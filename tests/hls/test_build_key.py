# SPDX-License-Identifier: Apache-2.0
"""The key of a cached conversion: what changes it for which kind of core, and that it counts all that a conversion reads."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

import hypersonic
from hypersonic.hls import build
from hypersonic.hls.build import compiler
from hypersonic.hls.cache import content_hash
from hypersonic.hls.child import keras_2_environment, script_argv
from hypersonic.hls.core_kind import CONVERTED
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.sources import program_files, program_hash

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = {
    "name": "m",
    "inputs": {"x": {"precision": "ap_fixed<16,6>"}},
    "output": {"precision": "ap_fixed<24,10>"},
    "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<18,8>"}, "Strategy": "Resource", "ReuseFactor": 4}},
    "gate": {"rows": "hypersonic.hls.zoo.jets.events:gate_rows", "tolerance": 1.0},
}


class Room:
    """A copy of the package with hls/ alone, and a model elsewhere whose build it makes."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self._model = model
        self._before: dict[str, str] = {}

    def keys(self, kinds: Sequence[str] = CONVERTED) -> dict[str, str]:
        """Of the model's builds in a new process, by kind of core."""
        program_hash.cache_clear()
        described = read_description(self._model)
        return {str(kind): content_hash(build._parts(self._model, described, kind, "")) for kind in kinds}

    def changed(self, name: str, edit: Callable[[str], str], kinds: Sequence[str] = CONVERTED) -> set[str]:
        """The kinds of cores whose keys differ while the file `name` of hls/ is edited."""
        self._before = self._before or self.keys()
        file = self.folder / name
        text = file.read_bytes()
        file.write_bytes(edit(text.decode("latin-1")).encode("latin-1"))
        after = self.keys(kinds)
        file.write_bytes(text)
        return {kind for kind in after if self._before[kind] != after[kind]}


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    package, model = tmp_path / "hypersonic", tmp_path / "m.h5"
    shutil.copytree(ROOT / "hls", package / "hls", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "hypersonic" / "__init__.py", package)
    monkeypatch.setattr(build, "_PACKAGE", package)
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    model.touch()
    model.with_suffix(".yaml").write_text(yaml.safe_dump(DESCRIPTION))
    return Room(package / "hls", model)


def _with_code(text: str) -> str:
    return f"{text}\n_NEW = 1\n"


EDITS = {
    "frontend/graph.py": {"da", "rf", "csim"},
    "csim/bridge.cpp": {"da", "rf", "csim"},
    "plugin/keras_2.py": {"da", "rf", "csim"},  # hls4ml loads the plugin in every conversion
    "network/base.py": {"da", "rf", "csim"},  # the front end knows where weights can be
    "network/layers/table.py": {"da", "rf"},
    "rf/stages/table.py": {"rf"},
    "rtl/axis/axis_skid.sv": {"da", "rf"},
    "rf/timing.py": {"rf"},
    "rf/fit/search.py": {"rf"},
    "rtl/rf/rf_mac.sv": {"rf"},
    "da/emit.py": {"da"},
    "zoo/jets/observables.py": {"da", "rf", "csim"},  # the gate's rows are of a module that imports it
    "zoo/jets/task.py": set(),
    "zoo/facile/events.py": set(),
    "frontend/survey.py": set(),
    "zoo/README.md": set(),
}


def test_a_change_of_code_or_data_gives_another_key_to_the_cores_that_depend_on_it(room: Room) -> None:
    for name, kinds in EDITS.items():
        assert room.changed(name, _with_code) == kinds, name


def test_the_files_that_a_key_counts_change_it(room: Room) -> None:
    for kind in CONVERTED:
        modules, data = program_files(compiler(kind, roots=["hypersonic.hls.zoo.jets.events"]))
        names = [file.relative_to(room.folder) for file in (*modules, *data) if file.is_relative_to(room.folder)]
        assert len(names) > 80
        assert [name for name in names[::8] if not room.changed(str(name), _with_code, [kind])] == []


def test_a_comment_a_docstring_or_the_layout_leaves_every_key_alone(room: Room) -> None:
    def rewritten(text: str) -> str:
        return f"# a comment\n{text}".replace("\n\n\n", "\n\n# another\n\n\n\n")

    documented = "rf/plan.py"
    assert '"""' in (room.folder / documented).read_text()
    assert room.changed(documented, rewritten) == set()
    assert room.changed(documented, lambda text: text.replace('"""', '"""Other words. ', 1)) == set()
    assert room.changed(documented, lambda text: re.sub(r'(    """)(?=\w)', r"\1Other words. ", text)) == set()
    assert room.changed("rf/stages/__init__.py", lambda _: "") == set()


@pytest.mark.parametrize(("folder", "kinds"), [("da/layers", {"da"}), ("rf/stages", {"rf"}), ("network/layers", {"da", "rf"})])
def test_a_new_file_changes_the_keys_of_the_cores_that_search_the_folder(room: Room, folder: str, kinds: set[str]) -> None:
    before = room.keys()
    (room.folder / folder / "new.py").write_text("STAGE = None\n")
    after = room.keys()
    assert {kind for kind in before if before[kind] != after[kind]} == kinds


def test_a_module_that_moves_changes_the_key(room: Room) -> None:
    before = room.keys()
    (room.folder / "network" / "base").mkdir()
    (room.folder / "network" / "base.py").rename(room.folder / "network" / "base" / "__init__.py")
    after = room.keys()
    assert all(before[kind] != after[kind] for kind in before)


def test_dates_bytecode_and_hidden_files_leave_every_key_alone(room: Room) -> None:
    before = room.keys()
    os.utime(room.folder / "build.py", (1, 1))
    for name in ("__pycache__/build.cpython-311.pyc", "rf/__pycache__/plan.pyc", "csim/.bridge.cpp.swp", "csim/.build.py"):
        (room.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (room.folder / name).touch()
    assert room.keys() == before


def test_a_key_is_that_of_sources_which_python_cannot_parse_too(room: Room) -> None:
    assert room.changed("rf/timing.py", lambda text: f"{text}\n(\n") == {"rf"}


def test_a_process_reads_the_sources_once(room: Room) -> None:
    before = program_hash(compiler("da"))
    (room.folder / "da" / "emit.py").write_text("changed")
    assert program_hash(compiler("da")) == before


def test_a_cache_that_cannot_be_written_changes_no_key(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = room.keys(["csim"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "file" / "cache"))
    assert room.keys(["csim"]) == before


def test_every_file_of_ours_that_a_conversion_opens_imports_or_hands_to_a_tool_is_counted(tmp_path: Path) -> None:
    argv = script_argv(Path(__file__).with_name("audited_conversions.py"), str(tmp_path))
    subprocess.run(argv, check=True, cwd=ROOT, env=keras_2_environment(), stdout=subprocess.DEVNULL)
    for kind in CONVERTED:
        read = {Path(file) for file in json.loads((tmp_path / f"{kind}.json").read_text())}
        counted = program_files(compiler(kind, roots=["hypersonic.hls.zoo.jets.events"]))
        assert {file.name for file in read} >= {"convert.py", "backend.py", "bridge.cpp", "observables.py"}
        assert read - {file.resolve() for files in counted for file in files} == set()
        assert {str(kind)} & {"da", "rf"} <= {file.parent.name for file in read}


def test_no_module_that_a_key_counts_reads_docstrings_or_its_own_text() -> None:
    read = {"__doc__", "getdoc", "getsource", "getsourcelines", "linecache", "findsource"}
    modules, _ = program_files(compiler())
    found = [file for file in modules if read & _names(file)]
    assert not found


#: what a module imports by a name that the program computes -> why no module of hls/ is missed
BY_COMPUTED_NAME = {
    "hypersonic/__init__.py": "the package's public names, which hls/ does not use",
    "hls/__init__.py": "the room's public name, which no module of hls/ uses",
    "hls/network/collect.py": "every module of a package that its caller searches, which find_modules adds",
    "hls/frontend/fields.py": "the module of a table, a root of the program",
    "hls/csim/rows.py": "the module of a gate's rows, a root of the program",
    "hls/frontend/zoo_weights.py": "the module of a network, whose result is the model file",
    "hls/plugin/keras_2.py": "hls4ml's and Keras' modules; its one name of ours is written out",
}


def test_modules_that_import_by_a_computed_name_are_known() -> None:
    computing = {"import_module", "__import__", "spec_from_file_location", "run_path", "run_module", "exec", "eval"}
    package = Path(hypersonic.__file__).parent
    names = {file: file.relative_to(package).as_posix() for file in program_files(compiler())[0]}
    found = {name if "/" in name else f"hypersonic/{name}" for file, name in names.items() if computing & _names(file)}
    assert found == set(BY_COMPUTED_NAME)


def test_the_module_that_hls4ml_loads_is_a_root() -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["hls4ml.backends"]
    assert {entry.partition(":")[0] for entry in entries.values()} <= set(compiler("da").roots)


def _names(file: Path) -> set[str]:
    """The identifiers of a file: variables, attributes, and names that it imports."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }
    return names | {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
