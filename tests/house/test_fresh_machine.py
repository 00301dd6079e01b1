# SPDX-License-Identifier: Apache-2.0
"""`make dev` on machines with several Pythons or none: deploy/environment.sh with a real uv, pip and venv. The locks."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.environments import NUMPY_1, PYTHONS, check_installed, interpreter
from tests.support.lock import lock_files
from tests.support.optional import skip

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "environment.sh"
UV = Path(sys.executable).with_name("uv")
REAL = Path(os.path.realpath(sys.executable))
TOOLS = ("bash", "sh", "env", "rm", "grep", "sed")
#: major.minor of the Python that runs the tests
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
pytestmark = [pytest.mark.slow, pytest.mark.whole("Makefile", "deploy", "pyproject.toml", "requirements.lock", "tests/*.txt")]


def locked_uv() -> str:
    pin = re.search(r"^uv==[0-9.]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert pin
    return pin[0]


class Machine:
    """A PATH with a few tools of the shell, and the Pythons and uv that it is given; nothing of this machine's home."""

    def __init__(self, directory: Path, **programs: str | Path) -> None:
        self.venv, self._bin, self._home = directory / "hs" / ".venv", directory / "bin", directory / "home"
        for folder in (self.venv.parent, self._bin, self._home):
            folder.mkdir(parents=True)
        for tool in TOOLS:
            (self._bin / tool).symlink_to(str(shutil.which(tool)))
        for name, program in programs.items():
            file = self._bin / name.replace("_", ".")
            if isinstance(program, Path):
                file.symlink_to(program)
            else:
                file.write_text(f"#!/bin/sh\n{program}")
                file.chmod(0o755)

    def make(self, package: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the first step of `make dev`."""
        env = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "VIRTUAL_ENV"}}
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # of uv and pip: the same packages each time
        env |= {"PATH": str(self._bin), "HOME": str(self._home), "XDG_DATA_HOME": str(self._home), "XDG_CACHE_HOME": cache}
        env |= {"UV_HTTP_RETRIES": "0"}
        argv = [str(self._bin / "bash"), str(SCRIPT), ".venv", package or locked_uv()]
        return subprocess.run(argv, cwd=self.venv.parent, env=env | variables, capture_output=True, text=True, check=False)

    def left(self) -> list[str]:
        return sorted(file.name for file in self.venv.parent.iterdir())

    def check_made(self, done: subprocess.CompletedProcess[str], version: str = OWN) -> None:
        check_installed(done)
        assert self.left() == [".venv"]
        for program, expected in (("python", f"Python {version}."), ("uv", locked_uv().replace("==", " "))):
            output = subprocess.run([self.venv / "bin" / program, "--version"], capture_output=True, text=True, check=True)
            assert output.stdout.startswith(expected)

    def check_refused(self, done: subprocess.CompletedProcess[str], *words: str) -> None:
        assert done.returncode == 2, done.stdout + done.stderr
        assert self.left() == []
        for word in words:
            assert word in done.stderr


def debian(version: str, *missing: str) -> str:
    """A python3 that claims this version to a shell script and lacks some modules, as Debian's does; otherwise it is real."""
    lacks = "".join(f'[ "$2" = {module} ] && {{ echo "No module named {module}"; exit 1; }}\n' for module in missing)
    return f'[ "$1" = -c ] && {{ echo {version}; exit 0; }}\n{lacks}exec {REAL} "$@"\n'


def published(directory: Path) -> Mapping[str, str]:
    """uv's list of Pythons with one entry: an archive whose interpreter starts a 3.11 of this machine."""
    real = interpreter(("3.11",)).path
    python = directory / "python"
    (python / "bin").mkdir(parents=True)
    (python / "lib" / "python3.11").mkdir(parents=True)
    (python / "bin" / "python3.11").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (python / "bin" / "python3.11").chmod(0o755)
    where = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    library = Path(subprocess.run([real, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    for config in library.glob("_sysconfigdata_*.py"):  # uv looks for one
        shutil.copy(config, python / "lib" / "python3.11")
    archive = directory / "python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(python, "python")
    return offered(directory, archive.as_uri(), hashlib.sha256(archive.read_bytes()).hexdigest())


def offered(directory: Path, url: str, sha256: str = "0" * 64) -> Mapping[str, str]:
    entry = {
        "name": "cpython", "arch": {"family": platform.machine(), "variant": None}, "os": "linux", "libc": "gnu",
        "major": 3, "minor": 11, "patch": 7, "prerelease": "", "url": url, "sha256": sha256, "variant": None, "build": "1",
    }  # fmt: skip
    file = directory / "list.json"
    file.write_text(json.dumps({f"cpython-3.11.7-linux-{platform.machine()}-gnu": entry}))
    return {"UV_PYTHON_DOWNLOADS_JSON_URL": str(file)}


@pytest.fixture
def nowhere() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}/python.tar.gz"


def test_uv_fetches_a_python_3_11_and_what_failed_offline_works_next_time(tmp_path: Path, nowhere: str) -> None:
    machine = Machine(tmp_path, uv=UV)
    offline = machine.make(**offered(tmp_path, nowhere))
    machine.check_refused(
        offline, "Python 3.11, 3.12 or 3.13 is needed", "(python3 there: none)", nowhere, "PYTHON=/path/to/python3.13"
    )
    machine.check_made(machine.make(**published(tmp_path)), "3.11")
    assert list((tmp_path / "home").glob("uv/python/cpython-3.11.7-*/bin/python3.11"))


def test_a_pip_without_venv_that_may_not_install_into_the_system_gets_uv(tmp_path: Path) -> None:
    if subprocess.run([REAL, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        skip("needs the Debian package python3-pip")
    machine = Machine(tmp_path, python3=debian("3.14", "venv"))
    machine.check_made(machine.make(**published(tmp_path)), "3.11")


def test_without_uv_pip_and_venv_the_message_says_what_to_install(tmp_path: Path) -> None:
    machine = Machine(tmp_path, python3=debian("3.14", "venv", "pip"))
    words = ("(python3 there: 3.14)", "No module named pip", "apt-get install python3-venv", "pip install '.[server]'\n")
    machine.check_refused(machine.make(), *words)


def test_a_python_without_venv_is_taken_by_uv(tmp_path: Path) -> None:
    machine = Machine(tmp_path, uv=UV, **{f"python{OWN.replace('.', '_')}": debian(OWN, "venv")})
    machine.check_made(machine.make())


def test_any_supported_python_on_path_is_taken_without_an_option(tmp_path: Path) -> None:
    machine = Machine(tmp_path, uv=UV, python3=debian(max(PYTHONS)))
    done = machine.make()
    machine.check_made(done)
    assert "uv finds or fetches" not in done.stdout


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (("3.13", "3.12", "3.11"), "python3.11"),
        (("3.14", "3.13", "3.12"), "python3.12"),
        (("3.14", "3.13"), "python3.13"),
        (("3.14",), ""),
    ],
)
def test_the_earliest_supported_python_on_path_is_taken_first(tmp_path: Path, there: tuple[str, ...], taken: str) -> None:
    machine = Machine(tmp_path, **{f"python{version.replace('.', '_')}": debian(version) for version in there})
    done = machine.make("--which")
    assert Path(done.stdout.strip()).name == taken, done.stderr


@pytest.mark.parametrize(
    ("named", "words"),
    [("old", "is Python 3.9, expected 3.11, 3.12 or 3.13"), ("new", "is Python 3.14"), ("nope", "PYTHON=nope does not run")],
)
def test_a_python_that_is_named_and_cannot_be_taken_is_refused(tmp_path: Path, named: str, words: str) -> None:
    machine = Machine(tmp_path, uv=UV, old="echo 3.9", new="echo 3.14", python3=REAL)
    machine.check_refused(machine.make(PYTHON=named), words)


def test_an_environment_that_is_there_stays_where_it_cannot_be_renewed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, uv=UV, python3=debian(OWN, "venv"))
    machine.check_made(machine.make())
    done = machine.make("uv==0.0.1", UV_OFFLINE="1")
    assert (done.returncode, machine.left()) == (2, [".venv"])
    assert "uv==0.0.1 cannot be installed into .venv" in done.stderr


def test_what_an_interrupted_run_left_is_completed(tmp_path: Path) -> None:
    """A virtual environment without pip and uv, as a kill leaves it, and one whose Python is gone."""
    machine = Machine(tmp_path, uv=UV, python3=debian(OWN, "venv"))
    machine.check_made(machine.make())
    (machine.venv / "bin" / "uv").unlink()
    machine.check_made(machine.make())
    (machine.venv / "bin" / "python").unlink()
    machine.check_made(machine.make())


def test_make_passes_on_the_python_that_is_named(tmp_path: Path) -> None:
    argv = ["make", "dev", f"VENV={tmp_path / 'venv'}", "PYTHON=/nowhere/python3.11"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "PYTHON=/nowhere/python3.11 does not run" in done.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_the_locked_packages_are_those_of_each_python(version: str) -> None:
    extras = [word for extra in ("build", "triton", "columnar", "onnxruntime", "trace", "jwt") for word in ("--extra", extra)]
    words = ["pyproject.toml", *extras, "--group=dev", f"--python-version={version}", "--constraint=requirements.lock"]
    done = run_uv("pip", "compile", *words, "--no-header", "--no-annotate", "--no-python-downloads", "--quiet")
    lock = re.findall(r"^([a-z0-9][^ ]*==[^ ]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert [line for line in done.stdout.splitlines() if "==" in line] == lock


#: published as sources only, all of them plain Python
SOURCES = ("law", "parse", "pynq", "pynqmetadata", "pyparser")
#: for two of the Pythons only, as tests/support/environments.py says
OLDER = ("pynq.txt", "pytriton.txt", "tritonserver.txt")


@pytest.mark.whole("requirements.lock", "tests/*.txt")
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("lock", [ROOT / "requirements.lock", *lock_files()], ids=lambda file: file.name)
def test_each_lock_has_the_hash_of_a_wheel_for_each_python(lock: Path, version: str, tmp_path: Path) -> None:
    if lock.name in OLDER and version not in NUMPY_1:
        return
    words = ["--dry-run", "--no-deps", "--require-hashes", "--only-binary=:all:", *(f"--no-binary={name}" for name in SOURCES)]
    run_uv("pip", "install", *words, f"--python-version={version}", f"--target={tmp_path}", "-r", str(lock))


def run_uv(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(UV), *words], cwd=ROOT, capture_output=True, text=True, check=False)
    check_installed(done)
    return done
