# SPDX-License-Identifier: Apache-2.0
"""What the tree promises of itself: the size of its files, the symlinks of its rooms, what its commands say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hls", "firmware", "host", "server", "client", "sim")
CODE = {".py", ".sv", ".v", ".cpp", ".hpp", ".h"}


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_code_file_is_longer_than_400_lines() -> None:
    long = {
        str(f.relative_to(ROOT)): n
        for f in tracked_files()
        if f.suffix in CODE and (n := len(f.read_text().splitlines())) > 400
    }
    assert not long, f"split these by idea: {long}"


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


@pytest.mark.parametrize("command", ["run", "build", "serve", "infer", "train", "inspect", "devices", "bench"])
def test_every_command_explains_itself(command: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "hypersonic.cli", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"usage: hypersonic {command}", said)
    assert len(said.splitlines()) > 3


def test_the_package_is_the_command_line_too() -> None:
    argv = [sys.executable, "-m", "hypersonic", "inspect", "nothing.xclbin"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "hypersonic: error: nothing.xclbin: No such file or directory\n")


def test_a_server_starts_without_the_compiler_side() -> None:
    heavy = ["tensorflow", "tf_keras", "keras", "qkeras", "hls4ml", "da4ml", "matplotlib", "scipy"]
    code = f"import sys, hypersonic.server.app, hypersonic.host.instance; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_the_lock_names_no_host_and_pins_every_package() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert all("==" in line for line in lock.splitlines() if re.match(r"[a-z0-9]", line))
