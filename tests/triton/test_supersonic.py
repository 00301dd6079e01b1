# SPDX-License-Identifier: Apache-2.0
"""The pod that SuperSONIC's real chart makes with our values for tritonserver: its command, its probe, and its end."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc

from hypersonic.triton.program import find_tritonserver
from hypersonic.triton.serve import arguments
from tests.deploy.kubernetes.programs import Manifest
from tests.deploy.kubernetes.supersonic import copy_of_the_chart, install, pod_of
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support.ports import free_ports
from tests.support.server_program import Program
from tests.triton.rows import ask, expected, rows_of

pytestmark = pytest.mark.whole("triton", "deploy/supersonic", "sim/emu", "tests/deploy/kubernetes/supersonic.py")


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The servers' container."""
    chart = copy_of_the_chart(tmp_path_factory.mktemp("chart"))
    objects = install(chart, "busy-share.yaml", "tritonserver.yaml", data=tmp_path_factory.mktemp("helm"))
    (found,) = pod_of(objects, "triton")["spec"]["containers"]
    return found


def tritonserver(directory: Path, repository: Path) -> tuple[Path, str]:
    """A program that is tritonserver with the backend and emulated cards, on ports that are free; and its HTTP port."""
    server = find_tritonserver()
    ports = dict(zip(("grpc", "http", "metrics"), free_ports(3), strict=True))
    options = [f"--{name}-{what}" for name, port in ports.items() for what in (f"port={port}", "address=127.0.0.1")]
    argv = [each for each in arguments(server, repository, options) if not each.startswith("--model-repository")]
    variables = " ".join(f"{name}={value}" for name, value in server.env.items())
    file = directory / "tritonserver"
    file.write_text(f'#!/bin/bash\nexec env {variables} {argv[0]} "$@" {" ".join(argv[1:])}\n')
    file.chmod(0o755)
    return file, str(ports["http"])


def test_a_pod_that_leaves_answers_until_the_envoys_have_seen_it(container: Manifest, image: bytes, tmp_path: Path) -> None:
    """Kubernetes' SIGTERM comes while Envoy still sends requests."""
    repository = Repository(tmp_path / "models")
    repository.publish("m", linked(image))
    program, http_port = tritonserver(tmp_path, repository.place)
    changes = {
        "/opt/tritonserver/bin/tritonserver": str(program), "/repository": str(repository.place),
        "/tmp/shutdown": str(tmp_path / "shutdown"), "127.0.0.1/8000": f"127.0.0.1/{http_port}",
        "sleep 20": f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done",
    }  # fmt: skip

    def changed(words: list[str]) -> list[str]:
        return [re.sub("|".join(map(re.escape, changes)), lambda match: changes[match[0]], word) for word in words]

    def ready() -> bool:
        probe = changed(container["readinessProbe"]["exec"]["command"])
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    command = changed([*container["command"], *container["args"]])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as shell:
        running = Program(shell)
        reader = threading.Thread(target=running.read)
        reader.start()
        running.wait_for(lambda: len(running.ports) == 3 or shell.poll() is not None)
        running.wait_for(ready)
        with grpc.InferenceServerClient(running.grpc) as client:
            np.testing.assert_array_equal(ask(client, rows_of(20, 1)), expected(rows_of(20, 1)))
            shell.send_signal(signal.SIGTERM)
            running.wait_for((tmp_path / "shutdown").exists)
            assert not ready()
            for seed in range(20):
                np.testing.assert_array_equal(ask(client, rows_of(20, seed)), expected(rows_of(20, seed)))
        (tmp_path / "go").touch()
        assert shell.wait(60) == 0
        reader.join()
    assert "All models are stopped, unloading models" in running.log
