# SPDX-License-Identifier: Apache-2.0
"""Loads that fail, in every way there is: nothing of them is left in $TMPDIR, $HOME, /dev/shm or among the processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.faults.site import Site, site
from tests.server.python_models import DOUBLE, source
from tests.support.processes import children_of

CONFIG = (
    '{"backend":"%s","max_batch_size":8,"input":[{"name":"x","data_type":"TYPE_FP32","dims":[3]}],'
    '"output":[{"name":"y","data_type":"TYPE_FP32","dims":[3]}]}'
)
PYTHON = CONFIG % "python"


def model(initialize: str) -> dict[str, bytes]:
    return {"model.py": source(DOUBLE, initialize).encode()}


#: what goes wrong -> configuration, files
FAILURES = {
    "no JSON": ("{", model("pass")),
    "a configuration that contradicts itself": (PYTHON.replace("8", "-8", 1), model("pass")),
    "an unknown backend": (CONFIG % "nobody", model("pass")),
    "no model file": (PYTHON, {"other.py": b""}),
    "a file that is not ONNX": (CONFIG % "onnxruntime", {"model.onnx": b"nothing"}),
    "no Python": (PYTHON, {"model.py": b"def"}),
    "an exception": (PYTHON, model("raise ValueError('no')")),
    "a process that ends itself, and has started another": (
        PYTHON,
        model("import subprocess; subprocess.Popen(['sleep', '3600']); os.kill(os.getpid(), 9)"),
    ),
    "a model that hangs": (PYTHON, model("time.sleep(3600)")),
}


def load(client: triton.InferenceServerClient, config: str, files: dict[str, bytes]) -> None:
    client.load_model("m", config=config, files={f"file:1/{name}": data for name, data in files.items()})


def settled(running: Site, home: Path, expected: set[str]) -> set[str]:
    """Return what is left, after waiting for it to be as expected: a killed process takes a moment to end."""
    with suppress(AssertionError):
        running.program.wait_for(lambda: left(running, home) == expected, 20)
    return left(running, home)


def left(running: Site, home: Path) -> set[str]:
    """Return the files, shared memory and processes that a load has left on this machine."""
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    shared = {path.name for path in Path("/dev/shm").glob("*hypersonic*")}
    return files | shared | {f"process {pid}" for pid in children_of(running.program.process.pid)}


def test_a_load_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for directory in (home, tmp_path / "models"):
        directory.mkdir()
    options = ("--model-control-mode=explicit", "--model-load-timeout-secs=3", "--allow-python-override=true")
    with (
        site(tmp_path / "models", *options, environment={"TMPDIR": str(home), "HOME": str(home)}) as running,
        running.client() as client,
    ):
        leftovers = {}
        for what, (config, files) in FAILURES.items():
            with pytest.raises(InferenceServerException):
                load(client, config, files)
            leftovers[what] = settled(running, home, set())
        assert leftovers == {what: set() for what in FAILURES}
        load(client, PYTHON, model("pass"))
        serving = left(running, home)
        assert len(serving) == 2, serving  # its file and its process
        for what in ("an exception", "a file that is not ONNX"):
            with pytest.raises(InferenceServerException):
                load(client, *FAILURES[what])
            assert settled(running, home, serving) == serving, what
        assert running.program.stop() == 0
    assert not [path for path in home.rglob("*") if path.is_file()]
