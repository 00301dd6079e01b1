# SPDX-License-Identifier: Apache-2.0
"""Whatever one model's directory does is that model's reason in the index: at start, under poll control, on a load request."""

from __future__ import annotations

import json
import os
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tritonclient.grpc import model_config_pb2

from hypersonic.server.backends.fpga.backend import FpgaBackend
from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.core.inference.repository import IndexEntry, ModelState
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.errors import ServerError
from hypersonic.server.repository import layout
from hypersonic.server.repository.control_mode import ModelControlMode, ModelControlOptions
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import CONFIG, N_IN, Script, Serve, SumBackend, tensor, write_model
from tests.server.questions import serving
from tests.server.repository.opened_repository import ask
from tests.support.waiting import wait_until

Odd = Callable[[Path], object]
_INT64 = 2**63 - 1


def config(text: str, *, alone: bool = False) -> Odd:
    """A model `odd` whose config.pbtxt has this text, after CONFIG or alone."""

    def write(repository: Path) -> None:
        (write_model(repository, "odd") / "config.pbtxt").write_text(text if alone else CONFIG + text)

    return write


def in_place_of(name: str, make: Callable[[Path], object], text: str = "") -> Odd:
    """A model `odd` where `make` makes what bears that name."""

    def write(repository: Path) -> None:
        directory = write_model(repository, "odd", text)
        if (directory / name).is_dir():
            (directory / name).rmdir()
        (directory / name).unlink(missing_ok=True)
        make(directory / name)

    return write


def backend(name: str, file: str, make: Callable[[Path], object], more: str = "") -> Odd:
    """A model `odd` of another backend, where `make` makes that file of its version."""

    def write(repository: Path) -> None:
        directory = write_model(repository, "odd")
        (directory / "config.pbtxt").write_text(CONFIG.replace('"sum"', f'"{name}"') + more)
        make(directory / "1" / file)

    return write


def named(name: bytes) -> Odd:
    return lambda repository: write_model(repository, "odd").rename(repository / os.fsdecode(name))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


#: that many bytes of a config.pbtxt are not read
HUGE = "# " + "x" * (1 << 20)
ODD: dict[str, Odd] = {
    "a name that is not UTF-8": named(b"odd\xff\xfe"),
    "a name with a line end": named(b"odd\nERROR: forged"),
    "a name with an escape character": named(b"odd\x1b[2J"),
    "a name of 255 bytes": named(b"o" * 255),
    "a symlink loop at config.pbtxt": in_place_of("config.pbtxt", loop),
    "a dangling link at config.pbtxt": in_place_of("config.pbtxt", lambda path: path.symlink_to("nowhere")),
    "a FIFO at config.pbtxt": in_place_of("config.pbtxt", os.mkfifo),
    "a directory at config.pbtxt": in_place_of("config.pbtxt", Path.mkdir),
    "a device at config.pbtxt": in_place_of("config.pbtxt", lambda path: path.symlink_to("/dev/zero")),
    "config.pbtxt that is not UTF-8": in_place_of("config.pbtxt", lambda path: path.write_bytes(b'name: "\xff"')),
    "an endless config.pbtxt": config(HUGE, alone=True),
    "an empty config.pbtxt": config("", alone=True),
    "deep nesting": config("dynamic_batching {" * 5000, alone=True),
    "a NUL in default_model_filename": config(r'default_model_filename: "a\000b"'),
    "a NUL in default_model_filename of python": backend("python", "a", Path.touch, r'default_model_filename: "a\000b"'),
    "a NUL in default_model_filename of onnxruntime": backend(
        "onnxruntime", "a", Path.touch, r'default_model_filename: "a\000"'
    ),
    "a default_model_filename of 5000 characters": backend(
        "onnxruntime", "a", Path.touch, f'default_model_filename: "{"a" * 5000}"'
    ),
    "a loop at model.onnx": backend("onnxruntime", "model.onnx", loop),
    "a FIFO at model.onnx": backend("onnxruntime", "model.onnx", os.mkfifo),
    "a FIFO at model.py": backend("python", "model.py", os.mkfifo),
    "a loop at model.py": backend("python", "model.py", loop),
    "a FIFO beside model.py": backend("python", "more.py", os.mkfifo),
    "a FIFO at manifest.json": backend("fpga", "manifest.json", os.mkfifo),
    "a loop at manifest.json": backend("fpga", "manifest.json", loop),
    "a FIFO at a label file": in_place_of(
        "labels", os.mkfifo, 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 1 ] label_filename: "labels" } ]'
    ),
    "a loop at a label file": in_place_of(
        "labels", loop, 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 1 ] label_filename: "labels" } ]'
    ),
    "a version directory that is a file": in_place_of("1", Path.touch),
    "a version directory that is a loop": in_place_of("1", loop),
    "versions 0, 007, -1 and 2 to the 70": in_place_of(
        "1", lambda path: [(path.parent / name).mkdir() for name in ("0", "007", "-1", str(2**70))]
    ),
    "data_type: 32": config('input [ { name: "z" data_type: 32 dims: [ 1 ] } ]'),
    "a data_type that no integer holds": config('input [ { name: "z" data_type: 99999999999999999999 dims: [ 1 ] } ]'),
    "an unknown kind of an instance": config("instance_group [ { kind: 77 } ]"),
    "a version that no directory has": config(f"version_policy {{ specific {{ versions: [ {_INT64}, -5 ] }} }}"),
}


def open_repository(directory: Path, mode: ModelControlMode = ModelControlMode.NONE, poll_s: float = 3600) -> ModelRepository:
    ours: dict[str, Backend] = {"python": PythonBackend(), "onnxruntime": OnnxRuntimeBackend(), "fpga": FpgaBackend()}
    repository = ModelRepository(
        [directory], {"sum": SumBackend(Script()), **ours}, ScheduledModel, control=ModelControlOptions(mode, poll_s=poll_s)
    )
    repository.load_all()
    return repository


def odd_rows(repository: ModelRepository) -> list[IndexEntry]:
    """The index but for model `m`; all of it can travel."""
    rows = repository.index()
    for row in rows:
        assert row.name.isprintable()
        row.reason.encode()
    return [row for row in rows if row.name != "m"]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_directory_is_its_own_models_reason_in_every_control_mode(odd: str, tmp_path: Path) -> None:
    models = tmp_path / "models"
    write_model(models)
    ODD[odd](models)
    at_start = open_repository(models)
    (row,) = odd_rows(at_start)
    assert row.state is ModelState.UNAVAILABLE
    assert row.reason
    assert str(tmp_path) not in row.reason
    assert ask(at_start) == 3.0
    assert at_start.close(30)

    explicit = open_repository(models, ModelControlMode.EXPLICIT)
    for row in odd_rows(explicit):
        with pytest.raises(ServerError):
            explicit.load(row.name)
    explicit.load("m")
    assert ask(explicit) == 3.0
    assert explicit.close(30)

    polled = open_repository(models, ModelControlMode.POLL)
    (polled_row,) = odd_rows(polled)
    assert (polled_row.name, polled_row.reason) == (row.name, at_start.index()[-1].reason or polled_row.reason)
    write_model(models, "late")
    polled.poll()
    assert ask(polled, name="late") == ask(polled) == 3.0
    assert polled.close(30)


def test_all_odd_directories_together_are_in_the_index_over_grpc_and_http(serve: Serve, tmp_path: Path) -> None:
    models = tmp_path / "models"
    write_model(models)
    for number, odd in enumerate(ODD):
        apart = tmp_path / str(number) / "models"
        apart.mkdir(parents=True)
        ODD[odd](apart)
        (directory,) = apart.iterdir()
        directory.rename(models / directory.name.replace("odd", f"odd{number}"))
    with serve(repository=models, strict_readiness=False) as running:
        with triton.InferenceServerClient(running.grpc) as client:
            by_grpc = {model.name: model.reason for model in client.get_model_repository_index().models}
            assert len(by_grpc) == len(ODD) + 1
            assert client.is_server_ready()
        with urllib.request.urlopen(urllib.request.Request(f"{running.http}/v2/repository/index", method="POST")) as answer:
            by_http = {row["name"]: row.get("reason", "") for row in json.load(answer)}
        assert by_http == by_grpc
        assert running.infer(np.ones((1, N_IN), np.float32)).tolist() == [[3.0]]


def test_every_enum_field_of_a_configuration_refuses_a_number_it_does_not_know(tmp_path: Path) -> None:
    asked = 0
    for asked, text in enumerate(enum_texts(model_config_pb2.ModelConfig.DESCRIPTOR), 1):
        write_model(tmp_path, f"m{asked}", config=text)
    repository = open_repository(tmp_path)
    rows = repository.index()
    assert asked > 10
    assert len(rows) == asked
    for row in rows:
        assert row.state is ModelState.UNAVAILABLE, row
        assert "is 77" in row.reason, row
    assert repository.close(30)


def enum_texts(descriptor: Descriptor) -> Iterator[str]:
    """A configuration's text with 77 in it, for every enum field below a message."""
    for field in descriptor.fields:
        if field.enum_type is not None:
            yield f"{field.name}: 77"
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for text in enum_texts(value.message_type) if value.message_type else ():
                shown = '"k"' if key.type == FieldDescriptor.TYPE_STRING else "1"
                yield f"{field.name} {{ key: {shown} value {{ {text} }} }}"
        elif field.message_type is not None:
            yield from (f"{field.name} {{ {text} }}" for text in enum_texts(field.message_type))


def test_the_poller_outlives_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path)
    looks = []

    def fail(repositories: Any) -> Any:
        looks.append(repositories)
        if len(looks) < 4:
            raise RuntimeError("a fault of ours")
        return layout.find_models(repositories)

    repository = open_repository(tmp_path, ModelControlMode.POLL, poll_s=0.01)
    monkeypatch.setattr("hypersonic.server.repository.models.find_models", fail)
    write_model(tmp_path, "late")
    wait_until(lambda: "late" in repository)
    assert repository.close(30)


def test_a_model_that_vanishes_while_it_is_read_is_looked_at_again(tmp_path: Path) -> None:
    models = tmp_path / "models"
    write_model(models)
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            write_model(models, "odd")
            shutil.rmtree(models / "odd")

    restless = threading.Thread(target=come_and_go)
    repository = open_repository(models, ModelControlMode.POLL)
    restless.start()
    try:
        for _ in range(50):
            repository.poll()
            odd_rows(repository)
    finally:
        stop.set()
        restless.join()
    write_model(models, "odd")
    repository.poll()
    assert ask(repository, name="odd") == ask(repository) == 3.0
    assert repository.close(30)


def test_one_repository_that_is_away_does_not_stop_the_others(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_model(one, "a")
    write_model(two, "b")
    control = ModelControlOptions(ModelControlMode.POLL, poll_s=3600)
    repository = ModelRepository([one, two], {"sum": SumBackend(Script())}, ScheduledModel, control=control)
    repository.load_all()
    one.rename(tmp_path / "away")
    write_model(two, "c")
    repository.poll()
    assert ask(repository, name="a") == ask(repository, name="c") == 3.0
    shutil.rmtree(two / "b")
    (tmp_path / "away").rename(one)
    repository.poll()
    wait_until(lambda: "b" not in repository)
    assert "a" in repository
    assert repository.close(30)


@pytest.mark.parametrize("count", [2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1])
def test_integers_at_their_limits_load_or_are_refused_and_what_loads_answers(count: int, tmp_path: Path) -> None:
    queue = f"default_timeout_microseconds: {count} allow_timeout_override: true"
    texts = [
        f"dynamic_batching {{ max_queue_delay_microseconds: {count} preferred_batch_size: 1 }}",
        f"dynamic_batching {{ default_queue_policy {{ {queue} }} }}",
        f"dynamic_batching {{ priority_levels: {count} default_priority_level: 1 }}",
        f"sequence_batching {{ max_sequence_idle_microseconds: {count} }}",
        f"sequence_batching {{ oldest {{ max_candidate_sequences: 4 max_queue_delay_microseconds: {count} }} }}",
        f"instance_group [ {{ count: {min(count, 2**31 - 1)} }} ]",
        f"version_policy {{ latest {{ num_versions: {min(count, 2**32 - 1)} }} }}",
    ]
    for number, text in enumerate(texts):
        write_model(tmp_path, f"m{number}", config=text)
    given = tensor(np.ones((1, N_IN), np.float32))
    with serving(tmp_path, strict_readiness=False) as running, triton.InferenceServerClient(running.grpc) as client:
        for row in client.get_model_repository_index().models:
            assert row.state == "READY" or row.reason
            more = {"sequence_id": 1, "sequence_start": True, "sequence_end": True} if row.name in ("m3", "m4") else {}
            if row.state == "READY":
                assert client.infer(row.name, [given], client_timeout=20, **more).as_numpy("y").tolist() == [[3.0]]
