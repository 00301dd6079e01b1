# SPDX-License-Identifier: Apache-2.0
"""The backend "fpga" in both servers: the same repository, the same requests, the same answers. The test kernel computes
y = 2 * x[0] + x[1] of 18 numbers, so each answer is known."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.xclbin.container import Xclbin
from tests.host.conftest import Build, Cards
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support.both_servers import Start
from tests.support.server_program import Program
from tests.support.waiting import wait_until
from tests.triton.rows import POISON, ask, expected, rows_of

pytestmark = pytest.mark.whole("triton", "server", "host", "firmware/publish", "sim/card", "sim/emu")


@contextmanager
def serving(
    start: Start, repository: Repository, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[Program]:
    with start(f"--model-repository={repository.place}", *options, environment=environment) as server:
        yield server


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


def test_requests_of_any_size_from_many_clients_get_their_own_answers(
    start: Start, repository: Repository, image: bytes
) -> None:
    """slots of 16 rows, on two compute units: requests are joined and split."""
    repository.publish("m", linked(image, 2), parameters={"slots": "2"})
    with serving(start, repository) as server:

        def client_of(number: int) -> None:
            sizes = random.Random(number)
            with grpc.InferenceServerClient(server.grpc) as client:
                for request in range(40):
                    x = rows_of(sizes.choice([1, 2, 7, 16, 17, 100, 1000]), seed=1000 * number + request)
                    np.testing.assert_array_equal(ask(client, x), expected(x))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(client_of, range(8)))


def test_a_request_without_rows_is_refused_and_the_next_is_answered(start: Start, repository: Repository, image: bytes) -> None:
    repository.publish("m", linked(image))
    with serving(start, repository) as server, grpc.InferenceServerClient(server.grpc) as client:
        with pytest.raises(InferenceServerException, match=r"batch-size must be >= 1|input byte size mismatch"):
            ask(client, rows_of(0, 1))
        assert ask(client, rows_of(3, 1)).shape == (3, 1)


def test_models_with_their_own_weights_share_a_compute_unit(start: Start, repository: Repository, weighted: Build) -> None:
    weighted_image = Xclbin.read(weighted[0]).bitstream
    for name, weight in (("a", 3.0), ("b", 40.0)):
        repository.publish(name, linked(weighted_image, weights=True), weights=weight)
    with serving(start, repository, environment={"HYPERSONIC_EMU_DEVICES": "1"}) as server:

        def client_of(number: int) -> None:
            model, weight = (("a", 3.0), ("b", 40.0))[number % 2]
            with grpc.InferenceServerClient(server.grpc) as client:
                for request in range(30):
                    x = rows_of(5, seed=100 * number + request)
                    np.testing.assert_array_equal(ask(client, x, model), expected(x, weight))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(client_of, range(4)))


def test_the_rows_of_a_hung_compute_unit_run_on_another(start: Start, repository: Repository, image: bytes) -> None:
    repository.publish("m", linked(image, 2), parameters={"timeout_ms": "300"})
    with serving(start, repository, environment={"HYPERSONIC_EMU_HANG": "facile_1:3"}) as server:

        def client_of(number: int) -> None:
            with grpc.InferenceServerClient(server.grpc) as client:
                while number < 400 and " on facile_1 did not complete within 300 ms" not in server.log:
                    x = rows_of(40, number)
                    np.testing.assert_array_equal(ask(client, x), expected(x))
                    number += 4

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(client_of, range(4)))
        assert " on facile_1 did not complete within 300 ms" in server.log


def test_a_card_whose_only_unit_hangs_refuses_until_it_was_reset(
    start: Start, repository: Repository, image: bytes, cards: Cards
) -> None:
    repository.publish("m", linked(image), parameters={"timeout_ms": "300", "retry_ms": "50"})
    environment = {"HYPERSONIC_EMU_HANG": "facile_1:3", "HYPERSONIC_EMU_DEVICES": "1", **cards.environment}
    with serving(start, repository, environment=environment) as server, grpc.InferenceServerClient(server.grpc) as client:
        x = rows_of(4, 1)
        for _ in range(2):
            np.testing.assert_array_equal(ask(client, x), expected(x))
        with pytest.raises(InferenceServerException) as error:
            ask(client, x, timeout_s=5)
        assert error.value.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")
        cards.reset(0)

        def answers() -> bool:
            try:
                return bool((ask(client, x, timeout_s=5) == expected(x)).all())
            except InferenceServerException:
                return False

        wait_until(answers, 60, explain=lambda: server.log)


def test_a_run_that_the_memory_answered_with_an_error_fails_and_others_go_on(
    start: Start, repository: Repository, image: bytes
) -> None:
    repository.publish("m", linked(image, 2))
    with serving(start, repository) as server, grpc.InferenceServerClient(server.grpc) as client:
        poison = rows_of(2, 1)
        poison[1, 0] = POISON
        with pytest.raises(InferenceServerException, match="the memory responded to a read with an error"):
            ask(client, poison)
        x = rows_of(50, 2)
        np.testing.assert_array_equal(ask(client, x), expected(x))


@pytest.mark.parametrize("what", ["damaged xclbin", "damaged weights", "another manifest", "no manifest"])
def test_a_version_whose_files_are_not_those_that_were_published_is_refused(
    start: Start, repository: Repository, weighted: Build, image: bytes, what: str
) -> None:
    repository.publish("good", linked(image))
    version = repository.publish("m", linked(Xclbin.read(weighted[0]).bitstream, weights=True, digest="e" * 64), weights=3)
    words = {
        "damaged xclbin": "sha256 is", "damaged weights": "has sha256", "another manifest": "sha256 is",
        "no manifest": "manifest.json",
    }[what]  # fmt: skip
    if what == "no manifest":
        (version / "manifest.json").unlink()
    elif what == "another manifest":
        other = Repository(repository.place.parent / "other").publish("m", linked(image))
        (version / "manifest.json").write_bytes((other / "manifest.json").read_bytes())
    else:
        damaged = version / ("model.xclbin" if what == "damaged xclbin" else "weights.bin")
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.unlink()
        damaged.write_bytes(content)
    with serving(start, repository, "--exit-on-error=false") as server, grpc.InferenceServerClient(server.grpc) as client:
        (row,) = [row for row in client.get_model_repository_index().models if row.name == "m"]
        assert row.state == "UNAVAILABLE"
        assert words in row.reason
        x = rows_of(3, 1)
        np.testing.assert_array_equal(ask(client, x, "good"), expected(x))


def test_a_version_replaces_another_while_clients_ask(start: Start, repository: Repository, weighted: Build) -> None:
    """Weights 1, 2, .. 5 of one kernel: each answer is that of one version, and the newest comes last."""
    image = Xclbin.read(weighted[0]).bitstream
    repository.publish("m", linked(image, weights=True), weights=1)
    options = ("--model-control-mode=explicit", "--load-model=m")
    with serving(start, repository, *options, environment={"HYPERSONIC_EMU_DEVICES": "1"}) as server:
        ended: list[bool] = []

        def client_of(number: int) -> list[float]:
            seen: list[float] = []
            with grpc.InferenceServerClient(server.grpc) as client:
                while not ended or len(seen) < 2:
                    x = rows_of(3, number)
                    (weight,) = {float(v) for v in (ask(client, x) - expected(x)).ravel()}
                    seen += [weight] if weight not in seen else []
                    if ended:
                        break
            return seen

        with ThreadPoolExecutor(3) as pool, grpc.InferenceServerClient(server.grpc) as control:
            clients = [pool.submit(client_of, number) for number in range(3)]
            for weight in (2, 3, 4, 5):
                repository.publish("m", linked(image, weights=True), weights=weight)
                control.load_model("m")
                x = rows_of(3, 9)
                np.testing.assert_array_equal(ask(control, x), expected(x, weight))
            ended.append(True)
            for each in clients:
                assert each.result() == sorted(each.result())


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [
        ("slots", "65", "64"),
        ("slot_rows", "0", "2147483647"),
        *((name, str(1 << 31), "2147483647") for name in ("timeout_ms", "retry_ms")),
    ],
)
def test_a_parameter_out_of_its_bounds_is_refused_with_them(
    start: Start, repository: Repository, image: bytes, name: str, value: str, most: str
) -> None:
    repository.publish("m", linked(image), parameters={name: value})
    with serving(start, repository, "--exit-on-error=false") as server, grpc.InferenceServerClient(server.grpc) as client:
        (row,) = client.get_model_repository_index().models
        assert row.state == "UNAVAILABLE"
        assert re.search(rf"{name} is '?{value}'?, expected .*1 to {most}", row.reason), row.reason
