# SPDX-License-Identifier: Apache-2.0
"""The real program, in a process of its own, over the real driver and the emulated card; clients are tritonclient's."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as replace_field
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic import __version__
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from tests.host.conftest import Build, manifest_of
from tests.support.server_program import Program, program

N_IN = 18


@pytest.fixture
def repository(build: Build, tmp_path: Path) -> Path:
    """facile, two compute units, 8 slots' worth of rows small enough to be split."""
    xclbin, manifest = build
    text = config_pbtxt(manifest, preferred_batch_size=64, parameters={"slot_rows": "64", "timeout_ms": "2000"})
    publish(tmp_path / "models", xclbin.read_bytes(), manifest, text)
    return tmp_path / "models"


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, N_IN)).astype(np.float32)


def answers(x: np.ndarray) -> np.ndarray:
    return (2 * x[:, :1] + x[:, 1:2]).astype(np.float32)


def infer(url: str, x: np.ndarray, **keywords: object) -> np.ndarray:
    given = triton.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    with triton.InferenceServerClient(url) as client:
        return client.infer("facile", [given], **keywords).as_numpy("y")


def test_events_are_served_and_sigterm_ends_with_zero(repository: Path) -> None:
    with program("--model-repository", str(repository)) as server:
        with ThreadPoolExecutor(6) as pool:
            sent = [(x, pool.submit(infer, server.grpc, x)) for x in (rows(1 + 37 * n % 200, n) for n in range(60))]
            for x, answer in sent:
                np.testing.assert_array_equal(answer.result(), answers(x))
        with urllib.request.urlopen(f"http://{server.ports['Metrics Service']}/metrics", timeout=20) as metrics:
            text = metrics.read().decode()
        assert re.search(r'nv_inference_request_success\{gpu_uuid="FPGA-[0-9a-f-]{36}",model="facile",version="1"\} 60\n', text)
        cycles = re.findall(r'fpga_compute_unit_busy_cycles_total\{compute_unit="(\w+)".*\} (\d+)', text)
        assert sum(int(count) for _, count in cycles) == sum(len(x) for x, _ in sent)
        for name, row_bytes in (("in", 4 * N_IN), ("out", 4)):
            moved = re.findall(rf"fpga_compute_unit_dma_{name}_bytes_total\{{.*\}} (\d+)", text)
            assert sum(map(int, moved)) == sum(len(x) for x, _ in sent) * row_bytes
        assert len(re.findall(r"nv_gpu_utilization\{gpu_uuid=\"FPGA-[0-9a-f-]{36}\"\} ", text)) == 1
        assert server.stop() == 0
        assert "Waiting for in-flight requests to complete." in server.log
        assert server.log.splitlines()[0].endswith(f"hypersonic {__version__} (Triton protocol)")
        assert (
            len(re.findall(r"card 0 \(xilinx_\w+\) is SIMULATED: this machine computes its answers, no FPGA does", server.log))
            == 1
        )


def test_nan_and_infinity_in_one_request_leave_another_alone(repository: Path) -> None:
    with program("--model-repository", str(repository)) as server, ThreadPoolExecutor(2) as pool:
        odd = np.full((20, N_IN), np.nan, np.float32)
        odd[::2] = np.inf
        strange, plain = pool.submit(infer, server.grpc, odd), pool.submit(infer, server.grpc, rows(20))
        np.testing.assert_array_equal(strange.result(), answers(odd))
        np.testing.assert_array_equal(plain.result(), answers(rows(20)))


def test_a_hung_compute_unit_is_taken_out_of_service_and_the_other_answers(repository: Path) -> None:
    with program("--model-repository", str(repository), environment={"HYPERSONIC_EMU_HANG": "facile_1:2"}) as server:
        with ThreadPoolExecutor(4) as pool:
            sent = [(x, pool.submit(infer, server.grpc, x)) for x in (rows(50, n) for n in range(12))]
            for x, answer in sent:
                np.testing.assert_array_equal(answer.result(), answers(x))
        assert "facile_1 is out of service" in server.log
        with urllib.request.urlopen(f"http://{server.ports['HTTPService']}/v2/health/ready", timeout=20) as ready:
            assert ready.status == 200


def test_without_compute_units_requests_are_refused_and_the_server_is_not_ready(repository: Path) -> None:
    hang = {"HYPERSONIC_EMU_HANG": "facile_1:1,facile_2:1"}
    with program("--model-repository", str(repository), environment=hang) as server:
        for _ in range(2):
            with pytest.raises(InferenceServerException) as caught:
                infer(server.grpc, rows(4))
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
        with triton.InferenceServerClient(server.grpc) as client:
            assert [client.is_server_live(), client.is_server_ready(), client.is_model_ready("facile")] == [True, False, False]
        assert server.stop() == 0


def test_sigterm_lets_requests_in_flight_end_and_refuses_new_ones(repository: Path) -> None:
    hang = {"HYPERSONIC_EMU_HANG": "facile_1:1"}  # its request waits 2 s, then the other compute unit answers it
    with program("--model-repository", str(repository), environment=hang) as server, ThreadPoolExecutor(1) as pool:
        with triton.InferenceServerClient(server.grpc) as client:
            for seed in range(20):
                slow = pool.submit(infer, server.grpc, rows(64, seed))
                time.sleep(0.3)
                if not slow.done():
                    break
            assert not slow.done()
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: "Waiting for in-flight" in server.log)
            assert not client.is_server_ready()
            with pytest.raises(InferenceServerException, match="stopped accepting new requests") as caught:
                infer(server.grpc, rows(1))
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
            np.testing.assert_array_equal(slow.result(), answers(rows(64, seed)))
        assert server.process.wait(60) == 0


def test_a_second_signal_ends_the_program_at_once(build: Build, tmp_path: Path) -> None:
    xclbin, manifest = build
    publish(tmp_path / "m", xclbin.read_bytes(), manifest, config_pbtxt(manifest, parameters={"timeout_ms": "60000"}))
    hang = {"HYPERSONIC_EMU_HANG": "facile_1:1,facile_2:1"}
    with program("--model-repository", str(tmp_path / "m"), environment=hang) as server, ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(infer, server.grpc, rows(4))
        server.wait_for(lambda: "} 1" in _metric(server, "hypersonic_server_requests_in_flight") or _in_flight(server) == 1)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for(lambda: "Waiting for in-flight" in server.log)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 1
        assert "Exiting immediately" in server.log
        with pytest.raises(InferenceServerException):
            stuck.result()


def _metric(server: Program, name: str) -> str:
    with urllib.request.urlopen(f"http://{server.ports['Metrics Service']}/metrics", timeout=20) as metrics:
        return "\n".join(line for line in metrics.read().decode().splitlines() if line.startswith(name))


def _in_flight(server: Program) -> int:
    return int(_metric(server, "hypersonic_server_requests_in_flight").rsplit(" ", 1)[1])


def test_idle_connections_do_not_hold_up_the_end(repository: Path) -> None:
    with program("--model-repository", str(repository)) as server:
        clients = [triton.InferenceServerClient(server.grpc) for _ in range(5)]
        assert all(client.is_server_live() for client in clients)
        assert server.stop() == 0
        for client in clients:
            client.close()


@pytest.mark.parametrize("name", ["grpc", "http", "metrics"])
def test_a_port_in_use_is_one_clear_error(repository: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with program("--model-repository", str(repository), f"--{name}-port", str(port), started=False) as server:
            assert server.process.wait(30) == 2
    message = [line for line in server.lines if line.startswith("hypersonic: error: ")]
    assert len(message) == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; stop what listens there" in message[0]


def test_a_repository_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with program("--model-repository", str(tmp_path / "nothing"), started=False) as server:
        assert server.process.wait(30) == 2
    assert "nothing cannot be read: No such file or directory; expected a directory with one directory per model" in server.log
    assert "start the server where you called them, or name that directory with --model-repository" in server.log


def damage(repository: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = repository / "facile" / "1" / name
    path.write_bytes(change(path.read_bytes()))


def replace(repository: Path, old: str, new: str) -> None:
    """In config.pbtxt."""
    path = repository / "facile" / "config.pbtxt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def move_out(repository: Path, name: str) -> None:
    """Leave a symlink behind."""
    inside, outside = repository / "facile" / name, repository.parent / f"outside-{repository.name}"
    inside.rename(outside)
    inside.symlink_to(outside)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated xclbin": (
        lambda r: damage(r, "model.xclbin", lambda data: data[:1000]),
        r"1/model\.xclbin: the file is 1000 bytes",
    ),
    "foreign xclbin": (lambda r: damage(r, "model.xclbin", lambda _: b"\x7fELF" * 500), r"1/model\.xclbin: "),
    "xclbin of another build": (
        lambda r: damage(r, "manifest.json", lambda data: data.replace(b"facile_2", b"facile_3")),
        "compute_units",
    ),
    "manifest no JSON": (lambda r: damage(r, "manifest.json", lambda _: b"{"), "manifest is not JSON"),
    "manifest gone": (lambda r: (r / "facile/1/manifest.json").unlink(), r"1/manifest\.json: No such file or directory"),
    "config of another model": (
        lambda r: replace(r, "dims: [ 18 ]", "dims: [ 17 ]"),
        r"config\.pbtxt has input 'x' FP32 \[17\], but the manifest has 'x' FP32 \[18\]",
    ),
    "unknown backend": (
        lambda r: replace(r, '"fpga"', '"gpu"'),
        r"unable to find backend library for backend .gpu., expected one of",
    ),
    "unknown field": (
        lambda r: replace(r, "backend:", "foo: 1\nbackend:"),
        r'facile/config\.pbtxt:2:1: .*no field named "foo"',
    ),
    "bad parameter": (lambda r: replace(r, '"2000"', '"soon"'), "parameter timeout_ms is 'soon', expected an integer"),
    "version out of the roots": (lambda r: move_out(r, "1"), "facile/1 leads out of the model repositories and of every"),
    "file out of the roots": (lambda r: move_out(r, "1/model.xclbin"), r"model\.xclbin leads out of the model rep"),
}


def test_models_that_cannot_be_loaded_are_unavailable_with_their_reason_and_disturb_no_other(
    repository: Path, tmp_path: Path
) -> None:
    (linked := tmp_path / "linked").mkdir()
    (linked / "facile").symlink_to(repository / "facile")
    options = ["--model-repository", str(linked), "--model-link-roots", str(repository), "--exit-on-error=false"]
    broken = tmp_path / "broken"
    for position, (change, _) in enumerate(DAMAGE.values()):
        place = broken / str(position)
        shutil.copytree(repository, place)
        change(place)
        target = place / f"broken{position}"
        (place / "facile").rename(target)
        config = target / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "facile"', ""))
        options += ["--model-repository", str(place)]
    with program(*options) as server, triton.InferenceServerClient(server.grpc) as client:
        index = {model.name: model for model in client.get_model_repository_index().models}
        for position, (kind, (_, reason)) in enumerate(DAMAGE.items()):
            model = index[f"broken{position}"]
            assert model.state == "UNAVAILABLE"
            assert re.search(reason.replace("facile/", f"broken{position}/"), model.reason), (kind, model.reason)
            assert str(tmp_path) not in model.reason
        np.testing.assert_array_equal(infer(server.grpc, rows(100)), answers(rows(100)))
        assert not client.is_server_ready()


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model-control-mode", "poll", "--strict-readiness=false"),
        ("--model-control-mode=explicit", "--load-model=facile"),
    ],
    ids=["none", "poll", "explicit"],
)
def test_a_model_that_cannot_be_loaded_at_start_ends_the_program_with_the_reason(
    repository: Path, options: tuple[str, ...]
) -> None:
    damage(repository, "model.xclbin", lambda data: data[:100])
    with program("--model-repository", str(repository), *options, started=False) as server:
        assert server.process.wait(30) == 1
    assert re.search(
        r"hypersonic: error: failed to load all models; 1 cannot be served:\n"
        r"  facile version 1: Internal: 1/model.xclbin: .*\n"
        r"fix or remove these models, or serve the others with --exit-on-error=false ",
        server.log,
    ), server.log
    assert "Started" not in server.log


def test_a_model_to_load_at_start_that_no_repository_has_ends_the_program(repository: Path) -> None:
    options = ("--model-control-mode=explicit", "--load-model=facile", "--load-model=facil")
    with program("--model-repository", str(repository), *options, started=False) as server:
        assert server.process.wait(30) == 1
    assert "\n  facil: model not found in any model repository.\n" in server.log


def test_models_that_nobody_asked_for_do_not_end_the_program(repository: Path) -> None:
    (repository / "broken" / "1").mkdir(parents=True)
    options = ("--model-control-mode=explicit", "--load-model=facile")
    with program("--model-repository", str(repository), *options) as server:
        np.testing.assert_array_equal(infer(server.grpc, rows(3)), answers(rows(3)))


def test_a_client_that_goes_away_in_mid_request_disturbs_nobody(repository: Path) -> None:
    with program("--model-repository", str(repository)) as server:
        code = (
            "import numpy as np, os, tritonclient.grpc as t\n"
            f"c = t.InferenceServerClient('{server.grpc}'); i = t.InferInput('x', [16000, {N_IN}], 'FP32')\n"
            f"i.set_data_from_numpy(np.zeros((16000, {N_IN}), np.float32))\n"
            "for n in range(20): c.async_infer('facile', [i], callback=lambda result, error: os._exit(0))\n"
            "import time; time.sleep(20)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        np.testing.assert_array_equal(infer(server.grpc, rows(100)), answers(rows(100)))
        server.wait_for(lambda: _in_flight(server) == 0)
        assert server.stop() == 0


def publish_more(repository: Path, image: bytes, count: int) -> None:
    """Models second, third, ...: the same kernel in xclbins of their own."""
    for index, name in enumerate(("second", "third", "fourth", "fifth")[:count]):
        data = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image, compute_units=1, tools={"model": name})
        manifest = replace_field(manifest_of(data), model=name)
        publish(repository, data, manifest, config_pbtxt(manifest, preferred_batch_size=64 + index))


def test_models_of_one_repository_spread_over_the_cards(repository: Path, image: bytes) -> None:
    publish_more(repository, image, 3)
    with program("--model-repository", str(repository)) as server, triton.InferenceServerClient(server.grpc) as client:
        assert client.is_server_ready()
        x = rows(70)
        given = triton.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        for name in ("facile", "second", "third", "fourth"):
            np.testing.assert_array_equal(client.infer(name, [given]).as_numpy("y"), answers(x))
        assert server.stop() == 0


def test_a_model_for_which_no_card_is_left_says_so_and_the_others_are_served(repository: Path, image: bytes) -> None:
    publish_more(repository, image, 1)
    options = ("--model-repository", str(repository), "--exit-on-error=false")
    with program(*options, environment={"HYPERSONIC_EMU_DEVICES": "1"}) as server:
        np.testing.assert_array_equal(infer(server.grpc, rows(5)), answers(rows(5)))
        with triton.InferenceServerClient(server.grpc) as client:
            states = {model.name: model for model in client.get_model_repository_index().models}
        assert states["facile"].state == "READY"
        assert states["second"].state == "UNAVAILABLE"
        assert "the one emulated card holds another model's xclbin" in states["second"].reason
