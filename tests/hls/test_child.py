# SPDX-License-Identifier: Apache-2.0
"""A Python process that is started by us imports nothing from the directory it was started in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hypersonic import cli
from hypersonic.hls.child import Ended, python_argv, python_environment, run_child
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend import zoo_weights
from hypersonic.hls.frontend.predict import trained_predict
from hypersonic.server_process import start_server
from tests.support.shadow_modules import plant, ran

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hls", "firmware", "host", "server", "plan", "sim", "hypersonic")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, full of modules with the names of libraries."""
    directory = plant(tmp_path / "here")
    monkeypatch.chdir(directory)
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path / 'nowhere'}::")  # an empty entry is the working directory
    return directory


@pytest.mark.parametrize("path", [None, "", ":", ":/nowhere", "/nowhere:", "/nowhere::/nobody"])
def test_no_entry_of_the_module_path_is_the_working_directory(
    planted: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH")
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    program = "import sys, random, yaml, hypersonic.hls.frontend.description; print(*sys.path, sep='\\n')"
    done = subprocess.run(python_argv("-c", program), env=python_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not ran(planted)
    assert not {"", ".", str(planted)} & set(done.stdout.splitlines())
    assert {entry for entry in (path or "").split(":") if entry} <= set(done.stdout.splitlines())


def test_a_directory_that_the_user_names_stays_on_the_module_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("NUMBER = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ".")
    argv = python_argv("-c", "import mine; print(mine.NUMBER)")
    assert subprocess.run(argv, env=python_environment(), capture_output=True, text=True, check=True).stdout == "7\n"


def test_no_other_child_of_the_compiler_side_runs_a_file_of_the_working_directory(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    (planted / "model.h5").write_bytes(b"no model")
    (planted / "model.yaml").write_text("name: m\ninput: {precision: 'ap_fixed<8,4>'}\noutput: {}\n")
    with pytest.raises(ConversionError, match=r"gives no predictions: .* does not hold a Keras 2 or QKeras model"):
        trained_predict(planted / "model.h5", [np.zeros((1, 4), np.float32)])
    with pytest.raises(ConversionError, match=r"did not write m.h5: .* expected module:function"):
        zoo_weights._make("hypersonic.hls.zoo.task:task_of", tmp_path / "m.h5", "m.h5")
    assert cli.main(["train", "resnet8", "--help"]) == 0
    assert "resnet8" in capfd.readouterr().out
    assert not ran(planted)


def test_the_server_of_a_run_runs_no_file_of_the_working_directory(planted: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with start_server(tmp_path / "models"):
        pass
    assert not ran(planted)


def test_a_childs_refusal_reaches_its_parent_as_one_line() -> None:
    program = "from hypersonic.hls.child import refuse; import sys; sys.exit(refuse(ValueError('no\\n  such layer')))"
    assert run_child(python_argv("-c", program), python_environment(), "the test") == Ended(
        2, "no such layer", "hypersonic refuses: no such layer"
    )


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import sys; sys.exit('usage')", Ended(1, "", "usage")),
        ("import os; os.abort()", Ended(-6, "", "nothing")),
        ("import sys; sys.stderr.write('hypersonic refuses: and goes on')", Ended(0, "", "hypersonic refuses: and goes on")),
    ],
)
def test_a_child_that_ends_otherwise_refuses_nothing(program: str, expected: Ended) -> None:
    assert run_child(python_argv("-c", program), python_environment(), "the test") == expected


def test_every_child_python_is_started_by_the_one_rule() -> None:
    files = [
        file for room in ROOMS for file in (ROOT / room).rglob("*.py") if not file.is_relative_to(ROOT / "hypersonic" / "hls")
    ]
    direct = {
        str(file.relative_to(ROOT))
        for file in files
        if re.search(r"[\[(]\s*(str\()?sys\.executable\b(?!\)\.)", file.read_text())
    }
    assert direct == {"hls/child.py"}
    assert Path(sys.executable).is_file()
