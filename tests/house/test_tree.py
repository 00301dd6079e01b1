# SPDX-License-Identifier: Apache-2.0
"""Rules for the source tree: the size of its files and folders, the symlinks of its packages, the help of its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from hypersonic.commands import NAMES
from tests.house.graph import ROOMS, ROOT
from tests.house.tracked import tracked_files

CODE = {".py", ".pyi", ".sv", ".v", ".cpp", ".hpp", ".h"}

#: the most modules in a folder, without its __init__
MOST_MODULES = 24
#: folders of modules that are alike and that a registry collects: one for each layer, or for each kind of stage
COLLECTED = {"hls/da/layers", "hls/network/layers", "hls/rf/stages"}


def test_no_code_file_is_longer_than_500_lines() -> None:
    long = {
        str(f.relative_to(ROOT)): n
        for f in tracked_files()
        if f.suffix in CODE and (n := len(f.read_text().splitlines())) > 500
    }
    assert not long, f"split these by idea: {long}"


def test_no_folder_has_more_than_24_modules() -> None:
    """Tests and the zoo's networks too. Folders of RTL may be larger: a module is a file there, found by its name alone."""
    files = [file for file in tracked_files() if file.suffix == ".py" and file.name != "__init__.py"]
    large = {str(folder.relative_to(ROOT)): n for folder, n in Counter(f.parent for f in files).items() if n > MOST_MODULES}
    assert not large.keys() - COLLECTED, f"split these by idea: {large}"


def test_no_file_repeats_the_name_of_its_folder() -> None:
    """`read` in the folder rf, not `rf_read`. A test is named after what it tests; an RTL module needs a name of its own."""
    rooms = {ROOT / room for room in (*ROOMS, "hypersonic", "bench", "deploy")}
    files = [file for file in tracked_files() if file.suffix == ".py" and not file.name.startswith("test_")]
    ours = [file.relative_to(ROOT) for file in files if rooms & set(file.parents)]
    repeated = [str(file) for file in ours if f"_{file.parent.name}_" in f"_{file.stem}_"]
    assert not repeated, f"the folder says it already: {repeated}"


def test_every_code_file_names_its_licence() -> None:
    bare = [
        str(f.relative_to(ROOT))
        for f in tracked_files()
        if f.suffix in CODE and "SPDX-License-Identifier" not in f.read_text()[:200]
    ]
    assert not bare


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_a_relative_symlink_in_the_package(room: str) -> None:
    link = ROOT / "hypersonic" / room
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{room}"


def test_every_file_of_commands_is_a_command() -> None:
    assert {file.stem for file in (ROOT / "hypersonic" / "commands").glob("*.py")} == {*NAMES, "__init__"}


def test_a_commands_arguments_are_read_without_numpy_grpc_and_the_compiler() -> None:
    heavy = ["numpy", "grpc", "google", "matplotlib", "tensorflow", "hls4ml", "rich", "tritonclient"]
    code = f"import sys; from hypersonic.cli import make_parser; make_parser(); print([m for m in {heavy} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("command", NAMES)
def test_every_command_explains_itself(command: str) -> None:
    command = command.replace("_", "-")
    text = subprocess.run(
        [sys.executable, "-m", "hypersonic.cli", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"usage: hypersonic {command}", text)
    assert len(text.splitlines()) > 3


def test_the_package_is_the_command_line_too() -> None:
    argv = [sys.executable, "-m", "hypersonic", "inspect", "nothing.xclbin"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "hypersonic: error: nothing.xclbin: No such file or directory\n")


def test_a_server_starts_without_the_compiler_side() -> None:
    heavy = ["tensorflow", "tf_keras", "keras", "qkeras", "hls4ml", "da4ml", "matplotlib", "scipy"]
    code = f"import sys, hypersonic.server.app, hypersonic.host.instance; print([m for m in {heavy} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_the_lock_names_no_host_and_pins_every_package() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert all("==" in line for line in lock.splitlines() if re.match(r"[a-z0-9]", line))
