# SPDX-License-Identifier: Apache-2.0
"""Traces of requests that need other models: an ensemble's steps, and what a python model asks another (BLS)."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.app import Server
from tests.server.observe.tracing.otlp import Collector, attributes, collecting
from tests.server.python_models import DOUBLE, FLOATS, source, write_python
from tests.server.python_serving import client_of, serving

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
X = np.arange(6, dtype=np.float32).reshape(2, 3)
#: asks twice, but only one of the two is said to belong to the request
ASK = """
    answers = []
    for request in requests:
        x = pb_utils.get_input_tensor_by_name(request, "x")
        for trace in (None, request.trace()):
            asked = pb_utils.InferenceRequest(
                model_name="double", requested_output_names=["y"], inputs=[x], request_id=request.request_id(), trace=trace)
            answer = asked.exec()
        answers.append(pb_utils.InferenceResponse(answer.output_tensors()))
    return answers
"""
STEP = '{ model_name: "%s" model_version: -1 input_map { key: "x" value: "%s" } output_map { key: "y" value: "%s" } }'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """double: y = 2 x. ask: asks double. chain: double, then ask."""
    models = tmp_path_factory.mktemp("models")
    write_python(models, "double", source(DOUBLE))
    write_python(models, "ask", source(ASK))
    (models / "chain" / "1").mkdir(parents=True)
    steps = ", ".join(STEP % names for names in (("double", "x", "t"), ("ask", "t", "y")))
    (models / "chain" / "config.pbtxt").write_text(f'platform: "ensemble" {FLOATS} ensemble_scheduling {{ step [ {steps} ] }}')
    return models


@contextmanager
def traced(repository: Path, *config: str) -> Iterator[tuple[Server, Collector]]:
    batch = "opentelemetry,bsp_schedule_delay=50"
    with collecting() as collector:
        options = ("mode=opentelemetry", f"opentelemetry,url={collector.url}", "level=TIMESTAMPS", batch, *config)
        with serving(repository, trace_config=options) as server:
            yield server, collector


def tensor(x: np.ndarray) -> triton.InferInput:
    given = triton.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    return given


def over_grpc(server: Server) -> None:
    with client_of(server) as client:
        answer = client.infer("chain", [tensor(X)], request_id="r", headers=HEADERS)
    np.testing.assert_array_equal(answer.as_numpy("y"), 4 * X)


def over_http(server: Server) -> None:
    body = {"id": "r", "inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": X.tolist()}]}
    url = f"http://{server.addresses['HTTPService']}/v2/models/chain/infer"
    request = urllib.request.Request(url, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["outputs"][0]["data"] == (4 * X).ravel().tolist()


@pytest.mark.parametrize("send", [over_grpc, over_http])
def test_each_step_and_each_call_is_a_span_below_what_needs_it(repository: Path, send: Callable[[Server], None]) -> None:
    with traced(repository, "rate=1000") as (server, collector):
        send(server)
        collector.wait_for(lambda c: "InferRequest" in c.names)
        spans = [span for span in collector.spans if span.trace_id.hex() == TRACE_ID]
    assert len(spans) == len(collector.spans)  # what is asked without a trace has none
    by_id = {span.span_id: span for span in spans}
    models = [span for span in spans if span.name in ("chain", "double", "ask")]
    parents = Counter((span.name, by_id[span.parent_span_id].name) for span in models)
    assert parents == {("chain", "InferRequest"): 1, ("double", "chain"): 1, ("ask", "chain"): 1, ("double", "ask"): 1}
    numbers = {attributes(span)["triton.trace_id"]: span.name for span in models}
    assert len(numbers) == 4
    for span in models:
        outer = by_id[span.parent_span_id]
        assert numbers.get(attributes(span)["triton.trace_parent_id"], "InferRequest") == outer.name
        assert outer.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= outer.end_time_unix_nano
        assert attributes(span)["triton.request_id"] == "r"
    (root,) = (span for span in spans if span.name == "InferRequest")
    assert root.parent_span_id.hex() == PARENT_ID
