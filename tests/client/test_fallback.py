# SPDX-License-Identifier: Apache-2.0
"""The user's fallback: when it answers, and how its outputs are checked."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from hypersonic.client import AnswerError, Client, Fallback, SameServer, Settings
from tests.support.scripted_server import Script, fail

X = np.arange(80, dtype=np.float32).reshape(20, 4)


def test_the_fallback_answers_when_no_server_does_and_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings().updated(retry=(SameServer(1), Fallback(lambda inputs: {"y": inputs["x"] * 2})))
    with Client("127.0.0.1:9", settings) as client, caplog.at_level("WARNING", "hypersonic"):
        model = client.model("double")
        np.testing.assert_array_equal(model.infer({"x": X}), 2 * X)
        assert model.submit({"x": X}).result().server == "fallback"
        statistics = client.statistics()
    assert (statistics.fallback, statistics.fallback_share) == (2, 1.0)
    assert sum("is computed by the fallback" in record.message for record in caplog.records) == 1


def test_a_failure_of_the_fallback_is_the_callers(address: str, script: Script) -> None:
    script.infer = fail(grpc.StatusCode.UNAVAILABLE)

    def broken(_inputs: Any) -> Any:
        raise ZeroDivisionError("mine")

    with Client(address, retry=(Fallback(broken),)) as client:
        with pytest.raises(ZeroDivisionError, match="mine"):
            client.model("double").infer(X[:1])
        with pytest.raises(ZeroDivisionError, match="mine"):
            client.model("double").submit(X[:1]).result()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "returned NoneType, expected a dict of arrays by output name"),
        (np.ones((1, 4)), "returned ndarray, expected a dict"),
        ({"energy": np.ones((1, 4))}, "returned the outputs 'energy', expected 'y'"),
        ({}, "returned no outputs, expected 'y'"),
        ({"y": np.ones((3, 4))}, r"returned output 'y' of shape \(3, 4\), expected \(1, 4\)"),
        ({"y": np.ones(4)}, r"returned output 'y' of shape \(4,\), expected \(1, 4\)"),
        ({"y": np.array([["a"] * 4])}, "returned output 'y', which is of dtype <U1, expected float32, for FP32"),
        ({"y": [[1, 2], [3]]}, "returned output 'y', which is not an array"),
    ],
)
def test_answers_of_the_fallback_are_checked_like_a_servers(address: str, script: Script, answer: Any, words: str) -> None:
    with Client(address, retry=(Fallback(lambda _inputs: answer),)) as client:
        model = client.model("double")
        assert model.spec
        script.infer = fail(grpc.StatusCode.UNAVAILABLE)
        with pytest.raises(AnswerError, match=f"the fallback of model 'double' {words}"):
            model.infer(X[:1])


def test_outputs_of_the_fallback_have_the_models_names_and_dtypes(address: str, script: Script) -> None:
    def answer(inputs: Any) -> Any:
        return {"unused": 1, "y": (2 * inputs["x"].astype(np.float64)).tolist()}

    with Client(address, retry=(Fallback(answer),)) as client:
        model = client.model("double")
        assert model.spec
        script.infer = fail(grpc.StatusCode.UNAVAILABLE)
        outputs = model.result(X).outputs
        assert (list(outputs), outputs["y"].dtype.name, outputs["y"].flags.writeable) == (["y"], "float32", False)
        np.testing.assert_array_equal(model.infer(X), 2 * X)


def test_a_fallback_of_an_undescribed_model_returns_a_dict() -> None:
    fallback: Any = Fallback(lambda _inputs: None)  # type: ignore[arg-type, return-value]
    with (
        Client("127.0.0.1:9", retry=fallback) as client,
        pytest.raises(AnswerError, match="returned NoneType, expected a dict"),
    ):
        client.model("double").infer({"x": X})


def test_a_call_that_servers_and_the_fallback_answer_in_parts_names_both(address: str, script: Script) -> None:
    def infer(request: Any, context: grpc.ServicerContext) -> None:
        if np.frombuffer(request.raw_input_contents[0], "<f4")[0] == 0:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not these rows")

    script.infer = infer
    with Client(address, retry=(Fallback(lambda inputs: {"y": 2 * inputs["x"]}),)) as client:
        result = client.model("double").result(X)
    assert (result.server, result.version) == (f"fallback, {address}", "1")
    np.testing.assert_array_equal(result.output, 2 * X)
