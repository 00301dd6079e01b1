# SPDX-License-Identifier: Apache-2.0
"""Loads, replacements and unloads of the same models at the same moment, while others ask for them (CVE-2025-33238, -33254)."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError, NotFoundError, ServerError, UnavailableError
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import write_model
from tests.server.repository.opened_repository import CONFIG, ask, write_shift
from tests.server.repository.shift_ensembles import ensemble, write_ensemble
from tests.server.shift_backend import ShiftBackend
from tests.support.waiting import wait_until

MODELS = ("m", "n", "e", "f")
ROUNDS = 40


def changes(repository: ModelRepository, directory: Path, dice: random.Random) -> list[Callable[[], None]]:
    """The actions of clients and operators. Model n has a version that does not always load."""
    name = dice.choice(MODELS)
    shift = directory / "n" / "1" / "shift"
    return [
        lambda: repository.load(name),
        lambda: repository.unload(name),
        lambda: repository.unload(name, unload_dependents=True),
        lambda: repository.load("m", {"config": CONFIG}),
        lambda: repository.load("m", {"config": CONFIG, "file:1/shift": b"20"}),
        lambda: write_shift(directory / "n", 1, dice.choice(["much", "10"])) if shift.exists() else None,
    ]


@pytest.mark.parametrize("cards", [None, 2], ids=["both fit", "one at a time"])
def test_loads_and_unloads_of_all_kinds_at_once_leave_a_model_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: int | None
) -> None:
    scratch, directory = tmp_path / "scratch", tmp_path / "models"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    write_model(directory, "m")
    write_shift(write_model(directory, "n"), 1, 10)
    write_ensemble(directory, "e", "m")
    write_ensemble(directory, "f", "n")
    backend = ShiftBackend(cards=cards)
    repository = ModelRepository(
        [directory],
        {"sum": backend},
        ScheduledModel,
        control=ModelControlOptions(ModelControlMode.EXPLICIT),
        ensembles=ensemble,
    )
    repository.load_all()
    ended = threading.Event()

    def change(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(ROUNDS):
            with suppress(InvalidRequestError):  # a load that failed
                dice.choice(changes(repository, directory, dice))()

    def use(seed: int) -> int:
        dice, answers = random.Random(seed), 0
        while not ended.is_set():
            name = dice.choice(MODELS)
            try:
                assert ask(repository, name=name) in (3.0, 13.0, 23.0)
                answers += 1
            except (NotFoundError, UnavailableError):  # unloaded at the moment
                repository.index()
        return answers

    with ThreadPoolExecutor(8) as pool:
        users = [pool.submit(use, seed) for seed in range(3)]
        for changer in [pool.submit(change, seed) for seed in range(5)]:
            changer.result(120)
        ended.set()
        assert sum(user.result(60) for user in users) > 0
    write_shift(directory / "n", 1, 10)
    for name in MODELS:
        load(repository, name)
    assert [ask(repository, name=name) for name in MODELS] == [3.0, 13.0, 3.0, 13.0]
    wait_until(lambda: {row.state for row in repository.index()} == {ModelState.READY})
    wait_until(lambda: not list(scratch.iterdir()))
    assert repository._lifecycle._turns._locks == {}
    assert repository.close(60)
    assert backend.most_at_once == 1


def load(repository: ModelRepository, name: str) -> None:
    """Wait until the versions that were unloaded before have released their card."""

    def loaded() -> bool:
        try:
            repository.load(name)
        except ServerError:
            return False
        return True

    wait_until(loaded)
