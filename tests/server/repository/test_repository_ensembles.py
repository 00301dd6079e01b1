# SPDX-License-Identifier: Apache-2.0
"""Ensembles in the repository: what they bring, what they go with, and Triton's words when they cannot be served."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import CONFIG, Script, write_model
from tests.server.repository.opened_repository import ask, rows, write_shift
from tests.server.repository.shift_ensembles import ensemble, write_ensemble
from tests.server.shift_backend import ShiftBackend
from tests.support.waiting import wait_until

EXPLICIT = ModelControlOptions(ModelControlMode.EXPLICIT)
Open = Callable[..., ModelRepository]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """opened(control=..., backend=...): a repository on tmp_path, closed at the end."""
    repositories = []

    def start(control: ModelControlOptions = EXPLICIT, backend: ShiftBackend | None = None) -> ModelRepository:
        backends = {"sum": backend or ShiftBackend()}
        repositories.append(ModelRepository([tmp_path], backends, ScheduledModel, control=control, ensembles=ensemble))
        repositories[-1].load_all()
        return repositories[-1]

    yield start
    for repository in repositories:
        assert repository.close(30)


def states(repository: ModelRepository) -> dict[str, str]:
    return {f"{name}{version}": f"{state} {reason}".strip() for name, version, state, reason in rows(repository)}


def test_at_start_an_ensemble_waits_for_its_models(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "a", "m")
    write_ensemble(tmp_path, "b", "a")
    write_model(tmp_path)
    repository = opened(ModelControlOptions())
    assert states(repository) == {"a1": "READY", "b1": "READY", "m1": "READY"}
    assert ask(repository, name="b") == 3.0


def test_an_ensemble_brings_its_models_and_goes_with_them(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "e", "m")
    write_model(tmp_path)
    repository = opened()
    repository.load("e")
    assert states(repository) == {"e1": "READY", "m1": "READY"}
    repository.unload("m")
    wait_until(lambda: states(repository) == {"e1": "UNAVAILABLE unloaded", "m1": "UNAVAILABLE unloaded"})
    repository.load("m")
    assert states(repository) == {"e1": "READY", "m1": "READY"}


def test_unload_dependents_takes_the_models_nobody_asked_for(tmp_path: Path, opened: Open) -> None:
    for name, member in (("e", "m"), ("f", "m"), ("g", "n")):
        write_ensemble(tmp_path, name, member)
    write_model(tmp_path)
    write_model(tmp_path, "n")
    repository = opened()
    for name in ("e", "f", "n", "g"):
        repository.load(name)
    repository.unload("e", unload_dependents=True)
    repository.unload("g", unload_dependents=True)
    wait_until(lambda: states(repository)["e1"] == states(repository)["g1"] == "UNAVAILABLE unloaded")
    assert (states(repository)["m1"], states(repository)["n1"]) == ("READY", "READY")
    repository.unload("f", unload_dependents=True)
    wait_until(lambda: states(repository)["m1"] == "UNAVAILABLE unloaded")


def load_text(repository: ModelRepository, name: str) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        repository.load(name)
    return str(caught.value)


def test_what_an_ensemble_lacks_is_said_in_tritons_words(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "missing", "nope")
    write_ensemble(tmp_path, "failing", "bad")
    write_ensemble(tmp_path, "version", "m", 7)
    write_shift(write_model(tmp_path, "bad"), 1, "much")
    write_model(tmp_path)
    repository = opened()
    assert load_text(repository, "missing") == (
        "load failed for model 'missing': ensemble missing contains models that are not available or ambiguous: nope\n"
    )
    assert load_text(repository, "failing") == (
        "load failed for model 'failing': ensemble 'failing' depends on 'bad' which has no loaded version. Model 'bad' loading "
        "failed with error: version 1 is at UNAVAILABLE state: Internal: bad/1/shift: 'much' is not a number;\n"
    )
    assert load_text(repository, "version") == (
        "load failed for model 'version': ensemble 'version' depends on 'm' whose required version 7 is not loaded.\n"
    )
    assert "not available or ambiguous" in states(repository)["missing"]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ({"e": "e"}, "circular dependency between ensembles: e -> ... -> e -> e"),
        ({"e": "f", "f": "e"}, "circular dependency between ensembles: e -> ... -> f -> e"),
    ],
)
def test_ensembles_that_need_each_other_are_refused(tmp_path: Path, opened: Open, steps: dict[str, str], text: str) -> None:
    for name, member in steps.items():
        write_ensemble(tmp_path, name, member)
    assert load_text(opened(), "e") == f"load failed for model 'e': {text}\n"
    everything = opened(ModelControlOptions())
    assert all(state.startswith("UNAVAILABLE") for state in states(everything).values())


def test_an_ensemble_follows_its_models_and_goes_when_one_does_not_fit_any_more(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "e", "m")
    directory = write_model(tmp_path)
    repository = opened()
    repository.load("e")
    write_shift(directory, 2, 10)
    repository.load("m")
    assert ask(repository, name="e") == 13.0
    (directory / "config.pbtxt").write_text(CONFIG.replace("200", "2"))
    repository.load("m")
    wait_until(lambda: states(repository)["e1"] == "UNAVAILABLE unloaded")
    assert "allows maximum batch size 200, but it contains model m which only allows" in states(repository)["e"]
    assert not repository.all_ready


def test_poll_brings_an_ensemble_once_its_model_appears(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "e", "m")
    repository = opened(ModelControlOptions(ModelControlMode.POLL, poll_s=3600))
    assert "not available or ambiguous" in states(repository)["e"]
    write_model(tmp_path)
    repository.poll()
    assert ask(repository, name="e") == 3.0
    shutil.rmtree(tmp_path / "m")
    repository.poll()
    wait_until(lambda: states(repository) == {"e1": "UNAVAILABLE unloaded"})


def test_an_ensembles_last_requests_still_find_its_model(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "e", "f")
    write_ensemble(tmp_path, "f", "m")
    write_model(tmp_path)
    script = Script(gate=threading.Event())
    repository = opened(backend=ShiftBackend(script))
    repository.load("e")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, repository, name="e")
        assert script.started.acquire(timeout=30)
        repository.unload("m")
        assert (states(repository)["e1"], states(repository)["m1"]) == ("UNLOADING", "READY")
        assert script.gate is not None
        script.gate.set()
        assert answer.result(30) == 3.0
    wait_until(lambda: set(states(repository).values()) == {"UNAVAILABLE unloaded"})


def test_while_a_model_is_replaced_in_place_its_ensembles_wait_and_whoever_looks_does_not(tmp_path: Path, opened: Open) -> None:
    write_ensemble(tmp_path, "e", "m")
    write_ensemble(tmp_path, "f", "e")
    directory = write_model(tmp_path)
    script = Script(gate=threading.Event())
    assert script.gate is not None
    repository = opened(backend=ShiftBackend(script, cards=1))
    repository.load("f")
    write_shift(directory, 2, 10)
    with ThreadPoolExecutor(4) as pool:
        last = pool.submit(ask, repository)  # holds up the old version's end
        assert script.started.acquire(timeout=30)
        load = pool.submit(repository.load, "m")
        wait_until(lambda: repository._registry.entry("m").replacing)
        looks = pool.submit(lambda: [(model.name, model.reason) for model in repository])
        assert looks.result(30) == [("e", ""), ("f", "")]
        states_now = states(repository)
        assert (states_now["e1"], states_now["f1"], states_now["m2"]) == ("READY", "READY", "LOADING")
        assert repository.model("f", wait_s=0.0).in_service
        assert repository.all_ready
        waiting = pool.submit(ask, repository, name="f")
        script.gate.set()
        assert (last.result(30), load.result(30), waiting.result(30)) == (3.0, None, 13.0)
