# SPDX-License-Identifier: Apache-2.0
"""Model control, further: what clients send with a load, and replacement under load."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hypersonic.server.errors import (
    InvalidRequestError,
    ModelLoadError,
)
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.repository.override import OverridePolicy
from tests.server.conftest import write_model
from tests.server.repository.opened_repository import CONFIG, Open, ask, rows, write_shift
from tests.server.shift_backend import ShiftBackend
from tests.support.waiting import wait_until


def scratch_of(repository: ModelRepository, name: str) -> Path:
    plan = repository._registry.entry(name).plan
    assert plan is not None
    assert plan.scratch is not None
    return plan.scratch


def _with(parameter: str, value: str) -> str:
    return json.dumps(json.loads(CONFIG) | {"parameters": {parameter: {"string_value": value}}})


def test_files_over_the_network_live_in_a_private_directory_as_long_as_the_model(tmp_path: Path, opened: Open) -> None:
    repository = opened()
    repository.load("n", {"config": CONFIG, "file:1/shift": b"5", "file:3/shift": b"7"})
    assert ask(repository, name="n") == 10.0
    scratch = scratch_of(repository, "n")
    assert scratch.stat().st_mode & 0o77 == 0
    assert sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*") if path.is_file()) == ["n/1/shift", "n/3/shift"]
    assert list(tmp_path.iterdir()) == []
    repository.unload("n")
    wait_until(lambda: not scratch.exists())
    wait_until(lambda: rows(repository) == [])


def test_a_load_from_the_repository_ends_an_override(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path)
    repository = opened()
    repository.load("m", {"config": CONFIG, "file:1/shift": b"5"})
    scratch = scratch_of(repository, "m")
    repository.load("m")
    assert ask(repository) == 3.0
    wait_until(lambda: not scratch.exists())


@pytest.mark.parametrize(
    ("parameters", "kind", "text"),
    [
        ({"foo": "x"}, InvalidRequestError, "unrecognized load parameter 'foo'."),
        ({"config": 4}, InvalidRequestError, "invalid value type for load parameter 'config', expected string_param."),
        ({"config": None}, InvalidRequestError, "invalid value type for load parameter 'config', expected string_param."),
        (
            {"config": CONFIG, "file:1/shift": "5"},
            InvalidRequestError,
            "invalid value type for load parameter 'file:1/shift', expected bytes_param.",
        ),
        ({"file:1/shift": b"5"}, InvalidRequestError, "'config' must be specified for model file override"),
        ({"config": "{"}, ModelLoadError, "failed to load 'm', failed to poll from model repository: Invalid config override"),
        ({"config": '{"foo": 1}'}, ModelLoadError, "Invalid config override: .*foo"),
        ({"config": '{"name": "other"}'}, ModelLoadError, "unexpected directory name 'm' for model 'other'"),
        ({"config": CONFIG, "file:1/shift": b"much"}, InvalidRequestError, "Internal: m/1/shift: 'much' is not a number"),
        (
            {"config": CONFIG, "file:1/big": b"0" * 101},
            InvalidRequestError,
            "has 1 files of 101 bytes together, expected at most 256 files of 100 bytes together",
        ),
        ({"config": CONFIG, "file:1/model.xclbin": b""}, InvalidRequestError, "an xclbin drives the card's DMA"),
        ({"config": CONFIG, "file:1/MODEL.XCLBIN": b""}, InvalidRequestError, "an xclbin drives the card's DMA"),
        (
            {"config": CONFIG.replace("sum", "fpga"), "file:1/other": b""},
            InvalidRequestError,
            "an xclbin drives the card's DMA",
        ),
        ({"config": CONFIG.replace("sum", "python"), "file:1/other": b""}, InvalidRequestError, "--allow-python-override=true"),
        (
            {"config": CONFIG.replace('"backend": "sum",', ""), "file:1/model.py": b""},
            InvalidRequestError,
            "python code is not accepted",
        ),
        ({"config": _with("fallback_backend", "python"), "file:1/x": b""}, InvalidRequestError, "python code is not accepted"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_and_what_serves_goes_on(
    tmp_path: Path, opened: Open, parameters: dict[str, bytes | str], kind: type[Exception], text: str
) -> None:
    write_model(tmp_path)
    repository = opened(ModelControlOptions(ModelControlMode.EXPLICIT, override=OverridePolicy(limit_bytes=100)))
    repository.load("m")
    before = repository.model("m")
    with pytest.raises(kind, match=text) as caught:
        repository.load("m", parameters)
    assert "hypersonic-model-" not in str(caught.value)
    assert repository.model("m") is before


@pytest.mark.parametrize(
    "key",
    [
        "file:",
        "file:shift",
        "file:1/",
        "file:1/../shift",
        "file:../1/shift",
        "file:/etc/passwd",
        "file:1//shift",
        "file:1/a/shift",
        "file:0/shift",
        "file:01/shift",
        "file:-1/shift",
        "file:x/shift",
        "file:1\\shift",
        "file:1/shift\0",
        "file:1/.shift",
        "file:1/..",
        "file: 1/shift",
        "file:1/" + "s" * 200,
        "file:" + "A" * 256,
        "file:config.pbtxt",
    ],
)
def test_a_file_goes_nowhere_but_into_a_version(opened: Open, key: str) -> None:
    repository = opened()
    text = r"^failed to load 'n', failed to poll from model repository: Invalid file path: invalid load parameter 'file:"
    with pytest.raises(ModelLoadError, match=text):
        repository.load("n", {"config": CONFIG, key: b"5"})
    assert rows(repository) == []


@pytest.mark.parametrize("name", ["a b", "a\nb", "\x1b[2J", ".hidden", "-x", "\u00fc", "n" * 129, "a:b", "a\u2028b", "\ud800"])
@pytest.mark.parametrize("files", [{}, {"file:1/shift": b"5"}])
def test_what_a_client_brings_has_a_name_that_a_directory_could_have(
    tmp_path: Path, opened: Open, name: str, files: dict[str, bytes]
) -> None:
    if len(os.fsencode(name.encode(errors="surrogatepass"))) < 256:
        write_model(tmp_path).rename(tmp_path / os.fsdecode(name.encode(errors="surrogatepass")))
    repository = opened()
    before = rows(repository)
    with pytest.raises(InvalidRequestError, match="expected a name of at most 128 letters, digits") as refused:
        repository.load(name, {"config": CONFIG, **files})
    assert refused.value.text.isprintable()
    assert len(refused.value.text) < 300
    assert rows(repository) == before


@pytest.mark.parametrize("name", ["n" * 128, "9_a.b-c", "_"])
def test_a_client_may_bring_a_model_of_any_name_that_a_directory_could_have(opened: Open, name: str) -> None:
    repository = opened()
    repository.load(name, {"config": CONFIG, "file:1/shift": b"5"})
    assert ask(repository, name=name) == 8.0


def test_an_operator_may_allow_files_for_cards(opened: Open) -> None:
    repository = opened(ModelControlOptions(ModelControlMode.EXPLICIT, override=OverridePolicy(allow_xclbin=True)))
    repository.load("n", {"config": CONFIG.replace("sum", "fpga"), "file:1/model.xclbin": b"x"})
    assert ask(repository, name="n") == 3.0


def test_a_backend_completes_what_config_pbtxt_leaves_out(tmp_path: Path, opened: Open) -> None:
    (write_model(tmp_path) / "config.pbtxt").write_text('backend: "sum"')
    repository = opened()
    repository.load("m")
    assert ask(repository) == 3.0
    strict = opened(ModelControlOptions(ModelControlMode.EXPLICIT, complete_config=False))
    with pytest.raises(InvalidRequestError, match="model 'm' has 0 inputs"):
        strict.load("m")


def test_without_a_config_pbtxt_the_version_tells_the_backend(tmp_path: Path, opened: Open) -> None:
    directory = write_model(tmp_path)
    (directory / "config.pbtxt").unlink()
    (directory / "1" / "model.xclbin").touch()
    repository = opened()
    repository.load("m")
    assert repository.model("m").config.backend == "fpga"
    with pytest.raises(ModelLoadError, match=r"failed to read m/config\.pbtxt: No such file"):
        opened(ModelControlOptions(ModelControlMode.EXPLICIT, complete_config=False)).load("m")


def test_where_only_one_fits_the_old_version_goes_first_and_requests_wait(tmp_path: Path, opened: Open) -> None:
    directory = write_model(tmp_path)
    backend = ShiftBackend(cards=1)
    repository = opened(backend=backend)
    repository.load("m")
    write_shift(directory, 2, 10)
    backend.gates["m"] = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        load = pool.submit(repository.load, "m")
        wait_until(lambda: [row[2] for row in rows(repository)] == ["READY"])  # it tries beside the old one first
        backend.gates["m"].set()
        answers = [pool.submit(ask, repository).result(30) for _ in range(50)]
        load.result(30)
    assert set(answers) <= {3.0, 13.0}
    assert ask(repository) == 13.0
    assert rows(repository) == [("m", "2", "READY", "")]


def test_where_only_one_fits_a_failure_brings_the_old_version_back(tmp_path: Path, opened: Open) -> None:
    directory = write_model(tmp_path)
    repository = opened(backend=ShiftBackend(cards=1))
    repository.load("m")
    write_shift(directory, 2, 10)
    (directory / "2" / "refused").touch()
    with pytest.raises(InvalidRequestError, match="version 2 is at UNAVAILABLE state: Internal: the card refuses it;"):
        repository.load("m")
    assert ask(repository) == 3.0
    [(_, version, state, reason)] = rows(repository)
    assert (version, state, "the card refuses it" in reason) == ("1", "READY", True)


def test_of_two_versions_for_one_card_one_is_served(tmp_path: Path, opened: Open) -> None:
    write_shift(write_model(tmp_path, config="version_policy { all { } }"), 2, 10)
    repository = opened(backend=ShiftBackend(cards=1))
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="version 2 is at UNAVAILABLE state: Internal: the card is taken;"):
            repository.load("m")
        assert ask(repository) == 3.0


def test_a_card_another_model_holds_is_that_models(tmp_path: Path, opened: Open) -> None:
    write_model(tmp_path, "a")
    write_model(tmp_path, "b")
    repository = opened(backend=ShiftBackend(cards=1))
    repository.load("a")
    with pytest.raises(InvalidRequestError, match="version 1 is at UNAVAILABLE state: Internal: the card is taken;"):
        repository.load("b")
    assert ask(repository, name="a") == 3.0


@pytest.mark.parametrize("cards", [None, 1])
def test_no_request_fails_while_versions_replace_each_other_under_load(tmp_path: Path, opened: Open, cards: int | None) -> None:
    directory = write_model(tmp_path)
    repository = opened(backend=ShiftBackend(cards=cards))
    repository.load("m")
    ended, answers = threading.Event(), [set[float]() for _ in range(8)]

    def send(seen: set[float]) -> None:
        while not ended.is_set():
            seen.add(ask(repository))

    with ThreadPoolExecutor(8) as pool:
        senders = [pool.submit(send, seen) for seen in answers]
        for version in range(2, 7):
            write_shift(directory, version, version * 10)
            repository.load("m")
            wait_until(lambda v=version: any(3.0 + v * 10 in seen for seen in answers))
        ended.set()
        for sender in senders:
            sender.result(30)
    assert set.union(*answers) <= {3.0, *(3.0 + version * 10 for version in range(2, 7))}
    assert ask(repository) == 63.0
