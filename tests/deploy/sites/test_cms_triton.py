# SPDX-License-Identifier: Apache-2.0
"""The launcher with cmsTriton's options, called as CMSSW's TritonService and people call it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.launching import cms_triton
from hypersonic.launching.instance import process_of, start_time
from hypersonic.launching.options import UsageError, parse
from tests.reference.repository import addsub, write
from tests.support.waiting import holds_within, wait_until

ROOT = Path(__file__).parents[3]
SHIM = ROOT / "deploy" / "cms" / "cmsTriton"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("repository")
    write(directory, {"simple": addsub("INT32")})
    return directory


class Launcher:
    """The script in a working directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        program = directory / "launcher"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m hypersonic.launching.cms_triton "$@"\n')
        program.chmod(0o755)
        self.environment = {**os.environ, "HYPERSONIC_CMSTRITON": str(program)}

    def __call__(self, words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SHIM, *words.split()], cwd=self.directory, env={**self.environment, **variables}, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip

    def leftovers(self) -> list[Path]:
        return [path for path in self.directory.glob(".*") if path.is_dir()]


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    for directory in made.leftovers():
        made(f"-f -t {directory} stop")


def port_of(output: str) -> int:
    """As TritonService reads it."""
    (port,) = re.findall(r"^CMS_TRITON_GRPC_PORT: (\d+)$", output, re.MULTILINE)
    return int(port)


def infer(port: int) -> None:
    """Load the model and use it, at the address that TritonService gives its fallback server."""
    client = triton.InferenceServerClient(f"0.0.0.0:{port}")
    if not client.is_model_ready("simple"):
        client.load_model("simple")
    rows = np.arange(16, dtype=np.int32).reshape(1, 16)
    inputs = [triton.InferInput(name, rows.shape, "INT32") for name in ("INPUT0", "INPUT1")]
    for each in inputs:
        each.set_data_from_numpy(rows)
    assert (client.infer("simple", inputs).as_numpy("OUTPUT0") == 2 * rows).all()
    client.close()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_starts_and_stops_as_tritonservice_does_it(launcher: Launcher, models: Path) -> None:
    """The command line is TritonService::startFallbackServer's; cmsRun's Python and libraries are in the environment."""
    tmp = launcher.directory / "tmp"
    line = f"-P -1 -p {os.getpid()} -g auto -d apptainer -v -n triton_server_instance_1 -m {models}/simple/config.pbtxt -I 4"
    line += f" -t {tmp}"
    started = launcher(f"{line} start", PYTHONPATH="/cvmfs/cms/python", PYTHONHOME="/nowhere", LD_LIBRARY_PATH="/cvmfs/cms/lib")
    assert started.returncode == 0, started.stdout + started.stderr
    assert re.findall(r"^CMS_TRITON_CHOSEN_DEVICE: (.*)$", started.stdout, re.MULTILINE) == ["cpu"]
    assert "note: -d apptainer has no effect" in started.stdout
    assert "note: -I has no effect" in started.stdout
    port = port_of(started.stdout)
    infer(port)
    stopped = launcher(f"{line} stop")
    assert stopped.returncode == 0, stopped.stdout
    assert not listens(port)
    assert not tmp.exists()
    log = (launcher.directory / "log_triton_server_instance_1.log").read_text()
    assert "All requests are answered and all models unloaded." in log


def test_the_server_ends_when_the_watched_process_does(launcher: Launcher, models: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as parent:
        try:
            started = launcher(f"-P -1 -p {parent.pid} -L -M {models} start")
            assert started.returncode == 0, started.stdout
            port = port_of(started.stdout)
            infer(port)  # loaded at start, because of -L
        finally:
            parent.kill()
    (directory,) = launcher.leftovers()
    wait_until(lambda: not directory.exists(), 120)
    assert not listens(port)


def test_ports_that_are_in_use_and_a_second_server_of_a_name_are_errors(launcher: Launcher, models: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base = taken.getsockname()[1]
        failed = launcher(f"-P {base} -M {models} start")
    assert failed.returncode == 1
    assert "Error: the server ended with" in failed.stdout
    assert f"cannot listen on 127.0.0.1:{base}" in failed.stdout
    assert not launcher.leftovers()
    (launcher.directory / ".triton_server_instance").mkdir()
    again = launcher(f"-P -1 -M {models} start")
    assert (again.returncode, "override with -f" in again.stdout) == (1, True)
    unknown = launcher("-n other stop")
    assert (unknown.returncode, "no server 'other' runs there" in unknown.stdout) == (1, True)


def test_a_start_that_takes_too_long_leaves_no_server(launcher: Launcher, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    write(slow, {"simple": addsub("INT32")})
    source = slow / "simple" / "1" / "model.py"
    source.write_text("import time\ntime.sleep(600)\n" + source.read_text())
    failed = launcher(f"-P -1 -w 4 -L -M {slow} start")
    assert failed.returncode == 1
    assert "timed out waiting for server to start (4 s; -w allows more)" in failed.stdout
    assert not launcher.leftovers()
    log = (launcher.directory / "log_triton_server_instance.log").read_text()
    assert "Started GRPCInferenceService" not in log


def test_check_says_if_a_server_can_run_here(launcher: Launcher) -> None:
    assert launcher("check").returncode == 0
    refused = launcher("-g gpu check")
    assert refused.returncode == 2
    assert "expected auto or cpu" in refused.stdout
    missing = launcher("-d podman-hpc -i image check")
    assert (missing.returncode, missing.stdout) == (1, "Error: podman-hpc is not on PATH\n")


def test_containers_get_triton_s_own_command(launcher: Launcher, models: Path) -> None:
    plain = launcher(f"-D -M {models} -m {models}/simple -P 9000 start", HYPERSONIC_OPTIONS="--log-format json").stdout
    assert "-m hypersonic.server.app" in plain
    assert plain.count("--model-repository") == 1
    assert "--grpc-port=9001" in plain
    assert plain.rstrip().endswith("--log-format json")
    by_apptainer = launcher(f"-D -s /cvmfs/image -M {models} start").stdout
    assert by_apptainer.startswith(
        f"apptainer exec --bind {models}:{models}:ro /cvmfs/image /opt/tritonserver/bin/tritonserver"
    )
    by_podman = launcher(f"-D -d podman -i hypersonic -n one -M {models} start").stdout
    assert by_podman.startswith("podman run --rm --name one --network host")
    assert f"--volume {models}:{models}:ro hypersonic tritonserver --model-repository={models} --http-port=8000" in by_podman


def test_a_container_that_does_not_start_is_tried_again(launcher: Launcher, models: Path, tmp_path: Path) -> None:
    """A program in place of apptainer fails once, and then runs the server without a container."""
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1 $2 $4 $5" = "exec --bind /image /opt/tritonserver/bin/tritonserver" ] || exit 9\n'
        f'[ -e {tmp_path}/failed ] || {{ touch {tmp_path}/failed; echo "FATAL: no space"; exit 255; }}\n'
        f'shift 5; PYTHONPATH={ROOT} exec {sys.executable} -P -m hypersonic.server.app "$@"\n'
    )
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])
    started = launcher(f"-P -1 -r 2 -d apptainer -s /image -M {models} start", PATH=path)
    assert started.returncode == 0, started.stdout
    assert "FATAL: no space\nRetrying after container issue...\nserver is ready!\n" in started.stdout
    infer(port_of(started.stdout))
    assert launcher("stop").returncode == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the operation is '', expected start, stop or check"),
        ("-x start", "option -x not recognized"),
        ("-P 80000 start", "-P is '80000', expected the first of three ports"),
        ("-p self start", "-p is 'self', expected a number"),
        ("-w soon start", "-w is 'soon', expected a number"),
        ("-d kubernetes -i image start", "-d is 'kubernetes', expected one of apptainer, docker, podman, podman-hpc"),
        ("-d docker -s image start", "-s is an unpacked image, which docker does not run"),
        ("-M /nowhere start", "-M is '/nowhere', which is not a directory"),
        ("-n a/b start", "-n is 'a/b', expected a name without slashes"),
    ],
)
def test_a_mistake_in_the_command_line_says_what_was_expected(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(line.split())


@pytest.mark.parametrize(
    ("letter", "path", "hint"),
    [
        ("-m", "{models}/simpel", "; did you mean simple?"),
        ("-m", "{models}/other", ""),
        ("-m", "{models}/simpel/config.pbtxt", "; did you mean simple?"),
        ("-m", "{models}/simple/config.pbtx", "; did you mean config.pbtxt?"),
        ("-M", "{models}x", "; did you mean {models.name}?"),
    ],
)
def test_a_model_that_does_not_exist_is_a_mistake(
    models: Path, letter: str, path: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = path.format(models=models)
    assert cms_triton.main([letter, value, "-D", "start"]) == 2
    expected = f"Error: {letter} is {value!r}, which is not a directory{hint.format(models=models)}; -h lists the options\n"
    assert capsys.readouterr().out == expected


def test_a_server_whose_model_was_removed_can_be_stopped(tmp_path: Path) -> None:
    """TritonService gives stop the same options as start."""
    (tmp_path / "server").mkdir()
    assert cms_triton.main(["-m", str(tmp_path / "gone" / "simple"), "-t", str(tmp_path / "server"), "stop"]) == 0
    assert not (tmp_path / "server").exists()


def test_a_start_without_models_and_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cms_triton.main(["start"]) == 2
    assert cms_triton.main(["-h"]) == 0
    printed = capsys.readouterr().out
    assert "no model was given, expected -m DIRECTORY or -M REPOSITORY" in printed
    assert set(re.findall(r"^  -(\w) ", printed, re.MULTILINE)) == set("cCDdEfghiILMmnPprstvw")


def test_another_process_with_the_same_id_is_not_stopped(tmp_path: Path) -> None:
    """The state file of a server that was killed may name a process that has nothing to do with it."""
    (tmp_path / "server.json").write_text(f'{{"pid": {os.getpid()}, "started": "1"}}')
    assert process_of(tmp_path) is None
    (tmp_path / "server.json").write_text(f'{{"pid": {os.getpid()}, "started": "{start_time(os.getpid())}"}}')
    assert process_of(tmp_path) == (os.getpid(), start_time(os.getpid()))


def test_an_interrupted_start_leaves_no_server(launcher: Launcher, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    write(slow, {"simple": addsub("INT32")})
    (slow / "simple" / "1" / "model.py").write_text("import time\ntime.sleep(600)\n")
    argv = [str(SHIM), "-P", "-1", "-L", "-M", str(slow), "start"]
    with subprocess.Popen(argv, cwd=launcher.directory, env=launcher.environment, stdout=subprocess.DEVNULL) as process:
        directory = launcher.directory / ".triton_server_instance"
        wait_until(lambda: process_of(directory) is not None, 120)
        server, started = process_of(directory) or (0, "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == cms_triton.INTERRUPTED
    assert holds_within(lambda: start_time(server) != started, 10)
    assert not launcher.leftovers()
