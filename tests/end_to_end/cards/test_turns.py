# SPDX-License-Identifier: Apache-2.0
"""A server whose models take turns on fewer cards than it has xclbins, asked by tritonclient; and one that is killed while it
loads a card."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.images import pack_images
from tests.host.conftest import DEVICE_MODEL, HERE, compile_model, manifest_of
from tests.support.server_program import Program, program
from tests.support.waiting import wait_until

#: the kernels of each xclbin; kernel k<n> answers 2 * x[0] + x[1] + n
XCLBINS = ((1, 2), (3,), (4, 5))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five models of three xclbins."""
    place = tmp_path_factory.mktemp("models")
    for numbers in XCLBINS:
        images = {
            f"k{n}": compile_model(HERE / "model.c", DEVICE_MODEL, defines=(f"KERNEL=k{n}", f"PLUS={n}")).read_bytes()
            for n in numbers
        }
        linked = [LinkedKernel(name, digest=f"{name[1:]:0>64}") for name in images]
        xclbin = assemble_kernels(linked, Target.SW_EMU, find_platform("u250"), pack_images(images))
        for name in images:
            manifest = manifest_of(xclbin, model=name, kernel=name)
            parameters = {"card_policy": "on_demand", "card_residency_ms": "100", "slot_rows": "64"}
            publish(place, xclbin, manifest, config_pbtxt(manifest, parameters=parameters))
    return place


def ask(client: triton.InferenceServerClient, number: int, value: int) -> int:
    """The answer of model k<number> to a row, as an integer."""
    rows = np.zeros((1, 18), np.float32)
    rows[0, :2] = value, 7
    tensor = triton.InferInput("x", [1, 18], "FP32")
    tensor.set_data_from_numpy(rows)
    return int(client.infer(f"k{number}", [tensor], client_timeout=120).as_numpy("y")[0, 0])


def environment(cards: int, load_ms: int, directory: Path | None = None) -> dict[str, str]:
    own = {"HYPERSONIC_EMU_CARDS": str(directory)} if directory else {}
    return {"HYPERSONIC_EMU_DEVICES": str(cards), "HYPERSONIC_EMU_LOAD_MS": str(load_ms), **own}


def page(running: Program) -> list[str]:
    """The lines of the metrics page."""
    with urllib.request.urlopen(f"http://{running.ports['Metrics Service']}/metrics", timeout=60) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return lines


def metric(running: Program, name: str, model: str) -> float:
    lines = page(running)
    return next(float(line.split()[-1]) for line in lines if line.startswith(f'{name}{{model="{model}"'))


def test_five_models_of_three_xclbins_answer_on_two_cards(repository: Path) -> None:
    def client(seed: int) -> list[tuple[int, int]]:
        wrong = []
        numbers = np.random.default_rng(seed).choice([1, 2, 3, 4, 5], 40, p=[0.4, 0.2, 0.3, 0.05, 0.05])
        with triton.InferenceServerClient(running.grpc) as connection:
            for turn, number in enumerate(map(int, numbers)):
                if (got := ask(connection, number, turn)) != 2 * turn + 7 + number:
                    wrong.append((number, got))
        return wrong

    with program(f"--model-repository={repository}", environment=environment(2, 50)) as running:
        with triton.InferenceServerClient(running.grpc) as connection:
            assert all(connection.is_model_ready(f"k{number}") for number in range(1, 6))
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(client, range(4))) == [[]] * 4
        assert metric(running, "fpga_model_card_loads_total", "k4") == metric(running, "fpga_model_card_loads_total", "k5") > 0


def test_a_card_has_its_series_while_it_is_loaded_for_another_model(repository: Path) -> None:
    """SuperSONIC counts servers by nv_gpu_utilization."""

    def of_cards() -> list[str]:
        families = ("nv_gpu_utilization{", "nv_gpu_memory_total_bytes{", "fpga_card_xclbin_reloads_total{")
        return [line.rpartition(" ")[0] for line in page(running) if line.startswith(families)]

    with program(f"--model-repository={repository}", environment=environment(1, 60_000)) as running:
        there = of_cards()
        assert len(there) == 3
        away = next(number for number in range(1, 6) if not metric(running, "fpga_model_resident", f"k{number}"))
        with triton.InferenceServerClient(running.grpc) as connection, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, connection, away, 1)
            wait_until(lambda: not any(metric(running, "fpga_model_resident", f"k{number}") for number in range(1, 6)), 60)
            assert of_cards() == there
            running.process.kill()
            running.process.wait(60)
            assert asked.exception(60) is not None


def test_a_server_that_is_killed_while_it_loads_a_card_leaves_models_and_card_as_they_were(
    repository: Path, tmp_path: Path
) -> None:
    files = sorted((path, path.stat().st_size) for path in repository.rglob("*"))
    (tmp_path / "cards").mkdir()
    with program(f"--model-repository={repository}", environment=environment(1, 60_000, tmp_path / "cards")) as running:
        away = next(number for number in range(1, 6) if not metric(running, "fpga_model_resident", f"k{number}"))
        with triton.InferenceServerClient(running.grpc) as connection, ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, connection, away, 1)
            wait_until(lambda: not any(metric(running, "fpga_model_resident", f"k{number}") for number in range(1, 6)), 60)
            assert not asked.done()
            running.process.kill()
            running.process.wait(60)
            assert asked.exception(60) is not None
    assert sorted((path, path.stat().st_size) for path in repository.rglob("*")) == files
    with (
        program(f"--model-repository={repository}", environment=environment(1, 0, tmp_path / "cards")) as running,
        triton.InferenceServerClient(running.grpc) as connection,
    ):
        assert [ask(connection, number, 3) for number in range(1, 6)] == [13 + number for number in range(1, 6)]
