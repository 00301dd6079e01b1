# SPDX-License-Identifier: Apache-2.0
"""Our own source files: a build's key covers them all, and a folder that has none is an error, not an empty list."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from hypersonic.firmware import platform
from hypersonic.firmware.formal import prove
from hypersonic.firmware.kernel import files
from hypersonic.firmware.kernel import write as kernel
from hypersonic.hls import build
from hypersonic.hls.cache import content_hash
from hypersonic.hls.core import Core
from hypersonic.hls.frontend import description, zoo_weights
from hypersonic.hls.rf import modules
from hypersonic.hls.sources import NoSourcesError, sources_hash
from hypersonic.hls.zoo.task import tasks
from hypersonic.sim import lint, simulator

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = {
    "name": "m",
    "inputs": {"x": {"precision": "ap_fixed<16,6>"}},
    "output": {"precision": "ap_fixed<24,10>"},
    "hls4ml": {"Model": {"Precision": {"default": "ap_fixed<18,8>"}, "Strategy": "Resource", "ReuseFactor": 4}},
}


class Room:
    """A copy of hls/, and a model elsewhere whose build it makes."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self._model = model

    def key(self) -> str:
        """Of the model's build in a new process."""
        sources_hash.cache_clear()
        return content_hash(build._parts(self._model, description.read_description(self._model), "da", ""))


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    folder, model = tmp_path / "hls", tmp_path / "m.h5"
    shutil.copytree(ROOT / "hls", folder, ignore=shutil.ignore_patterns("__pycache__", "zoo"))
    monkeypatch.setattr(build, "_ROOM", folder)
    model.touch()
    model.with_suffix(".yaml").write_text(yaml.safe_dump(DESCRIPTION))
    return Room(folder, model)


def test_a_change_of_any_source_of_the_compiler_gives_a_build_another_key(room: Room) -> None:
    listed = subprocess.run(["git", "ls-files", "."], cwd=ROOT / "hls", capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.splitlines() if not name.startswith("zoo/") and (ROOT / "hls" / name).is_file()]
    before = room.key()
    stale = []
    for file in (room.folder / name for name in names):
        text = file.read_bytes()
        file.write_bytes(text + b"\n")
        if room.key() == before:
            stale.append(file.name)
        file.write_bytes(text)
    assert len(names) > 50
    assert not stale
    assert room.key() == before


def test_a_source_that_is_new_or_moves_into_a_folder_gives_a_build_another_key(room: Room) -> None:
    keys = [room.key()]
    (room.folder / "new" / "deep").mkdir(parents=True)
    (room.folder / "new" / "deep" / "module.py").touch()
    keys.append(room.key())
    (room.folder / "rf" / "plan.py").rename(room.folder / "new" / "plan.py")
    keys.append(room.key())
    assert len(set(keys)) == 3


def test_dates_bytecode_hidden_files_and_the_zoo_leave_a_builds_key_alone(room: Room) -> None:
    before = room.key()
    os.utime(room.folder / "build.py", (1, 1))
    for name in ("__pycache__/build.cpython-311.pyc", "rf/__pycache__/plan.pyc", ".build.py.swp", "zoo/jets/task.py"):
        (room.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (room.folder / name).touch()
    assert room.key() == before


def test_a_process_reads_the_sources_once(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    first = sources_hash(tmp_path)
    (tmp_path / "one.py").write_text("changed")
    assert sources_hash(tmp_path) == first


FOLDERS: dict[str, tuple[object, str, Callable[[], object]]] = {
    "models": (description, "ZOO", lambda: description.find_model("nobody")),
    "tasks": (description, "ZOO", tasks),
    "networks": (zoo_weights, "_ROOM", lambda: zoo_weights.sources_of("hypersonic.hls.zoo.jets.events:gate_rows")),
    "platforms": (platform, "DIRECTORY", platform._names.__wrapped__),
    "proofs": (prove, "FORMAL", prove.proofs),
    "kernel modules": (files, "RTL", lambda: files.rtl_sources("kernel_shell")),
    "kernel names": (kernel, "AXIS_RTL", lambda: kernel._check_name(cast("Core", SimpleNamespace(name="m", top="t")))),
    "stages": (modules, "RF_RTL", lambda: modules.rtl_sources("rf_mac")),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_ours_without_its_files_is_an_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, constant, look = FOLDERS[name]
    monkeypatch.setattr(module, constant, tmp_path)
    with pytest.raises(NoSourcesError, match=rf"{tmp_path}.* has no .*, expected at least one: either the installation"):
        look()


def test_a_folder_of_rtl_that_has_none_is_an_error_beside_one_that_has_some(tmp_path: Path) -> None:
    with pytest.raises(NoSourcesError, match=rf"{tmp_path} has no \*\.sv"):
        lint.modules((*lint.RTL, tmp_path))


def test_a_simulator_without_the_sources_that_compile_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "csim", SimpleNamespace(__file__=str(tmp_path / "compiled.py")))
    with pytest.raises(NoSourcesError, match=rf"{tmp_path} has no \*\.\*"):
        simulator._csim_sources()
