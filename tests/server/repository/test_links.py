# SPDX-License-Identifier: Apache-2.0
"""Symbolic links of a model repository: those of the operator are followed, where he lets them lead; a client brings none."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core import links as links_module
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.core.inference.repository import ModelState
from hypersonic.server.core.links import Links
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import ModelLoadError
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from hypersonic.server.repository.override import Override, OverrideFile, discard, stage
from tests.server.conftest import CONFIG, write_model
from tests.server.onnx_graphs import graph, node
from tests.server.python_models import source
from tests.server.repository.opened_repository import ask, rows, write_shift
from tests.server.shift_backend import ShiftBackend

Open = Callable[..., ModelRepository]
LABELLED = 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 1 ] label_filename: "labels" } ]'


@pytest.fixture
def sums() -> ShiftBackend:
    return ShiftBackend()


@pytest.fixture
def served(tmp_path: Path, sums: ShiftBackend) -> Iterator[Open]:
    """served(mode, roots, models): the repository on tmp_path/models, everything loaded."""
    opened = []

    def start(
        mode: ModelControlMode = ModelControlMode.POLL, roots: tuple[Path, ...] = (), models: Path = tmp_path / "models"
    ) -> ModelRepository:
        control = ModelControlOptions(mode, poll_s=3600, link_roots=roots)
        links = control.links([models])
        backends: dict[str, Backend] = {
            "sum": sums,
            "onnxruntime": OnnxRuntimeBackend(links),
            "python": PythonBackend(links=links),
        }
        opened.append(ModelRepository([models], backends, ScheduledModel, control=control))
        opened[-1].load_all()
        return opened[-1]

    yield start
    for repository in opened:
        assert repository.close(30)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    """The log from information on, whatever another test has made of it."""
    logger = logging.getLogger("hypersonic")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])
    with caplog.at_level(logging.INFO, "hypersonic"):
        yield caplog


def model(directory: Path, shift: object = 5) -> Path:
    """A model that adds `shift`."""
    write_model(directory.parent, directory.name)
    write_shift(directory, 1, shift)
    return directory


def moved(path: Path, to: Path) -> Path:
    """Move `path` to `to`, and put a link to it in its place."""
    to.parent.mkdir(parents=True, exist_ok=True)
    path.rename(to)
    path.symlink_to(to)
    return to


def relative(path: Path, to: Path) -> Path:
    """The same, by a link that goes up."""
    moved(path, to)
    path.unlink()
    path.symlink_to(os.path.relpath(to, path.parent))
    return to


LINKS: dict[str, Callable[[Path, Path], object]] = {
    "a model directory": lambda m, out: moved(m, out / "any-name"),
    "a model directory by a relative link": lambda m, out: relative(m, out / "any-name"),
    "a version directory": lambda m, out: moved(m / "1", out / "v7.1-final"),
    "config.pbtxt": lambda m, out: moved(m / "config.pbtxt", out / "x.txt"),
    "a file of a version": lambda m, out: moved(m / "1" / "shift", out / "blobs" / "111"),
    "a file by a relative link": lambda m, out: relative(m / "1" / "shift", out / "blobs" / "111"),
    "a chain of links": lambda m, out: moved(moved(m / "1" / "shift", out / "a"), out / "b" / "c"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_an_operators_link_is_followed_watched_and_confined_where_he_says_so(
    tmp_path: Path, served: Open, sums: ShiftBackend, logged: pytest.LogCaptureFixture, kind: str
) -> None:
    directory, out = model(tmp_path / "models" / "m"), tmp_path / "out"
    (tmp_path / "other").mkdir()
    LINKS[kind](directory, out)
    repository = served()
    assert ask(repository) == 8.0
    repository.poll()
    assert sums.loads == [("m", "1")], "nothing was changed"
    (directory / "1" / "shift").write_text("17")
    repository.poll()
    assert ask(repository) == 20.0
    assert ask(served(roots=(tmp_path / "other", out))) == 20.0
    [(name, _, state, reason)] = rows(served(roots=(tmp_path / "other",)))
    assert (name, state) == ("m", "UNAVAILABLE")
    assert "leads out of the model repositories and of every --model-link-roots" in reason
    assert str(tmp_path) not in reason
    assert f"leads to {out}" in logged.text


def test_a_repository_may_be_a_link_and_a_link_within_it_needs_no_root(tmp_path: Path, served: Open) -> None:
    directory = model(tmp_path / "real" / "m")
    moved(directory / "1", tmp_path / "real" / ".store" / "one")
    (tmp_path / "models").symlink_to("real")
    (tmp_path / "other").mkdir()
    assert ask(served(roots=(tmp_path / "other",))) == 8.0


def test_the_targets_of_links_are_logged_once_a_load(tmp_path: Path, served: Open, logged: pytest.LogCaptureFixture) -> None:
    directory = model(tmp_path / "models" / "m")
    moved(directory / "1" / "shift", tmp_path / "blob")
    moved(directory / "config.pbtxt", tmp_path / "config")
    served().poll()
    messages = [record.getMessage() for record in logged.records if "symbolic" in record.getMessage()]
    expected = f"m/config.pbtxt -> {tmp_path / 'config'}, m/1/shift -> {tmp_path / 'blob'}"
    assert messages == [f"'m' is read through symbolic links: {expected}"]


@pytest.mark.parametrize("target", ["loop", "nowhere", "..", "/"])
def test_a_link_that_leads_nowhere_or_up_is_harmless_until_it_is_used(tmp_path: Path, served: Open, target: str) -> None:
    directory = model(tmp_path / "models" / "m")
    (directory / "loop").symlink_to(target)
    (directory / "1" / "more").symlink_to("../../../models")
    (tmp_path / "models" / "loop").symlink_to("loop")
    repository = served(ModelControlMode.NONE if target == "/" else ModelControlMode.POLL)
    assert ask(repository) == 8.0


@pytest.mark.parametrize("target", ["labels", "nowhere", "../../models/m/labels"])
def test_a_used_link_that_leads_nowhere_is_its_models_reason(tmp_path: Path, served: Open, target: str) -> None:
    directory = write_model(tmp_path / "models", config=LABELLED)
    (directory / "labels").symlink_to(target)
    [(_, _, state, reason)] = rows(served())
    assert state == "UNAVAILABLE"
    assert re.search(r"m/labels( is a loop|: No such file|: Too many levels of symbolic links)", reason)


@pytest.mark.parametrize("target", ["../gone", "m"])
def test_a_model_that_is_a_link_to_nothing_is_unavailable_with_the_reason(tmp_path: Path, served: Open, target: str) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m").symlink_to(target)
    repository = served(ModelControlMode.NONE)
    (row,) = repository.index()
    assert (row.name, row.state) == ("m", ModelState.UNAVAILABLE)
    assert row.reason
    assert not repository.all_ready


def test_a_model_is_served_on_while_the_target_of_its_link_is_away(tmp_path: Path, served: Open) -> None:
    store = model(tmp_path / "store" / "m")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m").symlink_to(store)
    repository = served()
    before = ask(repository)
    store.rename(tmp_path / "away")
    repository.poll()
    assert ask(repository) == before
    (tmp_path / "away").rename(store)
    repository.poll()
    assert ask(repository) == before
    assert repository.all_ready


def configmap(model_directory: Path, stamp: str, shift: object) -> None:
    """Update a volume as Kubernetes' kubelet does: everything is below `..data`, which one rename exchanges."""
    payload = model_directory / f"..{stamp}"
    (payload / "1").mkdir(parents=True)
    (payload / "config.pbtxt").write_text(CONFIG)
    (payload / "1" / "shift").write_text(str(shift))
    (model_directory / "..data_tmp").symlink_to(payload.name)
    (model_directory / "..data_tmp").rename(model_directory / "..data")
    for name in ("config.pbtxt", "1"):
        if not (model_directory / name).is_symlink():
            (model_directory / name).symlink_to(f"..data/{name}")


@pytest.mark.parametrize("mounted", ["as a model", "as a repository"])
def test_a_volume_of_kubernetes_is_a_model_and_its_exchange_is_noticed(
    tmp_path: Path, served: Open, sums: ShiftBackend, mounted: str
) -> None:
    models = tmp_path / "models"
    volume = models / "m"
    if mounted == "as a repository":  # m -> ..data/m
        volume = models / "..2026_11_22_10" / "m"
        models.mkdir()
        (models / "..data").symlink_to("..2026_11_22_10")
        (models / "m").symlink_to("..data/m")
    configmap(volume, "2026_11_22_10", 5)
    (tmp_path / "other").mkdir()
    repository = served(roots=(tmp_path / "other",))
    assert rows(repository) == [("m", "1", "READY", "")]
    assert ask(repository) == 8.0
    configmap(volume, "2026_11_22_11", 7)
    repository.poll()
    assert ask(repository) == 10.0
    shutil.rmtree(volume / "..2026_11_22_10")
    repository.poll()
    assert sums.loads == [("m", "1")] * 2, "what the kubelet removes is not in use"
    assert rows(repository) == [("m", "1", "READY", "")]


def test_a_link_that_is_changed_between_its_check_and_its_opening_opens_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "models" / "m"
    (home / "real").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for directory in (home / "real", tmp_path / "out"):
        (directory / "file").write_text(directory.name)
    links = Links((tmp_path / "models",), (tmp_path / "models",))
    follow = Links.follow

    def exchanged(change: Callable[[], object]) -> Callable[..., Path]:
        def then(*given: Any) -> Path:
            resolved = follow(*given)
            change()
            return resolved

        return then

    def of_a_directory() -> None:
        shutil.move(home / "real", home / "away")
        (home / "real").symlink_to(tmp_path / "out")

    def of_the_file() -> None:
        (home / "away" / "file").unlink()
        (home / "away" / "file").symlink_to(tmp_path / "out" / "file")

    assert links.read(home / "real" / "file", home, "f", 99) == b"real"
    monkeypatch.setattr(Links, "follow", exchanged(of_a_directory))
    with pytest.raises(ModelLoadError, match="f leads out of the model repositories"):
        links.read(home / "real" / "file", home, "f", 99)
    monkeypatch.setattr(Links, "follow", exchanged(of_the_file))
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        links.read(home / "away" / "file", home, "f", 99)


def test_a_link_that_leads_out_once_the_backend_has_opened_it_is_not_served(
    tmp_path: Path, served: Open, sums: ShiftBackend
) -> None:
    directory = model(tmp_path / "models" / "m")
    (tmp_path / "secret").write_text("9")
    load = sums.load

    def meddling(*given: Any) -> Any:
        (directory / "1" / "shift").unlink()
        (directory / "1" / "shift").symlink_to(tmp_path / "secret")
        return load(*given)

    vars(sums)["load"] = meddling
    [(_, _, state, reason)] = rows(served(roots=(tmp_path / "models",)))
    assert state == "UNAVAILABLE"
    assert "m/1/shift leads out of the model repositories" in reason


def test_what_a_load_request_brought_is_read_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    scratch = stage("m", Override("{}", {OverrideFile("1", "file"): b"data"}))
    try:
        assert not [path for path in scratch.rglob("*") if path.is_symlink()]
        links = Links((tmp_path,))
        assert links.read(scratch / "m" / "1" / "file", scratch / "m", "1/file", 99) == b"data"
        (scratch / "m" / "1" / "link").symlink_to(tmp_path / "secret")
        with pytest.raises(ModelLoadError, match="1/link leads out of the model's directory"):
            links.read(scratch / "m" / "1" / "link", scratch / "m", "1/link", 99)
        with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
            links_module.check_links(scratch / "m", (), links)
    finally:
        discard(scratch)


def external() -> bytes:
    """y = x + w, w in the file w.bin."""
    w = {"w": np.zeros(3, np.float32)}
    model = onnx.load_from_string(graph([node("Add", "x w", "y")], [("x", "FP32", ("N", 3))], [("y", "FP32", ("N", 3))], w))
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="w.bin")
    return model.SerializeToString()


def test_backends_that_open_files_themselves_follow_links_and_are_confined_too(tmp_path: Path, served: Open) -> None:
    """A store of blobs: each file lies under another name, and external data are beside the model by a link of their own."""
    store, models = tmp_path / "store", tmp_path / "models"
    for name, files in {
        "onnx": {"model.onnx": external(), "w.bin": bytes(12)},
        "py": {"model.py": IMPORTING, "part.py": b"K = 2"},
    }.items():
        (models / name / "1").mkdir(parents=True)
        for file, data in files.items():
            (models / name / "1" / file).write_bytes(data)
            moved(models / name / "1" / file, store / f"{name}-{len(file)}")
    (models / "py" / "config.pbtxt").write_text('backend: "python"' + CONFIG.replace('backend: "sum"', ""))
    moved(models / "py" / "1", store / "not-a-version")
    assert [row[:3] for row in rows(served(ModelControlMode.NONE))] == [("onnx", "1", "READY"), ("py", "1", "READY")]
    confined = rows(served(ModelControlMode.NONE, roots=(models,)))
    assert [row[2] for row in confined] == ["UNAVAILABLE"] * 2
    assert all("leads out of the model repositories" in row[3] for row in confined), confined


IMPORTING = source(
    "return []",
    "assert args['model_version'] == '1' and os.path.isfile(args['model_repository'] + '/1/model.py')\nimport part\npart.K",
).encode()
