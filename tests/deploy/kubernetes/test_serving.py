# SPDX-License-Identifier: Apache-2.0
"""The containers' commands, probes and drain, with the real server in place of a container."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml
from tritonclient.utils import InferenceServerException

from tests.deploy.kubernetes.programs import DEPLOY, ROOT, Manifest, container
from tests.deploy.kubernetes.service import arguments, environment, http_address, probes, service
from tests.faults.card_models import ask, write_model
from tests.faults.site import Site, infer
from tests.host.conftest import Build, Cards
from tests.server.onnx_graphs import graph, node
from tests.server.python_models import DOUBLE, FLOATS, source, write_python
from tests.support.server_program import Program, program

ALIVE = {"startup": True, "liveness": True, "readiness": True}
#: connections age so many times faster than in the manifest
FASTER = 30


@contextmanager
def started(
    server: Manifest, repository: Path, home: Path, changed: Mapping[str, str] = MappingProxyType({}), *, ready: bool = True
) -> Iterator[Program]:
    """A container's server. changed: variables of its environment that a test sets."""
    variables = {**environment(server, repository, home), **changed}
    with program(*arguments(server, variables), environment=variables, started=ready) as running:
        yield running


class Load:
    """Clients of Triton's own library, without retries: unique rows, every answer checked. outcomes: what requests came to."""

    def __init__(self, address: str, clients: int = 4) -> None:
        self.outcomes: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(address, number)) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _work(self, address: str, number: int) -> None:
        with triton.InferenceServerClient(address, channel_args=[("grpc.use_local_subchannel_pool", 1)]) as client:
            n = 0
            while not self._stopping.is_set():
                n += 1
                x = np.array([[number, n, 0.5]], np.float32)
                try:
                    outcome = "answered" if np.array_equal(infer(client, "double", x), 2 * x) else "wrong"
                except InferenceServerException as error:
                    outcome = str(error)
                with self._lock:
                    self.outcomes[outcome] += 1

    def more(self, running: Program, count: int = 50) -> None:
        """Return when so many more were answered."""
        goal = self.outcomes["answered"] + count
        running.wait_for(lambda: self.outcomes["answered"] >= goal)

    def stop(self) -> Counter[str]:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        return self.outcomes


def connections(running: Program) -> float:
    return Site(running, Path()).metrics()['hypersonic_connections{front_end="grpc"}']


def test_the_emulated_overlay_serves_an_emulated_card(farms: dict[str, list[Manifest]], build: Build, tmp_path: Path) -> None:
    server = container(farms["emulated"])
    repository = write_model(tmp_path / "models", build)
    with started(server, repository, tmp_path) as running, triton.InferenceServerClient(running.grpc) as client:
        ask(client, 1)
        assert probes(server, http_address(running)) == ALIVE
        assert client.get_server_metadata().name == "pod-1"
        assert Site(running, repository).metrics()["hypersonic_ready"] == 1
        assert running.stop() == 0


def test_the_fallback_overlay_serves_a_model_of_cards_on_the_cpu(
    farms: dict[str, list[Manifest]], build: Build, tmp_path: Path
) -> None:
    """Its servers see no card: none exists, as in a pod without the device plugin's resource."""
    server = container(farms["cpu-fallback"])
    repository = write_model(tmp_path / "models", build, fallback_backend="onnxruntime")
    weights = {"w": np.array([[2.0], [1.0], *[[0.0]] * 16], np.float32)}
    (repository / "facile" / "1" / "model.onnx").write_bytes(
        graph([node("MatMul", "x w", "y")], [("x", "FP32", ("N", 18))], [("y", "FP32", ("N", 1))], weights)
    )
    cards = Cards(tmp_path / "cards")
    cards.unplug(0)
    missing = {**cards.environment, "HYPERSONIC_EMU_DEVICES": "1"}
    with started(server, repository, tmp_path, missing) as running, triton.InferenceServerClient(running.grpc) as client:
        ask(client, 1)
        assert probes(server, http_address(running)) == ALIVE
        assert Site(running, repository).metrics()['fpga_fallback_active{model="facile",version="1"}'] == 1


def test_a_hung_card_makes_a_pod_not_ready_and_does_not_restart_it(
    farms: dict[str, list[Manifest]], build: Build, tmp_path: Path
) -> None:
    server = container(farms["u250"])
    cards = Cards(tmp_path / "cards")
    hung = {**cards.environment, "HYPERSONIC_EMU_HANG": "facile_1:2,facile_2:2", "HYPERSONIC_EMU_DEVICES": "1"}
    repository = write_model(tmp_path / "models", build, timeout_ms="300")
    with started(server, repository, tmp_path, hung) as running, triton.InferenceServerClient(running.grpc) as client:
        address = http_address(running)
        assert probes(server, address) == ALIVE
        with suppress(InferenceServerException):
            for n in range(10):
                ask(client, n)
        running.wait_for(lambda: not probes(server, address)["readiness"])
        assert probes(server, address) == {**ALIVE, "readiness": False}
        in_service = 'hypersonic_model_in_service{model="facile",version="1"}'
        assert Site(running, repository).metrics()[in_service] == 0
        cards.reset(0)
        running.wait_for(lambda: probes(server, address) == ALIVE)
        ask(client, 1)


def test_a_slow_load_is_alive_and_not_ready(farms: dict[str, list[Manifest]], tmp_path: Path) -> None:
    server = container(farms["u250"])
    go = tmp_path / "go"
    slow = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    write_python(repository := tmp_path / "models", "double", source(DOUBLE, slow), FLOATS)
    with started(server, repository, tmp_path, ready=False) as running:
        address = http_address(running)
        assert probes(server, address) == {**ALIVE, "readiness": False}
        go.touch()
        running.wait_for(lambda: probes(server, address) == ALIVE)


def test_a_process_that_stands_still_is_not_alive(farms: dict[str, list[Manifest]], tmp_path: Path) -> None:
    server = container(farms["u250"])
    write_python(repository := tmp_path / "models", "double", source(DOUBLE), FLOATS)
    with started(server, repository, tmp_path) as running:
        address = http_address(running)
        running.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{running.process.pid}/status")
        running.wait_for(lambda: "State:\tT" in status.read_text())
        connection = http.client.HTTPConnection(address, timeout=1)
        connection.request("GET", server["livenessProbe"]["httpGet"]["path"])
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
        running.process.send_signal(signal.SIGCONT)
        running.wait_for(lambda: probes(server, address) == ALIVE)


def test_a_pod_that_leaves_loses_no_request_of_clients_that_never_retry(
    farms: dict[str, list[Manifest]], tmp_path: Path
) -> None:
    """The steps of Kubernetes: out of the Service, preStop until connections have aged, SIGTERM. Ages are a thirtieth of the
    manifest's; the end of preStop is the moment at which the last connection has left.
    """
    server = container(farms["u250"])
    fast = {
        **server,
        "args": [re.sub(r"(connection-age=)(\d+)", lambda m: f"{m[1]}{int(m[2]) // FASTER}", arg) for arg in server["args"]],
    }
    assert fast["args"] != server["args"]
    write_python(repository := tmp_path / "models", "double", source(DOUBLE), FLOATS)
    with started(fast, repository, tmp_path) as old, started(fast, repository, tmp_path) as new:
        with service(old.grpc) as endpoints:
            load = Load(endpoints.address)
            load.more(old)
            assert connections(old) >= 1
            endpoints.endpoint = new.grpc
            old.wait_for(lambda: connections(old) == 0)
            assert old.stop() == 0
            load.more(new)
            outcomes = load.stop()
        assert set(outcomes) == {"answered"}, outcomes
        assert new.stop() == 0


def test_supersonic_s_command_waits_before_it_ends_the_server(tmp_path: Path) -> None:
    """The chart's preStop does nothing, so SIGTERM comes while Envoy still sends requests: they are answered."""
    triton_values = yaml.safe_load((DEPLOY / "supersonic" / "values.yaml").read_text())["triton"]
    write_python(repository := tmp_path / "models", "double", source(DOUBLE), FLOATS)
    binary = tmp_path / "tritonserver"
    ports = " ".join(f"--{name}-port 0 --{name}-address 127.0.0.1" for name in ("grpc", "http", "metrics"))
    binary.write_text(f'#!/bin/bash\ncd {ROOT}\nexec {sys.executable} -m hypersonic.server.app "$@" {ports}\n')
    binary.chmod(0o755)
    changes = {
        "/opt/tritonserver/bin/tritonserver": str(binary),
        triton_values["modelRepository"]["mountPath"]: str(repository),
        "/tmp/shutdown": str(tmp_path / "shutdown"),
        "log-format=json": "log-format=default",
        "sleep 20": f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done",
    }

    def changed(text: str) -> str:
        return re.sub("|".join(map(re.escape, changes)), lambda match: changes[match[0]], text)

    with subprocess.Popen(
        [*triton_values["command"], changed(triton_values["args"][0])], stderr=subprocess.PIPE, text=True
    ) as shell:
        running = Program(shell)
        reader = threading.Thread(target=running.read)
        reader.start()
        running.wait_for(lambda: len(running.ports) == 3 or shell.poll() is not None)

        def ready() -> bool:
            port = running.ports["HTTPService"].rpartition(":")[2]
            probe = [
                changed(word).replace("127.0.0.1/8000", f"127.0.0.1/{port}")
                for word in triton_values["readinessProbe"]["command"]
            ]
            return subprocess.run(probe, capture_output=True, check=False).returncode == 0

        assert ready()
        load = Load(running.grpc, clients=2)
        load.more(running)
        shell.send_signal(signal.SIGTERM)
        running.wait_for((tmp_path / "shutdown").exists)
        assert not ready()
        load.more(running)
        assert set(load.stop()) == {"answered"}
        (tmp_path / "go").touch()
        assert shell.wait(60) == 0
        reader.join()
    assert "All requests are answered and all models unloaded." in running.log


def test_supersonic_s_command_ends_with_the_code_of_its_server(tmp_path: Path) -> None:
    args = yaml.safe_load((DEPLOY / "supersonic" / "values.yaml").read_text())["triton"]["args"]
    (binary := tmp_path / "tritonserver").write_text("#!/bin/bash\nexit 7\n")
    binary.chmod(0o755)
    script = args[0].replace("/opt/tritonserver/bin/tritonserver", str(binary))
    assert subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=False).returncode == 7
