# SPDX-License-Identifier: Apache-2.0
"""Backend python, one instance at a time: what models get and what they answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.backends.python.backend import PythonBackend
from hypersonic.server.errors import (
    BackendError,
    InstanceLostError,
    NotFoundError,
    UnknownError,
)
from hypersonic.server.statistics.exposition import render
from tests.server.python_models import (
    DOUBLE,
    FLOATS,
    WORDS,
    loaded,
    mark,
    parameters,
    source,
    wanted,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_requests_of_a_run_come_to_execute_together_and_each_gets_its_answer(tmp_path: Path) -> None:
    code = source("return [y(2 * x_of(request) + len(requests)) for request in requests]")
    with loaded(tmp_path, code) as model:
        for got, x in zip(model.run(X, X[:1] + 5), (X, X[:1] + 5), strict=True):
            np.testing.assert_array_equal(got, 2 * x + 2)


def test_a_run_larger_than_the_memory_so_far_gets_more(tmp_path: Path) -> None:
    config = WORDS.replace("TYPE_STRING", "TYPE_FP32").replace("dims: [ 1 ]", "dims: [ -1 ]")
    with loaded(tmp_path, source("return [y(np.repeat(x_of(request), 3)) for request in requests]"), config) as model:
        for n in (3, 1_000_000, 7):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(model.run(x)[0], np.repeat(x, 3))


def test_a_run_beyond_shm_max_bytes_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    config = WORDS.replace("TYPE_STRING", "TYPE_FP32").replace("dims: [ 1 ]", "dims: [ -1 ]")
    config += 'parameters { key: "shm_max_bytes" value { string_value: "100000" } }'
    with loaded(tmp_path, source("return [y(np.repeat(x_of(request), 3)) for request in requests]"), config) as model:
        with pytest.raises(BackendError, match="the outputs need 240000 bytes, more than shm_max_bytes"):
            model.run(np.zeros(20_000, np.float32))
        with pytest.raises(BackendError, match="more than shm_max_bytes"):
            model.run(np.zeros(30_000, np.float32))
        np.testing.assert_array_equal(model.run(X[0])[0], np.repeat(X[0], 3))


def test_arrays_that_a_model_keeps_are_not_overwritten_by_later_runs(tmp_path: Path) -> None:
    code = source(
        "self.kept += [x_of(request) for request in requests]\nreturn [y(np.sum(self.kept, axis=0)) for _ in requests]",
        "self.kept = []",
    )
    with loaded(tmp_path, code) as model:
        for n in range(1, 5):
            np.testing.assert_array_equal(model.run(X * n)[0], X * (n * (n + 1) // 2))


def test_inputs_may_be_changed_in_place(tmp_path: Path) -> None:
    code = source("for request in requests:\n    x_of(request)[:] *= 2\nreturn [y(x_of(request)) for request in requests]")
    with loaded(tmp_path, code) as model:
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "UINT64", "INT16", "INT64", "FP16", "FP64"])
def test_each_datatype_goes_through_the_process_and_back(tmp_path: Path, datatype: str) -> None:
    config = FLOATS.replace("FP32", datatype)
    with loaded(tmp_path, source("return [y(x_of(request)) for request in requests]"), config) as model:
        dtype = {"BOOL": np.bool_, "FP16": np.float16, "FP64": np.float64}.get(datatype) or np.dtype(datatype.lower())
        x = np.array([[0, 1, 5]]).astype(dtype)
        got = model.run(x)[0]
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, x)


def test_strings_are_arrays_of_bytes_in_the_model(tmp_path: Path) -> None:
    config = FLOATS.replace("FP32", "STRING")
    code = source("return [y(np.array([[s + b'!' for s in x_of(request)[0]]], np.object_)) for request in requests]")
    with loaded(tmp_path, code, config) as model:
        x = np.array([[b"", "é".encode(), b"\0\xff"]], np.object_)
        np.testing.assert_array_equal(model.run(x)[0], x + b"!")


def test_objects_and_text_become_strings_as_in_triton(tmp_path: Path) -> None:
    config = WORDS.replace("dims: [ 1 ]", "dims: [ -1 ]")
    code = source("return [y(np.array([1, 2.5, 'é', b'\\xff', None], np.object_)) for _ in requests]")
    with loaded(tmp_path, code, config) as model:
        assert model.run(X[0])[0].tolist() == [b"1", b"2.5", "é".encode(), b"\xff", b"None"]


def test_an_optional_input_left_out_is_not_there(tmp_path: Path) -> None:
    config = WORDS + 'input [ { name: "o" data_type: TYPE_FP32 dims: [ 3 ] optional: true } ]'
    with loaded(tmp_path, source("return [text([t.name() for t in r.inputs()]) for r in requests]"), config) as model:
        assert model.run(X[0])[0].tolist() == [b"['x']"]


def test_a_reshape_is_the_models_matter_alone(tmp_path: Path) -> None:
    config = FLOATS.replace("dims: [ 3 ]", "dims: [ 3 ] reshape { shape: [ 3, 1 ] }")
    code = source("assert x_of(requests[0]).shape == (2, 3, 1)\n" + DOUBLE)
    with loaded(tmp_path, code, config) as model:
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_requests_tell_what_the_client_sent(tmp_path: Path) -> None:
    text = (
        "(r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.priority(), r.parameters(), r.requested_output_names(),"
        " r.model_name(), r.model_version(), r.is_cancelled(), [(t.name(), t.shape(), t.triton_dtype(), t.is_cpu()) for t in"
        " r.inputs()])"
    )
    with loaded(tmp_path, source(f"return [text({text}) for r in requests]"), WORDS) as model:
        model.start(
            model.share(
                X[0], id="é", timeout_us=7, priority=2, sequence=mark("s", start=True, end=True), outputs=wanted("y"),
                parameters=parameters(a=1, b=True),
            )
        )  # fmt: skip
        (got,) = model.finish()
        assert got["y"][0].decode() == (
            "('é', 's', 3, 7, 2, '{\"a\":1,\"b\":true}', ['y'], 'm', 1, False, [('x', [3], 11, True)])"
        )


def test_a_request_reads_as_cancelled_once_nobody_waits_for_it(tmp_path: Path) -> None:
    code = source("while not requests[0].is_cancelled(): time.sleep(0.01)\n" + DOUBLE)
    with loaded(tmp_path, code) as model:
        share = model.share(X)
        model.start(share)
        share.pending.cancelled = True
        np.testing.assert_array_equal(model.finish()[0]["y"], 2 * X)


def test_only_the_outputs_asked_for_are_answered(tmp_path: Path) -> None:
    config = FLOATS + 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 3 ] } ]'
    answer = "pb_utils.InferenceResponse([pb_utils.Tensor(n, x_of(r)) for n in ('z', 'nobody', 'y')])"
    with loaded(tmp_path, source(f"return [{answer} for r in requests]"), config) as model:
        model.start(model.share(X), model.share(X, outputs=wanted("z")))
        both, one = model.finish()
        assert (set(both), set(one)) == ({"y", "z"}, {"z"})


COUNTS = (
    "Number of InferenceResponse objects do not match the number of InferenceRequest objects. InferenceRequest(s) size is:2, "
    "and InferenceResponse(s) size is:0\n"
)


@pytest.mark.parametrize(
    ("execute", "text"),
    [
        ("raise ValueError('boom é')", "ValueError: boom é\n\nAt:\n  m/1/model.py(21): execute\n"),
        ("sys.exit(3)", "SystemExit: 3\n\nAt:\n  m/1/model.py(21): execute\n"),
        ("return 5", "Expected a list in the execute return, found type '<class 'int'>'."),
        (
            "return [5, 5]",
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'.",
        ),
        (
            "return []",
            COUNTS,
        ),
    ],
)
def test_a_run_that_fails_says_why_in_tritons_words(tmp_path: Path, execute: str, text: str) -> None:
    with loaded(tmp_path, source(execute)) as model:
        for _ in range(2):
            with pytest.raises(BackendError) as failed:
                model.run(X, X)
            assert not isinstance(failed.value, InstanceLostError)
            assert str(failed.value) == f"Failed to process the request(s) for model 'm_0', message: {text}"


def test_an_error_is_its_requests_alone_and_keeps_its_code(tmp_path: Path) -> None:
    code = source("""
        def answer(request):
            code = int(x_of(request)[0, 0])
            if code < 0:
                return y(x_of(request))
            kind = type(pb_utils.TritonError.UNKNOWN)(code)
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"code {code}", kind))
        return [answer(request) for request in requests]
        """)
    with loaded(tmp_path, code) as model:
        model.start(*(model.share(np.full((1, 3), value, np.float32)) for value in (2, -1, 0, 1)))
        slot = model.instance.slots[0]
        slot.finish()
        with pytest.raises(NotFoundError, match="code 2"):
            slot.answer(0)
        np.testing.assert_array_equal(model.arrays(slot.answer(1))["y"], np.full((1, 3), -1))
        with pytest.raises(UnknownError, match="code 0"):
            slot.answer(2)
        with pytest.raises(BackendError, match="code 1"):
            slot.answer(3)


def test_an_answer_that_cannot_be_written_is_its_requests_alone(tmp_path: Path) -> None:
    code = source("t = pb_utils.Tensor('y', np.ones(3))\nreturn [pb_utils.InferenceResponse([t, t]), y(np.ones(3))]")
    with loaded(tmp_path, code) as model:
        model.start(model.share(X), model.share(X))
        slot = model.instance.slots[0]
        slot.finish()
        with pytest.raises(BackendError, match="the response has an output twice"):
            slot.answer(0)
        np.testing.assert_array_equal(model.arrays(slot.answer(1))["y"], np.ones(3))


def test_response_parameters_reach_the_answer(tmp_path: Path) -> None:
    code = source("return [pb_utils.InferenceResponse([], parameters={'a': 1, 'b': 'é', 'c': True}) for _ in requests]")
    with loaded(tmp_path, code) as model:
        model.start(model.share(X))
        slot = model.instance.slots[0]
        slot.finish()
        assert slot.answer(0).parameters == {"a": 1, "b": "é", "c": True}


def test_metrics_of_a_model_are_prometheus_text(tmp_path: Path) -> None:
    backend = PythonBackend()
    code = source(
        "self.m.increment(len(requests))\nself.g.set(-1.5)\n" + DOUBLE,
        """
        family = pb_utils.MetricFamily(name="my_requests", description="What I\\nserved", kind=pb_utils.MetricFamily.COUNTER)
        self.m = family.Metric(labels={"model": 'a"b'})
        self.g = pb_utils.MetricFamily("my_level", "Level", pb_utils.MetricFamily.GAUGE).Metric()
        for wrong in (
            lambda: self.m.set(1), lambda: self.m.increment(-1), lambda: self.m.observe(1), lambda: self.g.set(float("nan")),
            lambda: pb_utils.MetricFamily("nv_mine", "", pb_utils.MetricFamily.GAUGE),
            lambda: pb_utils.MetricFamily("my_requests", "", pb_utils.MetricFamily.GAUGE),
        ):
            try:
                wrong()
                raise AssertionError
            except pb_utils.TritonModelException:
                pass
        """,
    )
    with loaded(tmp_path, code, backend=backend) as model:
        model.run(X, X)
        assert render(backend.metrics.families()) == (
            "# HELP my_level Level\n# TYPE my_level gauge\nmy_level -1.5\n"
            '# HELP my_requests What I served\n# TYPE my_requests counter\nmy_requests{model="a\\"b"} 2\n'
        )


def test_a_model_that_asks_another_one_hears_that_there_is_none(tmp_path: Path) -> None:
    code = source("""
        x = pb_utils.Tensor("x", np.ones(3))
        request = pb_utils.InferenceRequest(model_name="n", requested_output_names=["y"], inputs=[x])
        return [text(request.exec().error().message()) for _ in requests]
        """)
    with loaded(tmp_path, code, WORDS) as model:
        assert model.run(X[0])[0][0] == b"this server does not let models call other models"
