# SPDX-License-Identifier: Apache-2.0
"""The repository's layout: versions, policies, duplicates, and what must not be followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.server.core.inference.repository import parse_version
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError, NotFoundError, StartError, UnavailableError
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import Script, SumBackend, write_model


def loaded(*directories: Path) -> ModelRepository:
    repository = ModelRepository(directories, {"sum": SumBackend(Script())}, ScheduledModel)
    repository.load_all()
    return repository


def index(repository: ModelRepository) -> list[tuple[str, str, str, str]]:
    return [(entry.name, entry.version, str(entry.state), entry.reason) for entry in repository.index()]


def test_the_latest_version_is_served_by_default(tmp_path: Path) -> None:
    write_model(tmp_path, versions=(1, 2, 10))
    repository = loaded(tmp_path)
    assert repository.loaded_versions("m") == (10,)
    assert repository.model("m").version == repository.model("m", "10").version == 10
    with pytest.raises(NotFoundError, match="'m' version 2 is not found"):
        repository.model("m", "2")


def test_a_version_policy_chooses_among_several(tmp_path: Path) -> None:
    write_model(tmp_path, config="version_policy { specific { versions: [ 1, 2 ] } }", versions=(1, 2, 10))
    repository = loaded(tmp_path)
    assert repository.loaded_versions("m") == (1, 2)
    assert (repository.model("m").version, repository.model("m", "1").version) == (2, 1)


def test_when_the_latest_version_fails_the_next_one_answers(tmp_path: Path) -> None:
    directory = write_model(tmp_path, config="version_policy { all { } }", versions=(1, 2))
    (directory / "2" / "broken").write_text("no card")
    repository = loaded(tmp_path)
    assert repository.model("m").version == 1
    assert index(repository) == [("m", "1", "READY", ""), ("m", "2", "UNAVAILABLE", "Internal: m/2/broken: no card")]
    with pytest.raises(UnavailableError, match="'m' version 2 is not at ready state"):
        repository.model("m", "2")
    assert not repository.all_ready


def test_several_repositories_are_one(tmp_path: Path) -> None:
    write_model(tmp_path / "a", "one")
    write_model(tmp_path / "b", "two")
    assert [model.name for model in loaded(tmp_path / "a", tmp_path / "b")] == ["one", "two"]


def test_a_model_in_two_repositories_is_in_neither(tmp_path: Path) -> None:
    write_model(tmp_path / "a")
    write_model(tmp_path / "b")
    repository = loaded(tmp_path / "a", tmp_path / "b")
    assert index(repository) == [("m", "", "UNAVAILABLE", "model appears in two or more repositories")]
    with pytest.raises(NotFoundError, match="Request for unknown model: 'm' is not found"):
        repository.model("m")


def test_a_model_without_versions_is_unavailable(tmp_path: Path) -> None:
    write_model(tmp_path, versions=())
    assert index(loaded(tmp_path))[0][2:] == (
        "UNAVAILABLE",
        "at least one version must be available under the version policy of model 'm'",
    )


def test_work_in_progress_and_loose_files_are_not_models(tmp_path: Path) -> None:
    write_model(tmp_path, ".publish-x")
    (tmp_path / "README").write_text("")
    directory = write_model(tmp_path)
    for name in ("0", "01", "1a", ".2", "latest"):
        (directory / name).mkdir()
    repository = loaded(tmp_path)
    assert index(repository) == [("m", "1", "READY", "")]


def test_a_symlink_inside_the_repository_is_fine(tmp_path: Path) -> None:
    directory = write_model(tmp_path, versions=(1,))
    (directory / "2").symlink_to(directory / "1")
    assert loaded(tmp_path).model("m").version == 2


@pytest.mark.parametrize("name", ["a b", "a\nb", "ä", "-x"])
def test_a_name_that_no_client_should_send_is_not_loaded(tmp_path: Path, name: str) -> None:
    write_model(tmp_path, name)
    assert "expected a name" in index(loaded(tmp_path))[0][3]


def test_a_repository_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read: No such file or directory"):
        loaded(tmp_path / "nothing")


@pytest.mark.parametrize(("text", "number"), [("", None), ("1", 1), ("01", 1), (" 7", 7), ("+3", 3), ("0", 0)])
def test_versions_are_read_as_triton_reads_them(text: str, number: int | None) -> None:
    assert parse_version(text) == number


@pytest.mark.parametrize("text", ["x", "1x", "1.0", "-1", " ", "9" * 30, "\u0661"])
def test_a_version_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="version should be an integral value > 0"):
        parse_version(text)


def test_a_reason_of_200_kilobytes_is_shown_with_its_beginning_and_its_end(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    (directory / "1" / "broken").write_text("y" * 200_000 + "end")
    ((_, _, state, reason),) = index(loaded(tmp_path))
    assert state == "UNAVAILABLE"
    assert len(reason) <= 8192
    assert reason.startswith("Internal: m/1/broken: yyy")
    assert reason.endswith("yend")
