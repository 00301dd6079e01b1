# SPDX-License-Identifier: Apache-2.0
"""The base install in a fresh environment of each Python: the client works, and commands name the extra that they need."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.extras import MODULES
from hypersonic.installing import pip_install
from tests.reference import servers
from tests.reference.repository import addsub, write
from tests.reference.servers import Served
from tests.support.environments import check_installed

pytestmark = pytest.mark.slow
#: for what is served or asked from a wheel; which files a wheel has is tested in every run
installed = pytest.mark.whole("client", "firmware", "host", "hypersonic", "pyproject.toml", "requirements.lock", "server")
ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
PYTHONS = ("3.11", "3.12", "3.13")
LOCK = (f"--constraint={ROOT / 'requirements.lock'}",)

#: what the base install consists of, as pip names it; the second line is what grpcio, rich and tritonclient depend on
BASE = {"hypersonic", "grpcio", "numpy", "protobuf", "rich", "tritonclient"} | {
    "markdown-it-py", "mdurl", "ml-dtypes", "packaging", "pygments", "python-rapidjson", "typing-extensions", "urllib3",
}  # fmt: skip

#: command -> the extra that it needs; on later Pythons only the first two are run
COMMANDS = {
    "serve --model-repository models": "server",
    "build facile": "build",
    "new model.keras": "build",
    "run facile": "build",
    "infer facile": "build",
    "report facile": "build",
    "train facile --output trained": "build",
}


def variables() -> dict[str, str]:
    """The environment variables of a program that must not find this project's modules by PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}


def run(*argv: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in argv]
    return subprocess.run(words, cwd=directory, env=variables(), capture_output=True, text=True, check=False, timeout=300)


def find_python(version: str) -> Path | None:
    """An interpreter of this version: the one that runs this, one on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sys.executable, shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for path in (Path(file) for file in found if file):
        if run(path, "-c", code, directory=ROOT).stdout.strip() == version:
            return path
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as installers build it."""
    directory = tmp_path_factory.mktemp("wheel")
    done = run(
        UV, "build", "--quiet", "--no-build-isolation", f"--python={sys.executable}", f"--out-dir={directory}", directory=ROOT
    )
    assert done.returncode == 0, done.stderr
    (file,) = directory.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("server")
    models = directory / "models"
    write(models, {"simple": addsub("INT32")})
    with servers.hypersonic(directory, models) as served:
        yield served


def install(directory: Path, python: Path, *packages: str | Path, versions: tuple[str | Path, ...] = LOCK) -> Path:
    """An environment with these packages, at the locked versions if no others are asked for; its directory of programs."""
    folder = directory / "environment"
    target = f"--python={folder}"
    for argv in (
        [UV, "venv", "--quiet", f"--python={python}", folder],
        [UV, "pip", "install", "--quiet", "--only-binary=:all:", *versions, target, *packages],
    ):
        done = run(*argv, directory=directory)
        check_installed(done)
    return folder / "bin"


@installed
def test_the_oldest_grpcio_and_tritonclient_that_the_project_takes_work_together(
    wheel: Path, server: Served, tmp_path: Path
) -> None:
    """Neither says in its metadata which versions of the other one it works with."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = [re.sub(r"\[grpc\]|,.*", "", each).replace(">=", "==") for each in needed if re.match("grpcio|tritonclient", each)]
    programs = install(tmp_path, Path(sys.executable), wheel, versions=tuple(oldest))
    argv = (programs / "python", Path(__file__).with_name("base_program.py"), server.grpc, "simple")
    done = run(*argv, directory=tmp_path)
    assert done.returncode == 0, done.stderr


@installed
@pytest.mark.parametrize("version", PYTHONS)
def test_the_client_works_in_the_base_install(
    version: str, wheel: Path, server: Served, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Where a Python is missing, the test of the locked packages below still covers it."""
    python = find_python(version)
    if python is None:
        record_property("noteworthy", f"there is no Python {version} here: only the packages were looked up")
        return
    programs = install(tmp_path, python, wheel)
    listed = run(UV, "pip", "list", "--format=json", f"--python={programs.parent}", directory=tmp_path)
    assert {package["name"] for package in json.loads(listed.stdout)} == BASE

    done = run(
        programs / "python",
        "-W",
        "error",
        Path(__file__).with_name("base_program.py"),
        server.grpc,
        "simple",
        directory=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["code"] == "NOT_FOUND"
    assert server.grpc in printed["text"]
    assert not {module for modules in MODULES.values() for module in modules} & set(printed["modules"])

    assert run(programs / "hypersonic", "--help", directory=tmp_path).stdout.startswith("usage: hypersonic")
    for command, extra in list(COMMANDS.items())[: None if version == PYTHONS[0] else 2]:
        done = run(programs / "hypersonic", *command.split(), directory=tmp_path)
        pattern = rf"hypersonic: error: this command needs \w+, which is not installed: {re.escape(pip_install(extra))}\n"
        assert re.fullmatch(pattern, done.stderr), (command, done.stderr)
        assert (done.returncode, done.stdout) == (2, ""), command
    done = run(programs / "hypersonic", "infer", "facile", "--input", "x.root", directory=tmp_path)
    wanted = re.escape(pip_install("columnar"))
    pattern = rf".* needs the package yaml, which is not installed: {wanted}, then run the command again\n"
    assert re.fullmatch(pattern, done.stderr), done.stderr
    done = run(programs / "hypersonic", "inspect", "nothing.xclbin", directory=tmp_path)
    assert (done.returncode, done.stderr) == (2, "hypersonic: error: nothing.xclbin: No such file or directory\n")


@installed
def test_the_wheel_serves_a_repository_with_its_extra_and_no_other(wheel: Path, tmp_path: Path) -> None:
    programs = install(tmp_path, Path(sys.executable), f"hypersonic[server] @ {wheel.as_uri()}")
    write(tmp_path / "models", {"simple": addsub("INT32")})
    ports = [f"--{name}-{what}" for name in ("grpc", "http", "metrics") for what in ("port=0", "address=127.0.0.1")]
    argv = [str(programs / "hypersonic"), "serve", f"--model-repository={tmp_path / 'models'}", *ports]
    with subprocess.Popen(argv, cwd=tmp_path, env=variables(), stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        for line in process.stderr or ():  # until it has started or ended
            lines.append(line)
            if "Started Metrics Service" in line:
                try:
                    assert add("".join(lines)).tolist() == [list(range(5, 37, 2))]
                finally:
                    process.terminate()
    assert process.returncode == 0, "".join(lines)
    assert any("successfully loaded 'simple'" in line for line in lines)
    done = run(programs / "hypersonic-cmsTriton", "check", directory=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def add(log: str) -> np.ndarray:
    """x + (x + 5) for x from 0 to 15, as the server of this log answers it."""
    (address,) = re.findall(r"Started GRPCInferenceService at (\S+)", log)
    x = np.arange(16, dtype=np.int32).reshape(1, 16)
    with Client(address) as client:
        return client.model("simple").infer({"INPUT0": x, "INPUT1": x + 5})["OUTPUT0"]


@pytest.mark.parametrize("version", PYTHONS)
def test_the_locked_packages_have_wheels_for_each_python(version: str, tmp_path: Path) -> None:
    """Those of the base, `server` and `columnar`; the compiler's may need to be built."""
    argv = [
        UV,
        "pip",
        "compile",
        str(ROOT / "pyproject.toml"),
        "--extra=server",
        "--extra=columnar",
        f"--python-version={version}",
    ]
    options = ["--only-binary=:all:", "--no-python-downloads", "--no-header", "--no-annotate", "--quiet"]
    done = run(*argv, *LOCK, *options, directory=tmp_path)
    check_installed(done)
    packages = set(re.findall(r"^([a-z0-9-]+)==", done.stdout, re.MULTILINE))
    assert packages > (BASE - {"hypersonic"}) | {"uvicorn", "uproot", "pyarrow"}


def test_the_wheel_has_the_client_and_no_tests(wheel: Path) -> None:
    done = run(sys.executable, "-m", "zipfile", "-l", wheel, directory=ROOT)
    names = re.findall(r"^(\S+)", done.stdout, re.MULTILINE)
    ours = {file.relative_to(ROOT) for file in (ROOT / "client").rglob("*.py")}
    assert {f"hypersonic/{file}" for file in ours} <= set(names)
    assert not [name for name in names if re.search(r"(^|/)(tests?|tb|bench)/|/test_", name)]
