# SPDX-License-Identifier: Apache-2.0
"""Backend python behind the real server: what tritonclient sees, whatever becomes of models and their processes."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.server.python_models import DECOUPLED, DOUBLE, FLOATS, WORDS, source, write_python
from tests.server.python_serving import client_of, infer, serving, streamed, tensor
from tests.support.processes import alive
from tests.support.server_program import program
from tests.support.waiting import wait_until

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_request_that_fails_in_a_shared_run_fails_alone(tmp_path: Path) -> None:
    code = source("""
        return [
            pb_utils.InferenceResponse(error=pb_utils.TritonError(f"negative, one of {len(requests)}"))
            if x_of(request)[0, 0] < 0 else y(2 * x_of(request))
            for request in requests
        ]
        """)
    write_python(tmp_path, "m", code, FLOATS + "dynamic_batching { max_queue_delay_microseconds: 10000000 }")
    with serving(tmp_path) as server, client_of(server) as client, ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(infer, client, x) for x in (X, 2 * X, -1 - X, 3 * X)]
        np.testing.assert_array_equal(runs[0].result(60), 2 * X)
        np.testing.assert_array_equal(runs[1].result(60), 4 * X)
        np.testing.assert_array_equal(runs[3].result(60), 6 * X)
        with pytest.raises(InferenceServerException, match="negative, one of 4"):
            runs[2].result(60)
        stats = client.get_inference_statistics("m").model_stats[0]
        assert (stats.execution_count, stats.inference_stats.success.count, stats.inference_stats.fail.count) == (1, 3, 1)


def test_clients_notice_nothing_when_a_process_is_killed_in_mid_run(tmp_path: Path) -> None:
    """The first run with a mark in it waits until its process is killed; every other one answers, also with the mark."""
    flag = tmp_path / "running"
    code = source(f"""
        if any(x_of(request)[0, 0] == 7 for request in requests) and not os.path.exists({str(flag)!r}):
            with open({str(flag)!r} + ".new", "w") as file:
                file.write(str(os.getpid()))
            os.rename({str(flag)!r} + ".new", {str(flag)!r})
            time.sleep(600)
        return [y(2 * x_of(request)) for request in requests]
        """)
    write_python(tmp_path / "models", "m", code, FLOATS + "instance_group [ { count: 2 kind: KIND_CPU } ]")
    with serving(tmp_path / "models") as server, client_of(server) as client, ThreadPoolExecutor(8) as pool:
        marked = pool.submit(infer, client, X + 7)
        wait_until(flag.exists)
        others = [pool.submit(infer, client, X + 100 + n) for n in range(40)]
        os.kill(int(flag.read_text()), signal.SIGKILL)
        for n, other in enumerate(others):
            np.testing.assert_array_equal(other.result(60), 2 * (X + 100 + n))
        np.testing.assert_array_equal(marked.result(60), 2 * (X + 7))
        assert client.is_server_ready()
        figures = server.repository.model("m").figures
        wait_until(lambda: sum(each.revived for each in figures.values()) == 1)
        assert all(each.in_service for each in figures.values())


def test_a_request_that_kills_each_process_it_meets_fails_and_the_model_stays(tmp_path: Path) -> None:
    write_python(tmp_path, "m", source("if x_of(requests[0])[0, 0] < 0: os._exit(1)\n" + DOUBLE))
    with serving(tmp_path) as server, client_of(server) as client:
        with pytest.raises(InferenceServerException, match=r"Stub process 'm_0' is not healthy\.") as failed:
            infer(client, -1 - X)
        assert failed.value.status() == "StatusCode.INTERNAL"
        np.testing.assert_array_equal(infer(client, X), 2 * X)


def test_errors_carry_their_code_and_the_models_text(tmp_path: Path) -> None:
    code = source("""
        kinds = {1: pb_utils.TritonError.NOT_FOUND, 2: pb_utils.TritonError.UNKNOWN, 3: pb_utils.TritonError.CANCELLED}
        error = pb_utils.TritonError("text", kinds[int(x_of(requests[0])[0, 0])])
        return [pb_utils.InferenceResponse(error=error) for _ in requests]
        """)
    write_python(tmp_path, "m", code)
    with serving(tmp_path) as server, client_of(server) as client:
        for number, name in ((1, "NOT_FOUND"), (2, "UNKNOWN"), (3, "CANCELLED"), (9, "INTERNAL")):
            with pytest.raises(InferenceServerException) as failed:
                infer(client, np.full((1, 3), number, np.float32))
            assert failed.value.status() == f"StatusCode.{name}"
            wanted = "text" if number < 9 else "Failed to process the request(s) for model 'm_0', message: KeyError: 9\n\nAt:\n"
            assert failed.value.message().startswith(wanted)


def test_a_decoupled_model_streams(tmp_path: Path) -> None:
    code = source("""
        def answer(request, sender):
            for value in x_of(request):
                sender.send(y(np.array([value])))
            sender.send(flags=FINAL)
        for request in requests:
            if x_of(request)[0] < 0:
                request.get_response_sender().send(y(x_of(request)))
                raise ValueError("negative")
            threading.Thread(target=answer, args=(request, request.get_response_sender())).start()
        """)
    write_python(tmp_path, "m", code, DECOUPLED)
    with serving(tmp_path) as server, ThreadPoolExecutor(4) as pool:
        ask = partial(streamed, server)
        for n, answers in enumerate(pool.map(ask, (np.arange(n, n + 5, dtype=np.float32) for n in range(4)))):
            assert answers == [[value] for value in range(n, n + 5)]
        first, error = ask(np.full(2, -1, np.float32))
        assert first == [-1, -1]
        assert error.startswith("Failed to process the request(s) for model 'm_0', message: ValueError: negative\n\nAt:\n")
        assert ask(np.ones(1, np.float32)) == [[1]]


def test_a_stream_whose_process_dies_ends_with_tritons_words(tmp_path: Path) -> None:
    code = source(
        "self.kept = requests\nrequests[0].get_response_sender().send(y(np.array([os.getpid()], np.float32)))\nos._exit(1)"
    )
    write_python(tmp_path, "m", code, DECOUPLED)
    with serving(tmp_path) as server:
        assert streamed(server, X[0])[-1] == "Stub process 'm_0' is not healthy."


def test_a_sequence_keeps_its_state_in_the_models_process_and_in_the_server(tmp_path: Path) -> None:
    code = source("""
        def answer(request):
            start, kept = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("START", "kept"))
            total = x_of(request) + (0 if start[0, 0] else kept)
            self.seen[request.correlation_id()] = self.seen.get(request.correlation_id(), 0) + 1
            names = ("y", "count", "keep")
            values = (total, np.array([[self.seen[request.correlation_id()]]], np.float32), total)
            return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in zip(names, values)])
        return [answer(request) for request in requests]
        """, "self.seen = {}")  # fmt: skip
    config = (
        FLOATS
        + 'output [ { name: "count" data_type: TYPE_FP32 dims: [ 1 ] } ]'
        + """
        sequence_batching {
          control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
          state [ { input_name: "kept" output_name: "keep" data_type: TYPE_FP32 dims: [ 3 ] } ]
        }
        """
    )
    write_python(tmp_path, "m", code, config)
    with serving(tmp_path) as server, client_of(server) as client:
        for n in range(1, 4):
            for sequence in (5, 6):
                answer = client.infer(
                    "m", [tensor(X[:1] * sequence)], sequence_id=sequence, sequence_start=n == 1, sequence_end=n == 3
                )
                np.testing.assert_array_equal(answer.as_numpy("y"), n * X[:1] * sequence)
                assert answer.as_numpy("count")[0, 0] == n


ASK = """
def told(model, x, decoupled=False, **more):
    request = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["y"], inputs=[pb_utils.Tensor("x", x)], **more)
    said = request.exec(decoupled=decoupled)
    return [of(each) for each in said] if decoupled else of(said)

def of(response):
    if response.has_error():
        return response.error().message()
    return [tensor.as_numpy().tolist() for tensor in response.output_tensors()]
"""


NOT_READY = (
    "Model nobody - Error when running inference: Failed for execute the inference request. Model 'nobody' is not ready."
)
SHAPE = "Model double - Error when running inference: unexpected shape for input 'x' for model 'double'. Expected [-1,3], got "
PLAIN = "Model repeat - Error when running inference: Model repeat is using the decoupled. The current BLS request call doesn't"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("told('double', np.ones((2, 3), np.float32), request_id='r', timeout=100000, parameters={'a': 1})", [[[2.0] * 3] * 2]),
        ("told('nobody', np.ones((2, 3), np.float32))", NOT_READY),
        ("told('double', np.ones((2, 4), np.float32))", SHAPE),
        ("told('repeat', np.arange(2, dtype=np.float32), decoupled=True)", [[[0.0]], [[1.0]], []]),
        ("told('double', np.ones((1, 3), np.float32), decoupled=True)", [[[[2.0] * 3]]]),
        ("told('repeat', np.arange(2, dtype=np.float32))", PLAIN),
        ("told('fails', np.ones((1, 3), np.float32))", "mine"),
    ],
)
def test_a_model_asks_another_model_of_the_server(tmp_path: Path, question: str, answer: str | list[object]) -> None:
    write_python(tmp_path, "m", ASK + source(f"return [text(json.dumps({question})) for _ in requests]"), WORDS)
    write_python(tmp_path, "double", source(DOUBLE))
    failing = "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('mine')) for _ in requests]"
    write_python(tmp_path, "fails", source(failing))
    repeat = "s = requests[0].get_response_sender()\nfor v in x_of(requests[0]): s.send(y(np.array([v])))\ns.send(flags=FINAL)"
    write_python(tmp_path, "repeat", source(repeat), DECOUPLED)
    with serving(tmp_path) as server, client_of(server) as client:
        answers = json.loads(infer(client, X[0])[0])
        assert (answers[: len(answer)] if isinstance(answer, str) else answers) == answer


def test_a_model_asks_several_models_at_a_time(tmp_path: Path) -> None:
    code = ASK + source("""
        import asyncio
        x = [pb_utils.Tensor("x", np.full((1, 3), n, np.float32)) for n in range(5)]
        asked = [pb_utils.InferenceRequest(model_name="double", requested_output_names=["y"], inputs=[each]) for each in x]
        answers = await asyncio.gather(*(each.async_exec() for each in asked))
        return [text([of(answer)[0][0][0] for answer in answers]) for _ in requests]
        """).replace("def execute", "async def execute")
    write_python(tmp_path, "m", code, WORDS)
    write_python(tmp_path, "double", source(DOUBLE))
    with serving(tmp_path) as server, client_of(server) as client:
        assert infer(client, X[0])[0] == b"[0.0, 2.0, 4.0, 6.0, 8.0]"


def test_a_model_without_a_configuration_completes_it_and_shows_its_metrics(tmp_path: Path) -> None:
    completion = """
        @staticmethod
        def auto_complete_config(config):
            for add, name in ((config.add_input, "x"), (config.add_output, "y")):
                add({"name": name, "data_type": "TYPE_FP32", "dims": [3]})
            config.set_max_batch_size(4)
            return config
        """
    initialize = 'self.m = pb_utils.MetricFamily("my_requests", "Mine", pb_utils.MetricFamily.COUNTER).Metric({"a": "b"})'
    directory = write_python(tmp_path, "m", source("self.m.increment(1)\n" + DOUBLE, initialize, completion), "")
    (directory.parent / "config.pbtxt").unlink()
    with serving(tmp_path) as server, client_of(server) as client:
        np.testing.assert_array_equal(infer(client, X), 2 * X)
        assert client.get_model_config("m").config.default_model_filename == "model.py"
        with urllib.request.urlopen(f"http://{server.addresses['Metrics Service']}/metrics", timeout=60) as answer:
            assert '\nmy_requests{a="b"} 1\n' in answer.read().decode()


def test_a_model_that_does_not_load_says_why_in_the_index(tmp_path: Path) -> None:
    write_python(tmp_path, "bad", source(DOUBLE, "raise ValueError('no é')"))
    write_python(tmp_path, "good", source(DOUBLE))
    with serving(tmp_path) as server, client_of(server) as client:
        rows = {model.name: (model.state, model.reason) for model in client.get_model_repository_index().models}
        assert rows["good"] == ("READY", "")
        assert rows["bad"] == ("UNAVAILABLE", "Internal: ValueError: no é\n\nAt:\n  bad/1/model.py(19): initialize\n")
        np.testing.assert_array_equal(infer(client, X, "good"), 2 * X)


NOTE = """
with open({path!r} + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename({path!r} + ".new", {path!r})
"""
WAIT = """
while not os.path.exists({path!r} + ".go"):
    time.sleep(0.01)
"""


def test_no_process_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    write_python(tmp_path / "models", "m", source(DOUBLE, NOTE.format(path=str(pid))))
    with program("--model-repository", str(tmp_path / "models")) as server:
        process = int(pid.read_text())
        assert alive(process)
        server.process.kill()
        server.process.wait(60)
        server.wait_for(lambda: not alive(process))


def test_signals_to_the_whole_group_leave_models_alive_until_the_server_has_drained(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    write_python(
        tmp_path / "models",
        "m",
        source((NOTE + WAIT).format(path=str(pid)) + DOUBLE, more="def finalize(self):\n    print('bye')\n"),
    )
    with program("--model-repository", str(tmp_path / "models")) as server, ThreadPoolExecutor(1) as pool:
        with triton.InferenceServerClient(server.grpc) as client:
            asked = pool.submit(infer, client, X)
            server.wait_for(pid.exists)
            os.kill(int(pid.read_text()), signal.SIGINT)
            os.kill(int(pid.read_text()), signal.SIGTERM)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: "Signal (15) received" in server.log)
            (tmp_path / "pid.go").touch()
            np.testing.assert_array_equal(asked.result(60), 2 * X)
        assert server.process.wait(60) == 0
        assert "m_0: bye" in server.log
