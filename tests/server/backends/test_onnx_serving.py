# SPDX-License-Identifier: Apache-2.0
"""ONNX models and ensembles of them through a real server: tritonclient over gRPC and HTTP, answers compared with numpy."""

from __future__ import annotations

import queue
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from hypersonic.server.app import Server, Signals
from hypersonic.server.backends.onnxruntime.backend import OnnxRuntimeBackend
from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.core.inference.backend import Backend
from hypersonic.server.options import Options
from tests.server.onnx_graphs import add_sub, graph, identity, node, tensors, write_onnx
from tests.server.onnx_runs import RAGGED, VALUES, ragged_sums, same

N_HITS, N_FEATURES, RADIUS = 24, 4, 1.1
WEIGHTS = np.random.default_rng(0).normal(size=(3, N_FEATURES)).astype(np.float32)

BUILD = f"""
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.edges(pb_utils.get_input_tensor_by_name(r, "embedded").as_numpy()) for r in requests]

    def edges(self, embedded):
        far = np.linalg.norm(embedded[:, None] - embedded[None], axis=-1)
        found = np.stack(np.nonzero(np.triu(far < {RADIUS}, 1))).astype(np.int64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("edges", found)])
"""
ENDS = [
    node("Split", "edges one_one", "from_row to_row", axis=0),
    node("Squeeze", "from_row zero", "from"),
    node("Squeeze", "to_row zero", "to"),
    node("Gather", "embedded from", "a"),
    node("Gather", "embedded to", "b"),
]
CONSTANTS: dict[str, np.ndarray] = {
    "one_one": np.array([1, 1]),
    "zero": np.array([0]),
    "last": np.array([1]),
    "cut": np.array(0, np.float32),
}


def write_tracking(repository: Path) -> None:
    """embedding (onnx) - graph building (python) - filter (onnx) - GNN (onnx), as Exa.TrkX chains them; no batches."""
    hits, embedded = ("hits", "FP32", ("N", 3)), ("embedded", "FP32", ("N", N_FEATURES))
    edges, kept = ("edges", "INT64", (2, "E")), ("kept", "INT64", (2, "F"))
    model = graph([node("MatMul", "hits w", "embedded")], [hits], [embedded], {"w": WEIGHTS})
    config = tensors("input", ("hits", "FP32", [-1, 3])) + tensors("output", ("embedded", "FP32", [-1, N_FEATURES]))
    write_onnx(repository, "embedding", model, config)  # completed, its first dimension would be taken for a batch
    config = tensors("input", ("embedded", "FP32", [-1, N_FEATURES])) + tensors("output", ("edges", "INT64", [2, -1]))
    (repository / "building" / "1").mkdir(parents=True)
    (repository / "building" / "1" / "model.py").write_text(BUILD)
    (repository / "building" / "config.pbtxt").write_text(f'backend: "python"\n{config}')
    product = [*ENDS, node("Mul", "a b", "p"), node("ReduceSum", "p last", "score", keepdims=0)]
    keep = [*product, node("Greater", "score cut", "good"), node("Compress", "edges good", "kept", axis=1)]
    write_onnx(repository, "filter", graph(keep, [embedded, edges], [kept], CONSTANTS), "")
    gnn = [*product, node("Sigmoid", "score", "probability")]
    write_onnx(repository, "gnn", graph(gnn, [embedded, edges], [("probability", "FP32", ("E",))], CONSTANTS), "")
    (repository / "tracking" / "1").mkdir(parents=True)
    (repository / "tracking" / "config.pbtxt").write_text(TRACKING)


TRACKING = textwrap.dedent("""
    platform: "ensemble"
    input [ { name: "HITS" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]
    output [ { name: "EDGES" data_type: TYPE_INT64 dims: [ 2, -1 ] }, { name: "SCORES" data_type: TYPE_FP32 dims: [ -1 ] } ]
    ensemble_scheduling { step [
      { model_name: "embedding" model_version: -1 input_map { key: "hits" value: "HITS" }
        output_map { key: "embedded" value: "embedded" } },
      { model_name: "building" model_version: -1 input_map { key: "embedded" value: "embedded" }
        output_map { key: "edges" value: "candidates" } },
      { model_name: "filter" model_version: -1 input_map { key: "embedded" value: "embedded" }
        input_map { key: "edges" value: "candidates" } output_map { key: "kept" value: "EDGES" } },
      { model_name: "gnn" model_version: -1 input_map { key: "embedded" value: "embedded" }
        input_map { key: "edges" value: "EDGES" } output_map { key: "probability" value: "SCORES" } }
    ] }
    """)


def track(hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chain in numpy: edges and their scores."""
    embedded = hits @ WEIGHTS
    far = np.linalg.norm(embedded[:, None] - embedded[None], axis=-1)
    edges = np.stack(np.nonzero(np.triu(far < RADIUS, 1)))
    products = (embedded[edges[0]] * embedded[edges[1]]).sum(axis=1)
    return edges[:, products > 0], 1 / (1 + np.exp(-products[products > 0]))


TABLE = np.arange(5, dtype=np.float32)
LOOKUP = (
    'platform: "ensemble" max_batch_size: 4\n'
    + tensors("input", ("I", "INT64", [1]))
    + tensors("output", ("V", "FP32", [1]))
    + 'ensemble_scheduling { step [ { model_name: "table" model_version: -1 input_map { key: "x" value: "I" } '
    'output_map { key: "y" value: "V" } } ] }'
)
WARM = "model_warmup [ {{ name: 's' batch_size: 1 inputs {{ key: 'x' value {{ data_type: TYPE_INT64 dims: [ 1 ] {0} }} }} }} ]"


def write_models(repository: Path) -> None:
    write_onnx(repository, "add_sub", add_sub(), "")
    (repository / "add_sub" / "config.pbtxt").write_text('platform: "onnxruntime_onnx"')
    for datatype in VALUES:
        write_onnx(repository, f"identity_{datatype.lower()}", identity(datatype), same(datatype))
    softmax = graph([node("Softmax", "x", "y", axis=-1)], [("x", "FP32", ("N", 3))], [("y", "FP32", ("N", 3))])
    labels = same("FP32").replace('name: "y"', 'label_filename: "labels.txt" name: "y"')
    write_onnx(repository, "classifier", softmax, labels)
    (repository / "classifier" / "labels.txt").write_text("electron\nmuon\njet\n")
    batching = "dynamic_batching { max_queue_delay_microseconds: 20000 preferred_batch_size: 4 }"
    write_onnx(repository, "ragged", ragged_sums(), RAGGED + batching)
    table = graph([node("Gather", "t x", "y")], [("x", "INT64", ("N", 1))], [("y", "FP32", ("N", 1))], {"t": TABLE})
    config = "max_batch_size: 4\n" + tensors("input", ("x", "INT64", [1])) + tensors("output", ("y", "FP32", [1]))
    write_onnx(repository, "table", table, config + WARM.format("random_data: true"))
    write_onnx(repository, "cold", table, config + WARM.format("input_data_file: 'x'"))
    (repository / "cold" / "warmup").mkdir()
    (repository / "cold" / "warmup" / "x").write_bytes(np.int64(99).tobytes())
    (repository / "lookup" / "1").mkdir(parents=True)
    (repository / "lookup" / "config.pbtxt").write_text(LOOKUP)
    write_tracking(repository)


class Clients(NamedTuple):
    grpc: triton.InferenceServerClient
    http: triton_http.InferenceServerClient


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    repository = tmp_path_factory.mktemp("models")
    write_models(repository)
    ports: dict[str, Any] = dict.fromkeys(("grpc_port", "http_port", "metrics_port"), 0)
    addresses: dict[str, Any] = dict.fromkeys(("grpc_address", "http_address"), "127.0.0.1")
    backends: dict[str, Backend] = {"onnxruntime": OnnxRuntimeBackend(), "python": PythonBackend()}
    server = Server(Options((repository,), exit_on_error=False, **ports, **addresses), backends)
    server.load()
    server.start()
    try:
        with (
            triton.InferenceServerClient(server.addresses["GRPCInferenceService"]) as grpc,
            triton_http.InferenceServerClient(server.addresses["HTTPService"], concurrency=4) as http,
        ):
            yield Clients(grpc, http)
    finally:
        server.stop(Signals())


def given(module: Any, **arrays: np.ndarray) -> list[triton.InferInput]:
    inputs = []
    for name, array in arrays.items():
        inputs.append(module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def test_a_model_without_a_config_is_served_by_grpc_and_http(clients: Clients) -> None:
    config = clients.grpc.get_model_config("add_sub").config
    assert (config.backend, config.platform, config.max_batch_size) == ("onnxruntime", "onnxruntime_onnx", 4)
    assert config.default_model_filename == "model.onnx"
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    for client, module in ((clients.grpc, triton), (clients.http, triton_http)):
        result = client.infer("add_sub", given(module, a=a, b=b))
        np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
        np.testing.assert_array_equal(result.as_numpy("difference"), a - b)


@pytest.mark.parametrize("datatype", VALUES)
def test_every_datatype_survives_the_wire(clients: Clients, datatype: str) -> None:
    sent = np.tile(VALUES[datatype].view(ml_dtypes.bfloat16) if datatype == "BF16" else VALUES[datatype], (2, 1))
    for client, module in ((clients.grpc, triton), (clients.http, triton_http)):
        tensor = module.InferInput("x", [2, 3], datatype)
        tensor.set_data_from_numpy(sent)
        np.testing.assert_array_equal(client.infer(f"identity_{datatype.lower()}", [tensor]).as_numpy("y"), sent)


def test_a_classifier_names_its_best_classes(clients: Clients) -> None:
    x = np.array([[0, 5, 1], [9, 0, 0]], np.float32)
    for client, module in ((clients.grpc, triton), (clients.http, triton_http)):
        wanted = [module.InferRequestedOutput("y", class_count=2)]
        got = client.infer("classifier", given(module, x=x), outputs=wanted).as_numpy("y")
        assert [[text.split(b":", 1)[1] for text in row] for row in got] == [[b"1:muon", b"2:jet"], [b"0:electron", b"1:muon"]]


def test_point_clouds_of_many_clients_share_runs(clients: Clients) -> None:
    clouds = [np.full((1, n), n, np.float32) for n in (1, 2, 3, 4) * 4]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda cloud: clients.grpc.infer("ragged", given(triton, x=cloud)).as_numpy("y"), clouds))
    assert [answer.item() for answer in answers] == [float(n * n) for n in (1, 2, 3, 4) * 4]
    (statistics,) = clients.grpc.get_inference_statistics("ragged").model_stats
    assert statistics.inference_stats.success.count == 16
    assert statistics.execution_count < 16


def test_a_tracking_chain_across_backends_agrees_with_numpy(clients: Clients) -> None:
    for seed, count in ((1, N_HITS), (2, 5)):
        hits = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32) / 2
        result = clients.grpc.infer("tracking", given(triton, HITS=hits))
        edges, scores = track(hits)
        np.testing.assert_array_equal(result.as_numpy("EDGES"), edges)
        np.testing.assert_allclose(result.as_numpy("SCORES"), scores, rtol=1e-4)
    names = ("tracking", "embedding", "building", "filter", "gnn")
    counts = {name: clients.grpc.get_inference_statistics(name).model_stats[0].inference_stats.success.count for name in names}
    assert counts == dict.fromkeys(names, 2)


def test_an_ensembles_error_is_its_steps_with_the_ensembles_name(clients: Clients) -> None:
    for client, module in ((clients.grpc, triton), (clients.http, triton_http)):
        with pytest.raises(InferenceServerException) as raised:
            client.infer("lookup", given(module, I=np.array([[99]])), request_id="r")
        assert raised.value.message().startswith("in ensemble 'lookup', onnx runtime error 2: ")


def test_requests_of_one_stream_are_answered_in_order_by_an_ensemble(clients: Clients) -> None:
    answers: queue.SimpleQueue[tuple[Any, object]] = queue.SimpleQueue()
    clients.grpc.start_stream(lambda result, error: answers.put((result, error)))
    try:
        for value in (1, 99, 3):
            clients.grpc.async_stream_infer("lookup", given(triton, I=np.array([[value]])), request_id=str(value))
        got = [answers.get(timeout=60) for _ in range(3)]
    finally:
        clients.grpc.stop_stream()
    assert [result.as_numpy("V").item() if error is None else "error" for result, error in got] == [1.0, "error", 3.0]


def test_a_model_that_fails_its_warm_up_is_unavailable_and_says_why(clients: Clients) -> None:
    (row,) = [row for row in clients.grpc.get_model_repository_index().models if row.name == "cold"]
    assert row.state == "UNAVAILABLE"
    assert "failed to run warmup sample 's': onnx runtime error 2" in row.reason


def test_two_instances_of_one_model_are_made_where_the_config_says_nothing(clients: Clients) -> None:
    (group,) = clients.grpc.get_model_config("add_sub").config.instance_group
    assert (group.name, group.count) == ("add_sub", 2)
