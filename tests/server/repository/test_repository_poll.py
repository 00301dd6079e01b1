# SPDX-License-Identifier: Apache-2.0
"""Poll control: the server follows what the repositories hold."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import CONFIG, write_model
from tests.server.repository.opened_repository import ask, rows, write_shift
from tests.server.shift_backend import ShiftBackend
from tests.support.waiting import wait_until


@pytest.fixture
def backend() -> ShiftBackend:
    return ShiftBackend()


@pytest.fixture
def repository(tmp_path: Path, backend: ShiftBackend) -> Iterator[ModelRepository]:
    """On tmp_path, which holds m and is polled only when the test says so."""
    write_model(tmp_path)
    control = ModelControlOptions(ModelControlMode.POLL, poll_s=3600)
    repository = ModelRepository([tmp_path], {"sum": backend}, ScheduledModel, control=control)
    repository.load_all()
    yield repository
    assert repository.close(30)


def test_what_did_not_change_is_left_alone(repository: ModelRepository, backend: ShiftBackend) -> None:
    model = repository.model("m")
    repository.poll()
    assert repository.model("m") is model
    assert backend.loads == [("m", "1")]


def test_models_come_change_and_go(tmp_path: Path, repository: ModelRepository) -> None:
    write_shift(write_model(tmp_path, "n"), 1, 2)
    repository.poll()
    assert ask(repository, name="n") == 5.0
    write_shift(tmp_path / "n", 1, 4)
    repository.poll()
    assert ask(repository, name="n") == 7.0
    shutil.rmtree(tmp_path / "n")
    repository.poll()
    wait_until(lambda: rows(repository) == [("m", "1", "READY", "")])


def test_a_model_that_is_half_written_is_tried_again_when_it_changes(tmp_path: Path, repository: ModelRepository) -> None:
    directory = write_model(tmp_path, "n")
    (directory / "config.pbtxt").write_text('backend: "su')
    repository.poll()
    assert [row[:3] for row in rows(repository)] == [("m", "1", "READY"), ("n", "", "UNAVAILABLE")]
    (directory / "config.pbtxt").write_text(CONFIG)
    repository.poll()
    assert ask(repository, name="n") == 3.0


def test_a_broken_change_keeps_the_old_version_and_is_not_tried_twice(
    tmp_path: Path, repository: ModelRepository, backend: ShiftBackend
) -> None:
    write_shift(tmp_path / "m", 2, "much")
    repository.poll()
    repository.poll()
    assert ask(repository) == 3.0
    assert backend.loads == [("m", "1"), ("m", "2")]
    write_shift(tmp_path / "m", 2, 1)
    repository.poll()
    assert ask(repository) == 4.0


def test_of_several_versions_only_what_changed_is_loaded(
    tmp_path: Path, repository: ModelRepository, backend: ShiftBackend
) -> None:
    directory = write_model(tmp_path, "n", config="version_policy { all { } }", versions=(1, 2))
    repository.poll()
    first = repository.model("n", "1")
    write_shift(directory, 2, 1)
    write_shift(directory, 3, 2)
    repository.poll()
    assert repository.model("n", "1") is first
    assert repository.loaded_versions("n") == (1, 2, 3)
    assert sorted(backend.loads[3:]) == [("n", "2"), ("n", "3")]


def test_a_name_in_two_repositories_is_served_from_neither_until_one_is_gone(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_model(one)
    write_model(two)
    repository = ModelRepository(
        [one, two], {"sum": ShiftBackend()}, ScheduledModel, control=ModelControlOptions(ModelControlMode.POLL, poll_s=3600)
    )
    repository.load_all()
    assert rows(repository) == [("m", "", "UNAVAILABLE", "model appears in two or more repositories")]
    shutil.rmtree(two / "m")
    repository.poll()
    assert ask(repository) == 3.0
    assert repository.close(30)


def test_a_repository_that_is_away_for_a_moment_unloads_nothing(tmp_path: Path, repository: ModelRepository) -> None:
    away = tmp_path.with_name("away")
    tmp_path.rename(away)
    repository.poll()
    assert ask(repository) == 3.0
    away.rename(tmp_path)
    repository.poll()
    assert ask(repository) == 3.0


def test_a_repository_that_cannot_be_written_is_served(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    for path in (*directory.rglob("*"), directory, tmp_path):
        path.chmod(0o555 if path.is_dir() else 0o444)
    repository = ModelRepository(
        [tmp_path], {"sum": ShiftBackend()}, ScheduledModel, control=ModelControlOptions(ModelControlMode.POLL, poll_s=3600)
    )
    repository.load_all()
    assert ask(repository) == 3.0
    assert repository.close(30)
    for path in (tmp_path, directory, directory / "1"):
        path.chmod(0o755)


def test_the_server_polls_by_itself(tmp_path: Path) -> None:
    repository = ModelRepository(
        [tmp_path], {"sum": ShiftBackend()}, ScheduledModel, control=ModelControlOptions(ModelControlMode.POLL, poll_s=0.02)
    )
    repository.load_all()
    write_model(tmp_path)
    wait_until(lambda: "m" in repository)
    assert repository.close(30)


def test_the_poller_loads_a_model_once_its_files_have_stopped_changing(
    tmp_path: Path, repository: ModelRepository, backend: ShiftBackend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write_shift(write_model(tmp_path, "n"), 1, 2)
    for shift in (3, 4):
        assert repository._look(patient=True) == []
        write_shift(tmp_path / "n", 1, shift)
    assert repository._look(patient=True) == []
    assert "n" not in repository
    assert repository._look(patient=True) == ["n"]
    wait_until(lambda: "n" in repository)
    assert ask(repository, name="n") == 7.0
    assert backend.loads == [("m", "1"), ("n", "1")]
    assert repository._look(patient=True) == []
    assert caplog.text.count("'n' is loaded once its files do not change for 1 s") == 1
