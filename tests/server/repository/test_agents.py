# SPDX-License-Identifier: Apache-2.0
"""model_repository_agents: `checksum` is run as Triton runs it, any other is named in the log."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.model import Model
from hypersonic.server.core.links import Links
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import InvalidRequestError, ModelConfigError, ModelLoadError
from hypersonic.server.repository.agents import check_unchanged, run_agents
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.repository.override import OverridePolicy
from tests.server.conftest import CONFIG as TEXT
from tests.server.conftest import write_model
from tests.server.repository.opened_repository import CONFIG, Open, ask, rows
from tests.server.shift_backend import ShiftBackend, ShiftModel

MB = 1 << 20


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def agents(files: Mapping[str, str], name: str = "checksum") -> str:
    """As config.pbtxt has them."""
    pairs = " ".join(f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in files.items())
    return f'model_repository_agents {{ agents [ {{ name: "{name}" {pairs} }} ] }}'


def in_json(files: Mapping[str, str]) -> str:
    more = {"model_repository_agents": {"agents": [{"name": "checksum", "parameters": files}]}}
    return json.dumps(json.loads(CONFIG) | more)


def site(tmp_path: Path, files: Mapping[str, str], shift: str = "5") -> Path:
    directory = write_model(tmp_path, config=agents(files))
    (directory / "1" / "shift").write_text(shift)
    return directory


def test_a_model_whose_checksums_are_right_is_loaded(tmp_path: Path, opened: Open) -> None:
    files = {"MD5:1/shift": md5(b"5"), "md5:/1//shift": md5(b"5").upper(), "Md5:table": md5(bytes(3 * MB))}
    (site(tmp_path, files) / "table").write_bytes(bytes(3 * MB))
    repository = opened()
    repository.load("m")
    assert ask(repository) == 8.0


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (
            {"MD5:1/shift": md5(b"6")},
            rf"Mismatched MD5 hash for file 1/shift, expect: {md5(b'6')}, got: {md5(b'5')}: the",
        ),
        ({"MD5:1/shift": ""}, rf"Mismatched MD5 hash for file 1/shift, expect: , got: {md5(b'5')}"),
        ({"MD5:1/shift": md5(b"5"), "MD5:1/none": md5(b"")}, "failed to open text file for read 1/none: No such file"),
        ({"MD5:1": md5(b"")}, "failed to open text file for read 1: not a regular file"),
        ({"MD5:pipe": md5(b"")}, "failed to open text file for read pipe: not a regular file"),
        ({"1/shift": md5(b"5")}, "failed to parse key: 1/shift, expected MD5:<file"),
        ({"MD5:": md5(b"5")}, "failed to parse key: MD5:, expected"),
        ({"SHA256:1/shift": md5(b"5")}, "Unsupported checksum algorithm: SHA256, expected MD5"),
        ({"MD5:../secret": md5(b"5")}, r"\.\./secret leads out of the model's directory"),
        ({"MD5:1/../../secret": md5(b"5")}, "leads out of the model's directory"),
        ({r"MD5:a\000b": md5(b"5")}, "is not a file name: .*embedded null"),
        ({r"MD5:a\nb": md5(b"5")}, r"failed to open text file for read a\\nb: No such file"),
    ],
)
def test_a_model_whose_checksums_are_wrong_is_not_loaded_and_what_serves_goes_on(
    tmp_path: Path, opened: Open, files: Mapping[str, str], text: str
) -> None:
    (tmp_path / "secret").write_text("5")
    directory = site(tmp_path, {})
    os.mkfifo(directory / "pipe")
    repository = opened()
    repository.load("m")
    (directory / "config.pbtxt").write_text(TEXT + agents(files))
    with pytest.raises(ModelLoadError, match=f"failed to load 'm', failed to poll from model repository: .*{text}") as error:
        repository.load("m")
    assert error.value.text.isprintable()
    assert ask(repository) == 8.0
    assert str(tmp_path) not in rows(repository)[0][3]


def test_the_reason_is_in_the_index_at_start_and_no_code_of_the_model_has_run(tmp_path: Path) -> None:
    directory = tmp_path / "m" / "1"
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(
        "open(__file__ + '.ran', 'w')\nclass TritonPythonModel:\n    def auto_complete_config(config): return config\n"
    )
    (directory.parent / "config.pbtxt").write_text('backend: "python"' + agents({"MD5:1/model.py": md5(b"another")}))
    repository = ModelRepository([tmp_path], {"python": PythonBackend()}, ScheduledModel)
    repository.load_all()
    [(name, version, state, reason)] = rows(repository)
    assert (name, version, state) == ("m", "", "UNAVAILABLE")
    assert reason.startswith(f"Mismatched MD5 hash for file 1/model.py, expect: {md5(b'another')}, got: ")
    assert [path.name for path in directory.iterdir()] == ["model.py"]
    assert repository.close(30)


def test_a_load_request_is_checked_by_the_configuration_that_it_brings(tmp_path: Path, opened: Open) -> None:
    site(tmp_path, {"MD5:1/shift": md5(b"another")})
    repository = opened(ModelControlOptions(ModelControlMode.EXPLICIT, override=OverridePolicy(limit_bytes=100)))
    repository.load("m", {"config": in_json({"MD5:1/shift": md5(b"5")})})
    assert ask(repository) == 8.0
    repository.load("m", {"config": in_json({"MD5:1/shift": md5(b"7")}), "file:1/shift": b"7"})
    assert ask(repository) == 10.0
    for files in ({}, {"file:1/shift": b"6"}):
        with pytest.raises(ModelLoadError, match="Mismatched MD5 hash for file 1/shift"):
            repository.load("m", {"config": in_json({"MD5:1/shift": md5(b"8")}), **files})
    assert ask(repository) == 10.0


def test_an_agent_that_is_not_run_is_named_in_the_log(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path, config=agents({"key": "value"}, "decrypt"))
    monkeypatch.setattr(logging.getLogger("hypersonic"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("hypersonic"), "handlers", [])
    with caplog.at_level(logging.WARNING, "hypersonic"):
        repository = opened()
        repository.load("m")
    assert ask(repository) == 3.0
    messages = [record.getMessage() for record in caplog.records if "decrypt" in record.getMessage()]
    assert len(messages) == 1
    assert messages[0].startswith("'m' asks for the repository agent 'decrypt', which this server does not have: it is not run")


class Meddling(ShiftBackend):
    """Changes a file of the version while it loads it."""

    def __init__(self, meddle: Callable[[Path], object]) -> None:
        super().__init__(cards=1)
        self._meddle = meddle

    def load(self, directory: Path, config: ModelConfig) -> ShiftModel:
        loaded = super().load(directory, config)
        self._meddle(directory / "shift")
        return loaded


@pytest.mark.parametrize(
    "meddle",
    [lambda path: path.write_text("6"), lambda path: path.unlink(), lambda path: path.with_name("new").replace(path)],
    ids=["written", "gone", "replaced"],
)
def test_a_file_that_is_changed_after_its_checksum_is_not_served(
    tmp_path: Path, opened: Open, meddle: Callable[[Path], object]
) -> None:
    (site(tmp_path, {"MD5:1/shift": md5(b"5")}) / "1" / "new").write_text("5")
    meddling = Meddling(meddle)
    with pytest.raises(InvalidRequestError, match="file 1/shift was changed between its checksum and its use"):
        opened(backend=meddling).load("m")
    assert meddling.cards == 1, "the model that was loaded is still open"


def test_files_are_hashed_once_a_load_and_not_by_every_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []
    real = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *given: (hashed.append(given), real(*given))[1])
    site(tmp_path, {"MD5:1/shift": md5(b"5"), "MD5:./1/shift": md5(b"5")})
    control = ModelControlOptions(ModelControlMode.POLL, poll_s=3600)
    repository = ModelRepository([tmp_path], {"sum": ShiftBackend()}, ScheduledModel, control=control)
    repository.load_all()
    serving: Model = repository.model("m")
    for _ in range(3):
        repository.poll()
    assert len(hashed) == 1
    assert repository.model("m") is serving
    assert repository.close(30)


def test_a_large_file_is_hashed_piece_by_piece(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with (tmp_path / "m" / "weights").open("wb") as file:
        file.truncate(64 * MB)
    message = model_config_pb2.ModelConfig(name="m")
    message.model_repository_agents.agents.add(name="checksum").parameters["MD5:weights"] = md5(bytes(64 * MB))
    (hashed,) = run_agents(message, tmp_path / "m", Links())
    check_unchanged([hashed])
    os.utime(tmp_path / "m" / "weights")
    with pytest.raises(ModelConfigError, match="file weights was changed"):
        check_unchanged([hashed])
