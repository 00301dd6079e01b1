# SPDX-License-Identifier: Apache-2.0
"""Servers whose answers do not fit the model: no wrong row reaches the caller, and no event is lost if one server is right."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2

from hypersonic.client import (
    AllServersFailedError,
    AnswerError,
    AsyncClient,
    Client,
    Fallback,
    Health,
    InputError,
    OtherServer,
    Rectangular,
    RequestError,
    StreamError,
    WrongAnswersError,
)
from hypersonic.client.batches import as_inputs, together
from hypersonic.client.fit import fitted, fitted_in_stream
from hypersonic.client.messages.response import Answer
from hypersonic.client.specs import ModelSpec, TensorSpec
from tests.support.scripted_server import Script, fail, scripted_server
from tests.support.waiting import wait_until

X = np.arange(80, dtype=np.float32).reshape(20, 4)
QUICK = Health(first_s=0.05, longest_s=0.1)


def fewer_rows(_request: Any, answer: Any) -> None:
    """Drop the last row, as a model does that filters rows."""
    rows, columns = answer.outputs[0].shape
    answer.outputs[0].shape[0] = rows - 1
    answer.raw_output_contents[0] = answer.raw_output_contents[0][: (rows - 1) * columns * 4]


def more_rows(_request: Any, answer: Any) -> None:
    """Repeat the first row."""
    columns = answer.outputs[0].shape[1]
    answer.outputs[0].shape[0] += 1
    answer.raw_output_contents[0] += answer.raw_output_contents[0][: columns * 4]


def other_name(_request: Any, answer: Any) -> None:
    """Rename the output."""
    answer.outputs[0].name = "z"


def other_datatype(_request: Any, answer: Any) -> None:
    """Send FP64 for FP32."""
    values = np.frombuffer(answer.raw_output_contents[0], "<f4").astype("<f8")
    answer.outputs[0].datatype = "FP64"
    answer.raw_output_contents[0] = values.tobytes()


def bfloat16(_request: Any, answer: Any) -> None:
    """Send BF16, which is float32 in numpy too."""
    answer.outputs[0].datatype = "BF16"
    answer.raw_output_contents[0] = answer.raw_output_contents[0][::2]


def other_shape(_request: Any, answer: Any) -> None:
    """Send the columns as another axis."""
    answer.outputs[0].shape.insert(1, 1)


def twice(_request: Any, answer: Any) -> None:
    """Send the output twice."""
    answer.outputs.add().CopyFrom(answer.outputs[0])
    answer.raw_output_contents.append(answer.raw_output_contents[0])


def other_model(_request: Any, answer: Any) -> None:
    """Name another model."""
    answer.model_name = "treble"


def no_bytes(_request: Any, answer: Any) -> None:
    """Leave out the bytes."""
    del answer.raw_output_contents[:]


DAMAGES = {
    fewer_rows: r"output 'y' of shape \(0, 4\), expected \(1, 4\)",
    more_rows: r"output 'y' of shape \(2, 4\), expected \(1, 4\)",
    other_name: "the outputs 'z', expected 'y'",
    other_datatype: "output 'y' of datatype FP64, expected FP32",
    bfloat16: "output 'y' of datatype BF16, expected FP32",
    other_shape: r"output 'y' of shape \(1, 1, 4\), expected \(1, 4\)",
    twice: "output 'y' twice",
    other_model: "the model name 'treble', expected 'double'",
    no_bytes: "no bytes for output 'y'",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_answer_is_a_failed_attempt_and_another_server_answers(damage: Callable[[Any, Any], None]) -> None:
    wrong = Script(damage=damage)
    with scripted_server(wrong) as bad, scripted_server(Script()) as good, Client([bad, good]) as client:
        model = client.model("double")
        assert model.spec.name == "double"
        wait_until(lambda: all(server.state == "up" for server in client.statistics().servers))  # both get requests
        results = list(model.map(X[n : n + 1] for n in range(20)))
        statistics = {one.server: one for one in client.statistics().servers}
    for n, result in enumerate(results):
        np.testing.assert_array_equal(result.output, 2 * X[n : n + 1])
    assert {result.server for result in results} == {good}
    assert statistics[bad].failed == wrong.calls["ModelInfer"] > 0
    assert statistics[bad].state.startswith("up; no requests for double: wrong answer: "), "the server itself is well"


@pytest.mark.parametrize(("damage", "words"), DAMAGES.items())
@pytest.mark.parametrize("call", ["result", "submit"])
def test_when_all_servers_are_wrong_the_error_names_server_output_got_and_expected(
    damage: Callable[[Any, Any], None], words: str, call: str
) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(scripted_server(Script(damage=damage))) for _ in range(2)]
        used: list[object] = []
        client = stack.enter_context(Client(servers, retry=[OtherServer(), Fallback(lambda inputs: used.append(inputs) or {})]))
        model = client.model("double")
        with pytest.raises(WrongAnswersError, match=words) as error:
            _ = model.result(X[:1]) if call == "result" else model.submit(X[:1]).result()
        assert isinstance(error.value, AnswerError)
        assert {attempt.server for attempt in error.value.attempts} == set(servers)
        assert not used, "a fallback must not hide that all servers are wrong"
        with pytest.raises(WrongAnswersError):
            model.infer(X[:1])


def test_a_fallback_answers_when_one_server_is_wrong_and_the_other_is_dead() -> None:
    dead = Script(infer=fail(grpc.StatusCode.UNAVAILABLE))
    with scripted_server(Script(damage=fewer_rows)) as bad, scripted_server(dead) as other:
        fallback = Fallback(lambda inputs: {"y": 2 * inputs["x"]})
        with Client([bad, other], retry=[OtherServer(4), fallback]) as client:
            np.testing.assert_array_equal(client.model("double").infer(X[:3]), 2 * X[:3])
        with Client([bad, other], retry=OtherServer(2)) as client, pytest.raises(AllServersFailedError, match="no server gave"):
            client.model("double").infer(X[:3])


def test_a_server_that_is_wrong_now_and_then_ends_no_map(script: Script, address: str) -> None:
    rng = random.Random(1)
    script.damage = lambda request, answer: rng.random() < 0.02 and fewer_rows(request, answer)
    with ExitStack() as stack:
        second, third = (stack.enter_context(scripted_server(Script())) for _ in range(2))
        client = stack.enter_context(Client([address, second, third], health=QUICK))
        results = list(client.model("double").map((X[n % 20 : n % 20 + 1] for n in range(1000)), ordered=False))
        failed = {one.server: one.failed for one in client.statistics().servers}
    assert sorted(result.index for result in results) == list(range(1000))
    for result in results:
        np.testing.assert_array_equal(result.output, 2 * X[result.index % 20][None])
    assert failed[address] > 0, "the server was wrong at least once, and used again"
    assert failed[second] == failed[third] == 0


def test_the_server_is_left_out_for_that_model_only_and_comes_back_after_the_next_check(script: Script, address: str) -> None:
    script.models = ("double", "other")
    script.damage = lambda request, answer: request.model_name == "double" and other_name(request, answer)
    with scripted_server(Script(models=("double", "other"))) as second, Client([address, second], health=QUICK) as client:
        double, other = client.model("double"), client.model("other")
        assert {double.result(X[:1]).server for _ in range(20)} == {second}
        assert {other.result(X[:1]).server for _ in range(40)} == {address, second}
        script.damage = lambda _request, _answer: None
        wait_until(lambda: double.result(X[:1]).server == address)
        assert "no requests" not in client.statistics().as_text()


def test_the_only_server_is_asked_once_more_after_a_wrong_answer(script: Script, address: str) -> None:
    """One address may be a balancer with many servers behind it."""
    wrong = [True]
    script.damage = lambda request, answer: wrong and wrong.pop() and fewer_rows(request, answer)
    with Client(address) as client:
        result = client.model("double").result(X[:2])
        np.testing.assert_array_equal(result.output, 2 * X[:2])
        assert result.attempts == 2
        script.damage = fewer_rows
        with pytest.raises(WrongAnswersError) as error:
            client.model("double").infer(X[:2])
        assert len(error.value.attempts) == 2, "not as often as a server that is away"
        with pytest.raises(WrongAnswersError) as error, Client(address, retry=()) as once:
            once.model("double").infer(X[:2])
        assert len(error.value.attempts) == 1, "a client without retries"


def test_asyncio_checks_answers_too(script: Script, address: str) -> None:
    script.damage = fewer_rows

    async def ask(*servers: str) -> Any:
        async with AsyncClient(servers) as client:
            return await client.model("double").infer(X)

    with pytest.raises(WrongAnswersError):
        asyncio.run(ask(address))
    with scripted_server(Script()) as good:
        np.testing.assert_array_equal(asyncio.run(ask(address, good)), 2 * X)


def test_outputs_that_were_not_asked_for_are_dropped_and_unknown_names_are_refused(script: Script, address: str) -> None:
    def describe_two(metadata: Any) -> None:
        metadata.outputs.add(name="w", datatype="INT32", shape=[-1])

    def answer_two(_request: Any, answer: Any) -> None:
        answer.outputs.insert(0, service_pb2.ModelInferResponse.InferOutputTensor(name="w", datatype="INT32", shape=[1]))
        answer.raw_output_contents.insert(0, b"\1\0\0\0")

    script.describe, script.damage = describe_two, answer_two
    with Client(address) as client:
        model = client.model("double")
        assert list(model.infer(X[:1])) == ["y", "w"], "in the model's order"
        np.testing.assert_array_equal(model.infer(X[:1], outputs="y"), 2 * X[:1])
        with pytest.raises(InputError, match="has no output 'yy', only y, w"):
            model.infer(X[:1], outputs="yy")


def test_a_changed_model_is_described_again_after_a_refused_request(script: Script, address: str) -> None:
    with Client(address) as client:
        model = client.model("double")
        model.infer(X[:1])
        script.columns, script.infer = 2, fail(grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape")
        for _ in range(5):
            with pytest.raises((RequestError, InputError)):
                model.infer(X[:1])
        script.infer = lambda _request, _context: None
        wait_until(lambda: model.inputs[0].shape == (2,))
        np.testing.assert_array_equal(model.infer(X[:1, :2]), 2 * X[:1, :2])
    assert script.calls["ModelMetadata"] <= 3, "at most once a second"


def test_a_server_that_was_restarted_with_another_model_is_described_again() -> None:
    with Client("127.0.0.1:1", health=Health(failures=1, first_s=0.05, longest_s=0.1)) as nobody:
        assert not nobody.ready()
    first = Script()
    with scripted_server(first) as address:
        port = int(address.rpartition(":")[2])
        client = Client(address, retry=(), health=Health(failures=1, first_s=0.05, longest_s=0.1))
        client.model("double").infer(X[:1])
    with client:
        with pytest.raises(AllServersFailedError):
            client.model("double").infer(X[:1])
        with scripted_server(Script(max_batch_size=2), port):
            wait_until(lambda: client.model("double").max_batch_size == 2)
            np.testing.assert_array_equal(client.model("double").infer(X[:5]), 2 * X[:5])


def test_a_server_with_another_description_than_the_others_gets_no_requests_until_it_is_alone(
    script: Script, address: str
) -> None:
    health = Health(failures=1, first_s=0.05, longest_s=0.1)
    with scripted_server(Script()) as second, Client([address, second], health=health, retry=OtherServer(20)) as client:
        model = client.model("double")
        model.infer(X[:1])
        script.columns, script.damage = 2, other_shape
        assert {model.result(X[:1]).server for _ in range(30)} == {second}
        script.damage = lambda _request, _answer: None
        wait_until(lambda: "differs from that of the other servers" in client.statistics().as_text())
        assert model.inputs[0].shape == (4,)
        assert {model.result(X[:1]).server for _ in range(30)} == {second}


def describe(change: Callable[[Any], object], words: str) -> tuple[Callable[[Any], object], str]:
    """A description with a change, and what the error says."""
    return change, words


DESCRIBED = {
    "another model": describe(lambda model: setattr(model, "name", "jets"), "describes model 'jets', expected 'double'"),
    "no outputs": describe(lambda model: model.ClearField("outputs"), "without outputs, expected one or more"),
    "an output twice": describe(lambda model: model.outputs.add(name="y", datatype="INT8", shape=[-1]), "'y' .* 2 times"),
    "an input twice": describe(lambda model: model.inputs.add(name="x", datatype="INT8", shape=[-1]), "'x' .* 2 times"),
    "a negative size": describe(lambda model: model.outputs[0].shape.append(-7), r"of shape \(-1, 4, -7\), expected sizes of"),
    "a huge size": describe(lambda model: model.outputs[0].shape.append(2**62), "whose product is at most 2147483648"),
    "an unknown datatype": describe(
        lambda model: setattr(model.outputs[0], "datatype", "FP8"), "of datatype 'FP8', expected BOOL"
    ),
}


@pytest.mark.parametrize("case", DESCRIBED)
def test_a_description_that_fits_no_model_is_the_servers_fault_and_another_server_is_asked(
    script: Script, address: str, case: str
) -> None:
    script.describe, words = DESCRIBED[case]
    with Client(address) as client, pytest.raises(AnswerError, match=words):
        client.model("double").infer(X[:1])
    for _ in range(5):
        with scripted_server(Script()) as good, Client([address, good]) as client:
            np.testing.assert_array_equal(client.model("double").infer(X[:3]), 2 * X[:3])


def test_a_negative_max_batch_size_is_refused(script: Script, address: str) -> None:
    script.max_batch_size = -3
    with Client(address) as client, pytest.raises(AnswerError, match="with max_batch_size -3, expected 0 or more"):
        client.model("double").infer(X[:1])


@pytest.mark.parametrize("shape", [(0, 2**63 - 1), (2**40, 2**40, 0), (1,) * 70], ids=str)
@pytest.mark.parametrize("datatype", ["FP32", "BF16", "BYTES"])
def test_a_shape_that_no_array_can_have_is_a_wrong_answer(
    script: Script, address: str, shape: tuple[int, ...], datatype: str
) -> None:
    def damage(_request: Any, answer: Any) -> None:
        del answer.outputs[:]
        answer.outputs.add(name="y", datatype=datatype, shape=shape)
        answer.raw_output_contents[0] = bytes(0 if 0 in shape else 2 if datatype == "BF16" else 4)

    script.damage = damage
    with Client(address) as client:
        for call in (client.model("double").infer, lambda rows: client.model("double").submit(rows).result()):
            with pytest.raises(WrongAnswersError, match=r"has shape|of shape"):
                call(X[:1])
        assert client.statistics().servers[0].failed == 4


def test_an_answer_with_the_id_of_another_request_is_wrong(script: Script, address: str) -> None:
    with Client(address) as client:
        model = client.model("double")
        np.testing.assert_array_equal(model.infer(X[:1], request_id="mine"), 2 * X[:1])
        script.damage = lambda _request, answer: setattr(answer, "id", "other")
        np.testing.assert_array_equal(model.infer(X[:1]), 2 * X[:1])  # a server may make up ids
        with pytest.raises(WrongAnswersError, match="it has the request id 'other', expected 'mine'"):
            model.infer(X[:1], request_id="mine")
        script.damage = lambda _request, answer: answer.ClearField("id")
        with scripted_server(script) as silent, Client(silent) as other:
            np.testing.assert_array_equal(other.model("double").infer(X[:1], request_id="mine"), 2 * X[:1])


def test_zero_rows_give_the_outputs_that_rows_would_give(script: Script, address: str) -> None:
    script.describe = lambda described: described.outputs.add(name="w", datatype="INT32", shape=[-1, 2])
    script.versions = ("1", "2")
    with Client(address) as client:
        model = client.model("double")
        assert {name: array.shape for name, array in model.infer(X[:0]).items()} == {"y": (0, 4), "w": (0, 2)}
        assert model.infer(X[:0], outputs="w").shape == (0, 2)
        assert list(model.infer(X[:0], outputs=["w", "y"])) == ["w", "y"]
        assert model.result(X[:0], version=2).version == "2"
        assert [entry.shape for entry in model.infer(Rectangular([X[:0], X[:0]]), outputs="y")] == [(0, 4)] * 2

    async def ask() -> Any:
        async with AsyncClient(address) as client:
            return await client.model("double").infer(X[:0], outputs="w")

    assert asyncio.run(ask()).shape == (0, 2)


def test_inputs_without_any_tensor_are_refused_with_a_sentence() -> None:
    spec = ModelSpec("m", "", ("1",), (TensorSpec("x", "FP32", (4,), optional=True),), (TensorSpec("y", "FP32", (4,)),), 8)
    with pytest.raises(InputError, match="has got no input, expected one or more"):
        as_inputs(spec, {})


def test_entries_with_different_inputs_are_refused_and_none_is_dropped() -> None:
    tensors = (TensorSpec("a", "FP32", (1,)), TensorSpec("b", "FP32", (1,), optional=True))
    spec = ModelSpec("m", "", ("1",), tensors, (TensorSpec("y", "FP32", (1,)),), 8)
    row = np.ones((1, 1), np.float32)
    for entries in ([{"a": row}, {"a": row, "b": row}], [{"a": row, "b": row}, {"a": row}]):
        with pytest.raises(InputError, match="the entries have different inputs: a and a, b"):
            together(spec, entries)


def test_values_that_are_equal_in_python_are_sent_as_what_they_are(script: Script, address: str) -> None:
    sent = []
    script.infer = lambda request, _context: sent.append(request.parameters["p"].WhichOneof("parameter_choice"))
    with Client(address) as client:
        model = client.model("double")
        for value in (True, 1, 1.0, "1", 1, True):
            model.infer(X[:1], parameters={"p": value})
    assert sent == ["bool_param", "int64_param", "double_param", "string_param", "int64_param", "bool_param"]


def sequence_of_three(script: Script) -> list[Any]:
    """Send a sequence of three requests; return the answers, and the first error."""
    script.stateful, got = True, []
    with scripted_server(script) as address, Client(address) as client, client.model("double").sequence(7) as sequence:
        for n in range(3):
            try:
                got.append(sequence.infer(X[n : n + 1]).tolist())
            except (AnswerError, StreamError) as error:
                return [*got, error]
    return got


def test_an_answer_that_a_sequence_gets_twice_is_not_taken_for_the_next_one() -> None:
    assert sequence_of_three(Script()) == [(2 * X[n : n + 1]).tolist() for n in range(3)]
    got = sequence_of_three(Script(streamed=lambda _request, answer: [answer, answer]))
    assert got[0] == (2 * X[:1]).tolist()
    assert "it has the request id '7/1', expected '7/2'" in str(got[1])


@pytest.mark.parametrize("damage", [other_name, lambda _request, answer: answer.ClearField("outputs"), other_shape])
def test_answers_of_a_sequence_have_all_outputs_and_one_row(damage: Callable[[Any, Any], object]) -> None:
    def damaged(request: Any, answer: Any) -> list[Any]:
        damage(request, answer)
        return [answer]

    (error,) = sequence_of_three(Script(streamed=damaged))
    assert isinstance(error, AnswerError)
    (error,) = sequence_of_three(Script(streamed=lambda _request, answer: [answer], damage=more_rows))
    assert "expected (1, 4)" in str(error)


def test_answers_of_another_request_end_a_stream() -> None:
    def swapped(_request: Any, answer: Any) -> list[Any]:
        answer.id = "other"
        return [answer]

    words = "it has the request id 'other', expected"
    with (
        scripted_server(Script(streamed=swapped)) as address,
        Client(address) as client,
        pytest.raises(AnswerError, match=words),
    ):
        list(client.model("double").stream(X[:1]))


def of_version(*versions: str) -> Callable[[Any, Any], list[Any]]:
    """The answers of a stream, of these versions of the model."""

    def streamed(_request: Any, answer: Any) -> list[Any]:
        answers = []
        for number, version in enumerate(versions, 1):
            answers.append(service_pb2.ModelInferResponse())
            answers[-1].CopyFrom(answer)
            answers[-1].model_version = version
            answers[-1].parameters["triton_final_response"].bool_param = number == len(versions)
        return answers

    return streamed


@pytest.mark.parametrize(
    ("asked", "answered", "words"),
    [
        (2, ["2", "2"], ""),
        ("", ["2", "2"], ""),
        (2, ["1"], "it is of version 1, expected 2"),
        ("", ["1", "2"], "it is of version 2, expected 1"),
    ],
)
def test_all_answers_of_a_stream_are_of_the_version_that_was_asked_for_or_of_the_first_one(
    asked: str | int, answered: list[str], words: str
) -> None:
    script = Script(versions=("1", "2"), streamed=of_version(*answered))
    with scripted_server(script) as address, Client(address) as client:
        answers = client.model("double").stream(X[:1], version=asked)
        if words:
            with pytest.raises(AnswerError, match=words):
                list(answers)
        else:
            assert [result.version for result in answers] == answered


SPEC = ModelSpec("m", "", ("1",), (), (TensorSpec("y", "FP32", (4,)), TensorSpec("label", "BYTES", (-1, 2))), max_batch_size=8)


@settings(max_examples=200)
@given(
    rows=st.integers(0, 9),
    shape=st.lists(st.integers(0, 9), min_size=0, max_size=3),
    datatype=st.sampled_from(["FP32", "BF16", "FP64", "INT32"]),
    names=st.lists(st.sampled_from(["y", "label", "z"]), unique=True),
    asked=st.sampled_from([(), ("y",), ("label",), ("y", "label")]),
)
def test_an_answer_is_taken_only_if_it_is_exactly_what_the_model_describes(
    rows: int, shape: list[int], datatype: str, names: list[str], asked: tuple[str, ...]
) -> None:
    arrays = {name: np.zeros((rows, 3, 2) if name == "label" else shape, np.float32) for name in names}
    datatypes = {name: "BYTES" if name == "label" else datatype for name in names}
    answer = Answer("m", "1", arrays, datatypes, {})
    wanted = asked or ("y", "label")
    fits = set(wanted) <= set(names) and ("y" not in wanted or (shape == [rows, 4] and datatype == "FP32"))
    if fits:
        assert list(fitted(SPEC, asked, rows, answer).outputs) == [name for name in ("y", "label") if name in wanted]
    else:
        with pytest.raises(AnswerError, match="expected"):
            fitted(SPEC, asked, rows, answer)
    in_stream = "z" not in names and ("y" not in names or (shape[1:] == [4] and len(shape) == 2 and datatype == "FP32"))
    if in_stream:
        assert fitted_in_stream(SPEC, answer) is answer
    else:
        with pytest.raises(AnswerError, match="expected"):
            fitted_in_stream(SPEC, answer)
