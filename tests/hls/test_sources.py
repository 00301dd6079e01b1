# SPDX-License-Identifier: Apache-2.0
"""Our own source files: a folder that has none is an error, not an empty list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hypersonic.firmware import platform
from hypersonic.firmware.formal import prove
from hypersonic.firmware.kernel import files
from hypersonic.firmware.kernel import write as kernel
from hypersonic.hls import build
from hypersonic.hls.core import Core
from hypersonic.hls.frontend import description
from hypersonic.hls.rf import modules
from hypersonic.hls.sources import NoSourcesError, program_hash
from hypersonic.hls.zoo.task import tasks
from hypersonic.sim import lint
from hypersonic.sim.card import simulator

FOLDERS: dict[str, tuple[object, str, Callable[[], object]]] = {
    "models": (description, "ZOO", lambda: description.find_model("nobody")),
    "tasks": (description, "ZOO", tasks),
    "the compiler": (build, "_PACKAGE", lambda: program_hash(build.compiler("da"))),
    "platforms": (platform, "DIRECTORY", platform._names.__wrapped__),
    "proofs": (prove, "FORMAL", prove._table.__wrapped__),
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
