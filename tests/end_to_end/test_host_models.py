# SPDX-License-Identifier: Apache-2.0
"""Zoo models that hls4ml has no layers for: one command publishes them, the same server answers by its other backends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as triton
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.building.host_models import KernelOptions, OnHostError, build_on_host, find_host_model
from hypersonic.building.model import build
from hypersonic.firmware.errors import PublishError
from hypersonic.firmware.publish.repository import publish_files
from hypersonic.hls.frontend.description import DescriptionError, find_model, read_zoo_yaml
from hypersonic.hls.zoo.deeptau import events as taus
from hypersonic.hls.zoo.particlenet import events as jets
from hypersonic.server_process import start_server

NAMES = ("particlenet", "deeptau", "deeptau_ensemble")
SCORES = "main_output/Softmax"
Arrays = Mapping[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build one model with the command and the others with the function behind it."""
    place = tmp_path_factory.mktemp("models")
    argv = [sys.executable, "-m", "hypersonic.cli", "build", NAMES[0], "--model-repository", str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(place / "particlenet" / "1")
    reason = "hls4ml has no layers for the nearest neighbours of a point (TopK, Gather, ReduceMean)"
    line = f"particlenet runs on the host's processors, in the server's backend onnxruntime: {reason}"
    assert line in done.stderr.splitlines()
    for name in NAMES[1:]:
        assert build(name, repository=place) == place / name / "1"
    return place


@pytest.fixture(scope="module")
def client(repository: Path) -> Iterator[triton.InferenceServerClient]:
    with start_server(repository) as server, triton.InferenceServerClient(server.grpc) as client:
        yield client


def ask(client: triton.InferenceServerClient, model: str, inputs: Arrays, output: str, classes: int = 0) -> Any:
    given = [triton.InferInput(k, list(v.shape), "INT64" if v.dtype == np.int64 else "FP32") for k, v in inputs.items()]
    for tensor, values in zip(given, inputs.values(), strict=True):
        tensor.set_data_from_numpy(np.ascontiguousarray(values))
    return client.infer(model, given, outputs=[triton.InferRequestedOutput(output, class_count=classes)]).as_numpy(output)


@pytest.mark.parametrize(
    ("model", "sample", "output"), [("particlenet", jets.generate(30, 3), "softmax"), ("deeptau", taus.generate(30, 3), SCORES)]
)
def test_answers_are_onnxruntimes_own(
    repository: Path, client: triton.InferenceServerClient, model: str, sample: jets.Jets | taus.Taus, output: str
) -> None:
    own = onnxruntime.InferenceSession(repository / model / "1" / "model.onnx", providers=["CPUExecutionProvider"])
    for first, count in ((0, 1), (0, 7), (7, 23), (0, 30)):
        inputs = sample.inputs(first, count)
        np.testing.assert_array_equal(ask(client, model, inputs, output), own.run([output], inputs)[0])


def test_jets_of_different_sizes_at_once_and_their_labels(client: triton.InferenceServerClient) -> None:
    clouds = [jets.generate(2, seed, candidates=20 + seed % 3, vertices=3).inputs() for seed in range(12)]
    alone = [ask(client, "particlenet", cloud, "softmax") for cloud in clouds]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda cloud: ask(client, "particlenet", cloud, "softmax"), clouds))
    # float32: the server may batch these requests, and ONNX Runtime's sums then round differently
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)
    best = ask(client, "particlenet", clouds[0], "softmax", classes=1)
    assert (
        best[0, 0].decode().split(":")[2]
        == ("probb", "probbb", "probc", "probcc", "probuds", "probg", "probundef", "probpu")[int(alone[0][0].argmax())]
    )


def as_lists(sample: taus.Taus) -> dict[str, np.ndarray[Any, Any]]:
    lists: dict[str, np.ndarray[Any, Any]] = {"input_tau": sample.input_tau}
    for grid in ("inner", "outer"):
        cells, places = taus.cells_of(sample, grid)
        lists |= {**cells, f"input_{grid}_pos": places}
    return lists


def test_cells_sent_as_lists_give_what_whole_grids_give(client: triton.InferenceServerClient) -> None:
    for count in (1, 9):
        sample = taus.generate(count, 3)
        lists = as_lists(sample)
        whole = ask(client, "deeptau", sample.inputs(), SCORES)
        # float32: the ensemble evaluates the cells as one batch instead of a grid, which may round differently
        np.testing.assert_allclose(ask(client, "deeptau_ensemble", lists, SCORES), whole, rtol=1e-4)
        sizes = [sum(values.nbytes for values in sent.values()) for sent in (lists, sample.inputs())]
        assert sizes[0] < 0.1 * sizes[1]


def test_places_outside_the_grids_are_one_clients_error(client: triton.InferenceServerClient) -> None:
    lists = as_lists(taus.generate(2, 3))
    for place, words in (
        ([0, 21, 0], r"expected 0 to below \(2, 21, 21\)"),
        ([-1, 0, 0], "places reach from"),
        ([2, 0, 0], "reach"),
    ):
        outside = lists["input_outer_pos"].copy()
        outside[0] = place
        with pytest.raises(InferenceServerException, match=words):
            ask(client, "deeptau_ensemble", {**lists, "input_outer_pos": outside}, SCORES)
    with pytest.raises(InferenceServerException, match="expected one cell more, the empty one, as the last"):
        ask(client, "deeptau_ensemble", {**lists, "input_outer_pos": lists["input_outer_pos"][1:]}, SCORES)
    assert ask(client, "deeptau_ensemble", lists, SCORES).shape == (2, 4)


# ---- the build -----------------------------------------------------------------------------------------------------------


def on_host(model: str, repository: Path, **asked: Any) -> Path | None:
    host_model = find_host_model(model, read_zoo_yaml(model))
    return build_on_host(host_model, repository, KernelOptions(**asked), lambda _: None) if host_model else None


def test_the_same_build_is_published_once_and_a_changed_file_anew(tmp_path: Path) -> None:
    assert on_host("particlenet", tmp_path) == on_host("particlenet", tmp_path) == tmp_path / "particlenet" / "1"
    (tmp_path / "particlenet" / "1" / "model.onnx").write_bytes(b"another")
    assert on_host("particlenet", tmp_path) == tmp_path / "particlenet" / "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["particlenet"]


def test_what_only_a_kernel_has_is_refused(tmp_path: Path) -> None:
    for asked, option in (
        ({"target": "hw"}, "--target hw"),
        ({"platform": "u55c"}, "--platform u55c"),
        ({"core": "rf"}, "--core rf"),
        ({"compute_units": 2}, "--compute-units 2"),
        ({"datatypes": ("FP16", "")}, "--input-datatype FP16"),
        ({"datatypes": ("", "INT8")}, "--output-datatype INT8"),
        ({"name": "another"}, "--name another"),
    ):
        with pytest.raises(OnHostError, match=rf"particlenet runs on the host.* there is no kernel for {option}: leave it out"):
            on_host("particlenet", tmp_path, **asked)
    assert not list(tmp_path.iterdir())


def test_a_model_with_a_kernel_is_not_replaced(tmp_path: Path) -> None:
    publish_files(tmp_path, "particlenet", {"model.xclbin": b"x"}, {"config.pbtxt": b"kept"})
    with pytest.raises(PublishError, match=r"version 1 has model.xclbin, the new build model.onnx"):
        on_host("particlenet", tmp_path)
    assert (tmp_path / "particlenet" / "config.pbtxt").read_text() == "kept"


def test_without_the_build_extra_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnx.helper", None)
    with pytest.raises(OnHostError, match=r"package onnx, which is not installed: pip install '\.\[build\]'"):
        on_host("particlenet", tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_names_are_other_builds(tmp_path: Path) -> None:
    for name in ("facile", "nosuch", "../zoo", "", "particlenet/repository", str(tmp_path / "model.h5")):
        assert find_host_model(name, read_zoo_yaml(name)) is None


@pytest.mark.parametrize("name", NAMES)
def test_whoever_wants_a_kernel_of_it_is_told_there_is_none(name: str) -> None:
    with pytest.raises(DescriptionError, match=rf"{name} has no kernel: .*backend .* runs it on the host"):
        find_model(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_a_zoo_repository_is_named_as_its_directory(name: str) -> None:
    host_model = find_host_model(name, read_zoo_yaml(name))
    assert host_model
    assert host_model.name == name
    models = {path.name for path in host_model.repository.iterdir()}
    assert {name, *host_model.networks} <= models
    for model in models:
        config = text_format.Parse((host_model.repository / model / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
        assert config.name == model


def test_events_are_made_without_the_packages_of_either_side() -> None:
    modules = [f"hypersonic.hls.zoo.{name}.events" for name in ("particlenet", "deeptau")]
    code = f"import sys, {', '.join(modules)}; print(sorted({{'onnx', 'tensorflow', 'onnxruntime'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
