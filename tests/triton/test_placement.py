# SPDX-License-Identifier: Apache-2.0
"""Which card a model is placed on, by both servers: models with equal kernels share an open card, whichever xclbin is on it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
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
from tests.support.triton_program import triton_program
from tests.support.waiting import wait_until
from tests.triton.rows import ask, expected, rows_of

pytestmark = pytest.mark.whole("triton", "server/backends", "host", "firmware/publish", "sim/emu")

ONE_CARD = {"HYPERSONIC_EMU_DEVICES": "1"}


@contextmanager
def serving(
    start: Start, repository: Repository, *models: str, environment: Mapping[str, str]
) -> Iterator[tuple[Program, grpc.InferenceServerClient]]:
    """A server with model control, and a client of it."""
    options = ["--model-control-mode=explicit", *(f"--load-model={model}" for model in models)]
    with (
        start(f"--model-repository={repository.place}", *options, environment=environment) as server,
        grpc.InferenceServerClient(server.grpc) as client,
    ):
        yield server, client


def check(client: grpc.InferenceServerClient, model: str, weight: float = 0) -> None:
    """The model answers right."""
    x = rows_of(20, 1)
    np.testing.assert_array_equal(ask(client, x, model), expected(x, weight))


def loads(client: grpc.InferenceServerClient, model: str) -> bool:
    """Load the model; return False if it is refused."""
    try:
        client.load_model(model)
    except InferenceServerException:
        return False
    return True


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


def publish_swapped(repository: Repository, weighted: Build, units: int) -> None:
    """Publish models a and b, whose kernels are equal and whose xclbins differ. `units` is the number of a's compute units."""
    image = Xclbin.read(weighted[0]).bitstream
    repository.publish("a", linked(image, units, weights=True, mhz=300), weights=3, parameters={"timeout_ms": "300"})
    repository.publish("b", linked(image, 1, weights=True, mhz=250), weights=40, parameters={"timeout_ms": "300"})


def test_models_with_equal_kernels_in_different_xclbins_share_a_card(
    start: Start, repository: Repository, weighted: Build
) -> None:
    publish_swapped(repository, weighted, 2)
    with serving(start, repository, "a", "b", environment=ONE_CARD) as (server, client):
        check(client, "a", 3)
        check(client, "b", 40)
        said = "MHz of card 0, which it shares; its own xclbin"  # a's or b's: tritonserver loads both at once
        wait_until(lambda: said in server.log, 20, explain=lambda: server.log)


def test_a_model_of_equal_kernel_without_weights_is_refused_while_another_has_the_units(
    start: Start, repository: Repository, image: bytes
) -> None:
    repository.publish("a", linked(image, mhz=300))
    repository.publish("b", linked(image, mhz=250))
    with serving(start, repository, "a", environment=ONE_CARD) as (_, client):
        with pytest.raises(InferenceServerException, match=r"'a'.*nload|nload.*'a'"):
            client.load_model("b")
        check(client, "a")
        client.unload_model("a")
        wait_until(lambda: loads(client, "b"), 20)  # tritonserver gives the card back some time after a model is not ready
        check(client, "b")


@pytest.mark.parametrize("devices", [1, 2])
def test_a_version_with_another_kernel_takes_a_free_card_or_is_refused_with_what_to_unload(
    repository: Repository, image: bytes, devices: int
) -> None:
    """tritonserver loads a version before it unloads the old one; `hypersonic serve` unloads first where there is one card."""
    repository.publish("m", linked(image, digest="a" * 64))
    environment = {"HYPERSONIC_EMU_DEVICES": str(devices)}
    with serving(triton_program, repository, "m", environment=environment) as (_, client):
        repository.publish("m", linked(image, 2, digest="b" * 64))
        if devices == 1:
            with pytest.raises(
                InferenceServerException, match="card 0 has the xclbin of 'm'; unload one of these models first"
            ):
                client.load_model("m")
        else:
            client.load_model("m")
        check(client, "m")
        ready = [row.version for row in client.get_model_repository_index().models if row.state == "READY"]
        assert ready == [str(devices)]


def test_a_version_with_an_equal_kernel_in_another_xclbin_replaces_the_old_one_on_its_only_card(
    start: Start, repository: Repository, image: bytes
) -> None:
    repository.publish("m", linked(image, mhz=300))
    with serving(start, repository, "m", environment=ONE_CARD) as (_, client):
        repository.publish("m", linked(image, mhz=250))
        client.load_model("m")
        assert [row.version for row in client.get_model_repository_index().models if row.state == "READY"] == ["2"]
        check(client, "m")


@pytest.mark.parametrize("units", [1, 2])
def test_a_card_that_was_reset_gets_an_xclbin_with_which_the_model_that_is_left_can_be_served(
    start: Start, repository: Repository, weighted: Build, cards: Cards, units: int
) -> None:
    """b came to a's xclbin, which then left with its files. After a reset, b brings its own, or a's if its own lacks a unit."""
    publish_swapped(repository, weighted, units)
    hangs = {"HYPERSONIC_EMU_HANG": "facile_1:4"} if units == 1 else {}
    environment = {**hangs, **ONE_CARD, **cards.environment}
    with serving(start, repository, "a", "b", environment=environment) as (server, client):
        check(client, "b", 40)
        client.unload_model("a")
        wait_until(lambda: not client.is_model_ready("a"), 20)
        shutil.rmtree(repository.place / "a")

        def answers() -> bool:
            try:
                return bool((ask(client, rows_of(3, 1), "b", timeout_s=5) == expected(rows_of(3, 1), 40)).all())
            except InferenceServerException:
                return False

        if hangs:
            wait_until(lambda: not answers(), 60, explain=lambda: server.log)
        cards.reset(0)
        if not hangs:  # a run finds out, and its rows may wait for the card
            answers()
            wait_until(lambda: re.search("facile_2 is out of service|card 0 has been released", server.log), 60)
        wait_until(answers, 60, explain=lambda: server.log)
