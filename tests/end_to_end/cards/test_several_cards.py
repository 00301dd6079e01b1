# SPDX-License-Identifier: Apache-2.0
"""Three emulated cards behind the real server: which model runs on which, what each is called, and what a full card says."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import assemble_xclbin
from tests.faults.card_models import ask, runs, units, write_model
from tests.faults.site import Site, infer, site
from tests.host.conftest import Build, manifest_of

THREE = {"HYPERSONIC_EMU_DEVICES": "3"}
#: one row that takes its unit a while
SLOW = np.eye(1, 18, dtype=np.float32) * np.float32(1e29)
_UNIT = re.compile(r'fpga_compute_unit_in_service\{compute_unit="([^"]+)",gpu_uuid="([^"]+)",model="([^"]+)"')


def _linked(image: bytes, directory: Path, compute_units: int) -> Build:
    data = assemble_xclbin("facile", Target.SW_EMU, find_platform("u250"), image, compute_units=compute_units)
    path = directory / "model.xclbin"
    path.write_bytes(data)
    return path, manifest_of(data)


@pytest.fixture(scope="module")
def other(image: bytes, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Another xclbin of the same kernel, with one compute unit."""
    return _linked(image, tmp_path_factory.mktemp("other"), 1)


@pytest.fixture(scope="module")
def third(image: bytes, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """An xclbin of the same kernel with three compute units."""
    return _linked(image, tmp_path_factory.mktemp("third"), 3)


def places(running: Site) -> set[tuple[str, str, str]]:
    """(model, compute unit, its card's gpu_uuid)."""
    matches = (_UNIT.match(name) for name in running.metrics())
    return {(match[3], match[1], match[2]) for match in matches if match}


def test_a_model_over_all_cards_has_each_unit_of_each_and_keeps_all_of_them_busy(build: Build, tmp_path: Path) -> None:
    with site(write_model(tmp_path / "models", build, "0, 1, 2"), environment=THREE) as running:
        with ThreadPoolExecutor(12) as pool, running.client() as client:  # as many as all slots hold
            answers = list(pool.map(lambda _: infer(client, "facile", SLOW), range(120)))
        assert all(np.array_equal(answer, 2 * SLOW[:, :1]) for answer in answers)
        names = {f"facile_{unit}@{card}" for unit in (1, 2) for card in range(3)}
        assert {unit for _, unit, _ in places(running)} == names
        cards = {unit: card for _, unit, card in places(running)}
        assert sorted(Counter(cards.values()).values()) == [2, 2, 2]
        assert all(cards[f"facile_1@{n}"] == cards[f"facile_2@{n}"] for n in range(3))
        assert all(runs(running, name) > 0 for name in names)


def test_models_are_on_the_cards_that_their_configurations_name(build: Build, other: Build, tmp_path: Path) -> None:
    repository = write_model(tmp_path / "models", build, "2", name="two")
    write_model(repository, other, "0", name="zero")
    write_model(repository, other, "1", name="one")
    with site(repository, environment=THREE) as running, running.client() as client:
        for model in ("zero", "one", "two"):
            ask(client, 1, model)
        cards = {model: card for model, _, card in places(running)}
        assert len(set(cards.values())) == 3
        assert {(model, unit) for model, unit, _ in places(running)} == {
            ("zero", "facile_1"), ("one", "facile_1"), ("two", "facile_1"), ("two", "facile_2"),
        }  # fmt: skip
    with site(write_model(tmp_path / "again", other, "1", name="one"), environment=THREE) as again:
        assert {card for _, _, card in places(again)} == {cards["one"]}, "a card keeps its name"


def loads(client: triton.InferenceServerClient, model: str) -> bool:
    """Return whether a card accepts it."""
    try:
        client.load_model(model)
    except InferenceServerException:
        return False
    return True


def test_models_that_name_no_card_spread_over_those_there_are_and_the_last_is_told_that_none_is_left(
    build: Build, other: Build, third: Build, tmp_path: Path
) -> None:
    repository = write_model(tmp_path / "models", build, name="a")
    write_model(repository, other, name="b")
    options = ("--model-control-mode", "explicit", "--load-model", "a", "--load-model", "b", "--emulated-cards", "2")
    with site(repository, *options, environment={"HYPERSONIC_EMU_DEVICES": "1"}) as running, running.client() as client:
        assert len({card for _, _, card in places(running)}) == 2
        write_model(repository, third, name="c")
        with pytest.raises(InferenceServerException, match="each of the 2 emulated cards holds another model") as refused:
            client.load_model("c")
        assert "one more: hypersonic serve --emulated-cards 3" in str(refused.value)
        assert "xrt-smi" not in str(refused.value)
        client.unload_model("a")
        running.wait_for(lambda: loads(client, "c"))  # an unloaded model lets go of its card a little later
        ask(client, 5, "c")
        ask(client, 6, "b")


def test_a_card_that_another_model_holds_is_refused_by_its_number_and_goes_on(
    build: Build, other: Build, third: Build, tmp_path: Path
) -> None:
    repository = write_model(tmp_path / "models", build, "1", name="a")
    options = ("--model-control-mode", "explicit", "--load-model", "a")
    with site(repository, *options, environment=THREE) as running, running.client() as client:
        write_model(repository, other, "0, 1", name="b")
        with pytest.raises(InferenceServerException, match="it is in use with another xclbin, by this process or another"):
            client.load_model("b")
        ask(client, 1, "a")
        assert set(units(running, "in_service")) == {"facile_1", "facile_2"}
        write_model(repository, other, "3", name="d")
        with pytest.raises(InferenceServerException, match="card 3 cannot be opened: there is no such card; `hypersonic dev"):
            client.load_model("d")
        write_model(repository, other, "0", name="e")
        client.load_model("e")
        ask(client, 2, "e")
