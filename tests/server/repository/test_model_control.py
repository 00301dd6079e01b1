# SPDX-License-Identifier: Apache-2.0
"""Model control: explicit loads and unloads, what clients may bring with them, and replacement while others are served."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hypersonic.server.core.inference.card import CardStatus, Shortfall
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError, ModelLoadError, NotFoundError, StartError, UnavailableError
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import Script, write_model
from tests.server.repository.opened_repository import CONFIG, Open, ask, rows, write_shift
from tests.server.shift_backend import ShiftBackend
from tests.support.waiting import wait_until


def test_with_explicit_control_nothing_is_loaded_that_nobody_asked_for(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path, "b")
    repository = opened(ModelControlOptions(ModelControlMode.EXPLICIT, load_models=("a",)))
    assert rows(repository) == [("a", "1", "READY", ""), ("b", "", "", "")]
    assert repository.all_ready
    assert ("a" in repository, "b" in repository) == (True, False)
    with pytest.raises(NotFoundError, match="Request for unknown model: 'b' is not found"):
        repository.model("b")


def test_a_star_loads_all_at_start(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path, "a")
    assert rows(opened(ModelControlOptions(ModelControlMode.EXPLICIT, load_models=("*",)))) == [("a", "1", "READY", "")]


@pytest.mark.parametrize(
    ("control", "text"),
    [
        (
            ModelControlOptions(load_models=("a",)),
            "Use of '--load-model' requires setting '--model-control-mode=explicit' as well",
        ),
        (ModelControlOptions(ModelControlMode.EXPLICIT, ("*", "a")), "must be the ONLY startup model if specified at all"),
        (
            ModelControlOptions(ModelControlMode.EXPLICIT, ("models/facile",)),
            "--load-model is 'models/facile', a path; expected .*: --model-repository=models --load-model=facile",
        ),
        (ModelControlOptions(ModelControlMode.POLL, poll_s=0), "--repository-poll-secs is 0, expected 1 or more"),
        (
            ModelControlOptions(link_roots=(Path("/none"),)),
            "--model-link-roots: /none is not a directory, expected one that",
        ),
    ],
)
def test_options_that_contradict_each_other_stop_the_start(tmp_path: Path, control: ModelControlOptions, text: str) -> None:
    with pytest.raises(StartError, match=text):
        ModelRepository([tmp_path], {}, ScheduledModel, control=control)


def test_load_and_unload_and_load_again(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path)
    repository = opened()
    repository.load("m")
    assert ask(repository) == 3.0
    repository.unload("m")
    wait_until(lambda: rows(repository) == [("m", "1", "UNAVAILABLE", "unloaded")])
    assert repository.all_ready
    with pytest.raises(NotFoundError, match="Request for unknown model: 'm' has no available versions"):
        repository.model("m")
    with pytest.raises(UnavailableError, match="Request for unknown model: 'm' version 1 is not at ready state"):
        repository.model("m", "1")
    repository.unload("m")
    repository.load("m")
    assert rows(repository) == [("m", "1", "READY", "")]


def test_unloading_what_is_unknown_is_fine(opened: Open) -> None:
    repository = opened()
    repository.unload("nope")
    repository.unload("../x")
    assert rows(repository) == []


@pytest.mark.parametrize("mode", [ModelControlMode.NONE, ModelControlMode.POLL])
def test_clients_decide_only_with_explicit_control(tmp_path: Path, opened: Open, mode: ModelControlMode) -> None:
    write_model(tmp_path)
    repository = opened(ModelControlOptions(mode, poll_s=3600))
    for act in (repository.load, repository.unload):
        with pytest.raises(UnavailableError, match="explicit model load / unload is not allowed if polling is enabled"):
            act("m")


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("nope", ModelLoadError, "failed to load 'nope', failed to poll from model repository"),
        ("a b", ModelLoadError, "failed to load 'a b', failed to poll from model repository"),
        ("x" * 300, ModelLoadError, "failed to load"),
        ("", InvalidRequestError, "Model name cannot be empty."),
        ("../m", InvalidRequestError, "invalid model name '../m', model name must not contain path traversal characters"),
        ("/etc", InvalidRequestError, "must not contain path traversal characters"),
        ("a\\b", InvalidRequestError, "must not contain path traversal characters"),
        (".", InvalidRequestError, "must not contain path traversal characters"),
        ("a\0b", InvalidRequestError, r"invalid model name 'a\\x00b'"),
    ],
)
def test_a_name_that_is_no_models_is_refused(opened: Open, name: str, kind: type[Exception], text: str) -> None:
    repository = opened()
    with pytest.raises(kind, match=text):
        repository.load(name)
    assert rows(repository) == []


@pytest.mark.parametrize(
    ("break_it", "kind", "text"),
    [
        (
            lambda model: (model / "config.pbtxt").write_text("bogus: 1"),
            ModelLoadError,
            r"failed to load 'm', failed to poll from model repository: m/config\.pbtxt:1:1: ",
        ),
        (
            lambda model: (model / "config.pbtxt").write_text('backend: "nope"'),
            InvalidRequestError,
            "version 1 is at UNAVAILABLE state: Invalid argument: unable to find backend library for backend 'nope'",
        ),
        (
            lambda model: write_shift(model, 1, "much"),
            InvalidRequestError,
            "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: m/1/shift: 'much' is not a number;\n",
        ),
        (
            lambda model: (model / "1" / "bug").touch(),
            InvalidRequestError,
            "version 1 is at UNAVAILABLE state: Internal: the backend failed: RuntimeError;",
        ),
    ],
)
def test_what_serves_goes_on_when_its_successor_fails(
    tmp_path: Path, opened: Open, break_it: Callable[[Path], object], kind: type[Exception], text: str
) -> None:
    directory = write_model(tmp_path)
    repository = opened()
    repository.load("m")
    before = repository.model("m")
    break_it(directory)
    with pytest.raises(kind, match=text) as caught:
        repository.load("m")
    assert str(tmp_path) not in str(caught.value)
    assert repository.model("m") is before
    assert ask(repository) == 3.0
    [(name, version, state, reason)] = rows(repository)
    assert (name, version, state) == ("m", "1", "READY")
    assert reason in str(caught.value)
    assert reason


def test_a_model_that_fails_at_first_is_unavailable_with_its_reason(tmp_path: Path, opened: Open) -> None:
    write_shift(write_model(tmp_path), 1, "much")
    repository = opened()
    with pytest.raises(InvalidRequestError, match="load failed for model 'm'"):
        repository.load("m")
    assert rows(repository) == [("m", "1", "UNAVAILABLE", "Internal: m/1/shift: 'much' is not a number")]
    assert not repository.all_ready


def test_a_reload_takes_what_is_there_and_starts_its_statistics_at_zero(tmp_path: Path, opened: Open) -> None:
    directory = write_model(tmp_path)
    repository = opened()
    repository.load("m")
    ask(repository)
    assert repository.model("m").statistics.snapshot().success.count == 1
    write_shift(directory, 2, 10)
    repository.load("m")
    assert ask(repository) == 13.0
    assert repository.model("m").statistics.snapshot().success.count == 1
    wait_until(lambda: rows(repository) == [("m", "1", "UNAVAILABLE", "unloaded"), ("m", "2", "READY", "")])


def test_an_unload_serves_what_was_there_already(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path)
    script = Script(gate=threading.Event())
    repository = opened(backend=ShiftBackend(script))
    repository.load("m")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, repository)
        assert script.started.acquire(timeout=30)
        repository.unload("m")
        assert rows(repository) == [("m", "1", "UNLOADING", "")]
        assert script.gate is not None
        script.gate.set()
        assert answer.result(30) == 3.0
    wait_until(lambda: rows(repository) == [("m", "1", "UNAVAILABLE", "unloaded")])


def test_the_log_and_the_index_say_what_a_model_that_serves_lacks_on_its_card(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    write_model(tmp_path)
    lacks = [Shortfall("its own xclbin is not loaded", ends_with_versions=False)]
    card = CardStatus("FPGA-1", "u250", shortfall=lambda: lacks[0] if lacks else None)
    repository = opened(backend=ShiftBackend(Script(card=card)))
    repository.load("m")
    assert rows(repository) == [("m", "1", "READY", "its own xclbin is not loaded")]
    assert "'m' version 1: its own xclbin is not loaded" in caplog.text
    lacks.clear()
    assert rows(repository) == [("m", "1", "READY", "")]


def test_a_version_that_lacks_something_because_of_the_old_one_is_loaded_again_without_it(
    tmp_path: Path, opened: Open, backend: ShiftBackend
) -> None:
    directory = write_model(tmp_path)
    repository = opened()
    repository.load("m")
    lacks = iter([Shortfall("the old version's xclbin", ends_with_versions=True)])
    backend.script.card = CardStatus("FPGA-1", "u250", shortfall=lambda: next(lacks, None))
    write_shift(directory, 2, 10)
    repository.load("m")
    assert backend.loads == [("m", "1"), ("m", "2"), ("m", "2")]
    assert ask(repository) == 13.0
    assert rows(repository)[-1] == ("m", "2", "READY", "")


def test_loads_of_one_name_take_turns_and_others_do_not_wait(tmp_path: Path, opened: Open, backend: ShiftBackend) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path, "b")
    backend.gates["a"] = threading.Event()
    repository = opened()
    with ThreadPoolExecutor(3) as pool:
        slow = [pool.submit(repository.load, "a") for _ in range(2)]
        assert backend.entered.acquire(timeout=30)
        repository.load("b")
        assert [row[:3] for row in rows(repository)] == [("a", "1", "LOADING"), ("b", "1", "READY")]
        backend.gates["a"].set()
        for load in slow:
            load.result(30)
    assert backend.most_at_once == 1
    assert backend.loads.count(("a", "1")) == 2


def test_a_configuration_over_the_network_takes_the_place_of_the_file(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path)
    repository = opened()
    repository.load("m", {"config": CONFIG})
    assert repository.model("m").config.max_batch_size == 7
    repository.load("m")
    assert repository.model("m").config.max_batch_size == 200
