# SPDX-License-Identifier: Apache-2.0
"""Backend python, one instance at a time: what models get, what they answer, what their processes do to the server."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.backends.python import PythonBackend
from hypersonic.server.errors import (
    BackendError,
    InstanceLostError,
    InstanceTimeoutError,
    ModelLoadError,
    NotFoundError,
    UnknownError,
)
from tests.server.python_models import (
    DECOUPLED,
    DOUBLE,
    FLOATS,
    WORDS,
    Loaded,
    Stream,
    config_of,
    loaded,
    mark,
    message_of,
    parameters,
    source,
    wanted,
    write_python,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def words(tmp_path: Path, expression: str, initialize: str = "pass") -> str:
    """What a model says of its request."""
    code = source(f"return [text({expression}) for request in requests]", initialize)
    with loaded(tmp_path, code, WORDS) as model:
        return str(model.run(X[0])[0][0].decode())


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
    said = (
        "(r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.priority(), r.parameters(), r.requested_output_names(),"
        " r.model_name(), r.model_version(), r.is_cancelled(), [(t.name(), t.shape(), t.triton_dtype(), t.is_cpu()) for t in"
        " r.inputs()])"
    )
    with loaded(tmp_path, source(f"return [text({said}) for r in requests]"), WORDS) as model:
        model.start(
            model.share(
                X[0], id="é", timeout_us=7, priority=2, sequence=mark("s", start=True, end=True), parameters=parameters(a=1, b=True),
                outputs=wanted("y"),
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


def test_initialize_gets_tritons_arguments(tmp_path: Path) -> None:
    group = "instance_group [ { count: 2 kind: KIND_CPU } ]"
    config = WORDS + group + 'parameters { key: "k" value { string_value: "v" } }'
    write_python(tmp_path, "m", source("return [text(json.dumps(self.args)) for _ in requests]"), config)
    model = PythonBackend().load(tmp_path / "m" / "1", config_of(config))
    try:
        assert [instance.name for instance in model.instances] == ["m_0_0", "m_0_1"]
        arguments = json.loads(Loaded(config_of(config), model.instances[1]).run(X[0])[0][0])
    finally:
        for instance in model.instances:
            instance.close()
    given = json.loads(arguments.pop("model_config"))
    assert arguments == {
        "model_instance_kind": "CPU",
        "model_instance_name": "m_0_1",
        "model_instance_device_id": "0",
        "model_repository": str(tmp_path / "m"),
        "model_version": "1",
        "model_name": "m",
    }
    assert given["input"][0] == {
        "name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [-1], "is_shape_tensor": False,
        "allow_ragged_batch": False, "optional": False, "is_non_linear_format_io": False,
    }  # fmt: skip
    assert given["parameters"] == {"k": {"string_value": "v"}}


def test_a_model_finds_files_and_modules_beside_it(tmp_path: Path) -> None:
    code = source("return [text((a.V, b.V, pb_utils.get_model_dir())) for _ in requests]")
    code = "from . import a\nimport b\n" + code
    directory = write_python(tmp_path, "m", code, WORDS)
    (directory / "a.py").write_text("V = 'a'")
    (directory.parent / "b.py").write_text("V = 'b'")
    model = PythonBackend().load(directory, config_of(WORDS))
    try:
        said = Loaded(config_of(WORDS), model.instances[0]).run(X[0])[0][0].decode()
    finally:
        model.instances[0].close()
    assert said == f"('a', 'b', '{directory}')"
    assert not list(tmp_path.rglob("__pycache__"))


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
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. InferenceRequest(s) size "
            "is:2, and InferenceResponse(s) size is:0\n",
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
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"code {code}", type(pb_utils.TritonError.UNKNOWN)(code)))
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


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(:\n", "Internal: SyntaxError: invalid syntax (model.py, line 1)"),
        ("x = 1\n", "Internal: AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        ("raise OSError('no é')\n", "Internal: OSError: no é\n\nAt:\n  m/1/model.py(1): <module>\n"),
        (
            source(DOUBLE, "raise pb_utils.TritonModelException('not today')"),
            "Internal: TritonModelException: not today\n\nAt:\n  m/1/model.py(19): initialize\n",
        ),
        (source(DOUBLE, "os._exit(3)"), "Internal: Stub process 'm_0' is not healthy."),
        (
            source(DOUBLE, "pb_utils.InferenceRequest(model_name='m', requested_output_names=['y'], inputs=[]).exec()"),
            "Internal: TritonModelException: BLS is only supported during the 'execute' function.\n\n"
            "At:\n  m/1/model.py(19): initialize\n",
        ),
    ],
)
def test_a_model_that_does_not_load_says_why_in_tritons_words(tmp_path: Path, code: str, reason: str) -> None:
    directory = write_python(tmp_path, "m", code)
    with pytest.raises(ModelLoadError) as failed:
        PythonBackend().load(directory, config_of(FLOATS))
    assert str(failed.value) == reason


def test_a_missing_or_straying_source_and_an_environment_of_its_own_are_refused(tmp_path: Path) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE))
    with pytest.raises(ModelLoadError, match="EXECUTION_ENV_PATH is not supported"):
        PythonBackend().load(
            directory, config_of(FLOATS + 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "e.tar.gz" } }')
        )
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        PythonBackend().load(directory, config_of(FLOATS + 'default_model_filename: "../../x.py"'))
    (directory / "model.py").unlink()
    with pytest.raises(ModelLoadError, match="m/1/model.py is missing"):
        PythonBackend().load(directory, config_of(FLOATS))
    (tmp_path / "elsewhere.py").write_text("")
    (directory / "model.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(ModelLoadError, match="leads out of the model's directory"):
        PythonBackend().load(directory, config_of(FLOATS))


COMPLETION = """
@staticmethod
def auto_complete_config(config):
    config.add_input({'name': 'x', 'data_type': 'TYPE_FP32', 'dims': [3]})
    config.add_output({'name': 'y', 'data_type': 'TYPE_FP32', 'dims': [3]})
    config.set_max_batch_size(4)
    config.set_dynamic_batching()
    return config
"""


def test_a_model_completes_its_configuration(tmp_path: Path) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE, more=COMPLETION), "")
    message = message_of("")
    PythonBackend().complete(directory, message)
    config = config_of(str(message).replace('name: "m"', "", 1).replace('backend: "python"', ""))
    assert (config.max_batch_size, config.input_names, config.output_names) == (4, ("x",), ("y",))
    assert config.dynamic_batching is not None
    assert message.default_model_filename == "model.py"


@pytest.mark.parametrize(
    ("completion", "config", "reason"),
    [
        (COMPLETION, "max_batch_size: 8", "ValueError: configuration specified max_batch_size 8, but"),
        (
            COMPLETION,
            'input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]',
            r"the model expects dims \[3\] but the model configuration specifies dims \[4\]",
        ),
        (COMPLETION.replace("return config", ""), "", "must return a valid pb.ModelConfig object."),
        (COMPLETION.replace("TYPE_FP32", "TYPE_NONE"), "", "auto_complete_config gives no configuration"),
    ],
)
def test_a_completion_that_contradicts_the_configuration_is_refused(
    tmp_path: Path, completion: str, config: str, reason: str
) -> None:
    directory = write_python(tmp_path, "m", source(DOUBLE, more=completion), "")
    with pytest.raises(ModelLoadError, match=reason):
        PythonBackend().complete(directory, message_of(config))


def test_what_a_model_prints_and_logs_is_in_the_servers_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "hypersonic")
    code = source(
        "print('to stdout')\nprint('to stderr', file=sys.stderr)\n" + DOUBLE,
        "pb_utils.Logger.log_warn('initialized')\npb_utils.Logger.log('verbose', pb_utils.Logger.VERBOSE)",
        "def finalize(self):\n    print('finalized', end='')\n",
    )
    with loaded(tmp_path, code) as model:
        model.run(X)
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    for line in ("m_0: to stdout", "m_0: to stderr", "m_0: finalized"):
        assert (logging.INFO, line) in lines
    assert (logging.WARNING, "m_0: model.py:19: initialized") in lines
    assert (logging.DEBUG, "m_0: model.py:20: verbose") in lines


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_process_that_is_killed_loses_its_run_and_another_one_comes_back(tmp_path: Path) -> None:
    code = source("if x_of(requests[0])[0, 0] < 0: time.sleep(60)\n" + DOUBLE)
    with loaded(tmp_path, code) as model:
        first = model.instance.process.pid
        model.start(model.share(-1 - X))
        os.kill(first, signal.SIGKILL)
        with pytest.raises(InstanceLostError, match=r"^Stub process 'm_0' is not healthy\.$"):
            model.finish()
        assert not model.instance.in_service
        assert model.instance.revive()
        assert not alive(first)
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_a_process_that_died_between_runs_is_noticed_at_the_next_one(tmp_path: Path) -> None:
    with loaded(tmp_path, source(DOUBLE)) as model:
        process = model.instance.process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with pytest.raises(InstanceLostError):
            model.run(X)


def test_a_hanging_execute_is_killed_after_timeout_ms_with_all_it_started(tmp_path: Path) -> None:
    code = source(
        """
        if x_of(requests[0])[0, 0] < 0:
            import subprocess
            child = subprocess.Popen(["sleep", "600"])
            with open(os.path.join(pb_utils.get_model_dir(), "pid"), "w") as file:
                file.write(str(child.pid))
            time.sleep(600)
        """
        "\n        " + DOUBLE
    )
    config = FLOATS + 'parameters { key: "timeout_ms" value { string_value: "1500" } }'
    with loaded(tmp_path, code, config) as model:
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)
        with pytest.raises(InstanceTimeoutError, match="did not answer within 1500 ms"):
            model.run(-1 - X)
        child = Path(f"/proc/{(tmp_path / 'm' / '1' / 'pid').read_text()}/stat")
        assert not child.exists() or " Z " in child.read_text()
        assert model.instance.revive()
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_a_model_that_cannot_be_initialized_again_may_be_tried_later(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    code = source("os._exit(1)", f"if os.path.exists({str(flag)!r}): raise ValueError('not yet')")
    with loaded(tmp_path, code) as model:
        with pytest.raises(InstanceLostError):
            model.run(X)
        flag.touch()
        for _ in range(2):
            with pytest.raises(BackendError, match="ValueError: not yet"):
                model.instance.revive()
        flag.unlink()
        assert model.instance.revive()


#: what a process that was taken over might answer instead
LIES = [
    "['done', False, []]",
    "['done', False, [[[[0, 'FP32', [2, 3], 1 << 40, 24]], {}]]]",
    "['done', False, [[[[0, 'FP32', [2, 3], -24, 24]], {}]]]",
    "['done', False, [[[[0, 'FP32', [2, 3], 0, 1 << 62]], {}]]]",
    "['done', False, [[[[0, 'FP32', [1 << 62, 1 << 62], 0, 24]], {}]]]",
    "['done', False, [[[[7, 'FP32', [2, 3], 0, 24]], {}]]]",
    "['done', False, [[[[0, 'NONE', [2, 3], 0, 24]], {}]]]",
    "['done', False, [[[[0, 'FP32', [[]], 0, 24]], {}]]]",
    "['done', False, [[[], {'a': []}]]]",
    "['done', False, [[99, 'code']]]",
    "['done', False, [None]]",
    "['done']",
    "['failed', 5]",
    "['grow', -1]",
    "['grow', 'much']",
    "[5]",
    "{}",
]


@pytest.mark.parametrize("lie", LIES)
def test_a_process_that_lies_is_a_lost_instance(tmp_path: Path, lie: str) -> None:
    code = source(
        "import gc\nfrom hypersonic.server.backends.python_stub.runs import Runs\n"
        f"next(o for o in gc.get_objects() if isinstance(o, Runs))._run.send({lie})\ntime.sleep(60)"
    )
    with loaded(tmp_path, code) as model:
        with pytest.raises(InstanceLostError, match="not healthy"):
            model.run(X)
        assert not alive(model.instance.process.pid)


@pytest.mark.parametrize(
    "lie",
    [
        "['log', 99, 'text', 'f', 1]",
        "['response', 0]",
        "['infer', 1, 5]",
        "['what']",
        "['infer', 1, 'm', -1, False, '', 0, 0, 0, 0, {}, [], [['x', 'FP32', [3], 1 << 40]]]",
    ],
)
def test_a_process_that_says_nonsense_beside_its_runs_is_killed(tmp_path: Path, lie: str) -> None:
    code = source(
        f"from hypersonic.server.backends.python_stub.calls import PROCESS\nPROCESS.calls.tell({lie})\ntime.sleep(60)"
    )
    with loaded(tmp_path, code) as model, pytest.raises(InstanceLostError):
        model.run(X)


def test_shared_memory_cannot_be_shrunk_under_the_server(tmp_path: Path) -> None:
    code = source("""
        import gc
        from hypersonic.server.backends.python_stub.runs import Window
        for window in [o for o in gc.get_objects() if isinstance(o, Window)]:
            try:
                os.ftruncate(window._fd, 0)
                os._exit(1)
            except PermissionError:
                pass
        return [y(x_of(request)) for request in requests]
        """)
    with loaded(tmp_path, code) as model:
        np.testing.assert_array_equal(model.run(X)[0], X)


def test_an_asynchronous_execute_is_awaited(tmp_path: Path) -> None:
    code = source("import asyncio\nawait asyncio.sleep(0)\n" + DOUBLE).replace("def execute", "async def execute")
    with loaded(tmp_path, code) as model:
        for _ in range(2):
            np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_a_plain_model_may_answer_by_its_response_sender_from_any_thread(tmp_path: Path) -> None:
    code = source("""
        def answer(sender, x):
            time.sleep(0.05)
            sender.send(y(2 * x), flags=FINAL)
        for request in requests:
            threading.Thread(target=answer, args=(request.get_response_sender(), x_of(request).copy())).start()
        """)
    with loaded(tmp_path, code) as model:
        for got, x in zip(model.run(X, 3 * X), (X, 3 * X), strict=True):
            np.testing.assert_array_equal(got, 2 * x)


@pytest.mark.parametrize("execute", ["return None", "return [None for _ in requests]", "requests[0].get_response_sender()"])
def test_a_request_that_nobody_can_answer_any_more_fails(tmp_path: Path, execute: str) -> None:
    with loaded(tmp_path, source(execute)) as model, pytest.raises(BackendError, match="without a final response"):
        model.run(X)


REPEAT = """
for request in requests:
    sender = request.get_response_sender()
    for value in x_of(request):
        sender.send(y(np.full(2, value, np.float32)))
    sender.send(flags=FINAL)
"""


def test_a_decoupled_model_answers_any_number_of_times(tmp_path: Path) -> None:
    with loaded(tmp_path, source(REPEAT), DECOUPLED) as model:
        assert model.stream(X[0]).wait() == [[0, 0], [1, 1], [2, 2]]
        assert model.stream(X[1][:1]).wait() == [[3, 3]]


def test_a_decoupled_model_answers_after_execute_and_while_the_next_one_runs(tmp_path: Path) -> None:
    code = source(
        """
        def answer(request, sender):
            self.turns.acquire()
            sender.send(y(x_of(request)), flags=FINAL)
        for request in requests:
            if x_of(request)[0] < 0:
                self.turns.release(2)
                request.get_response_sender().send(flags=FINAL)
            else:
                threading.Thread(target=answer, args=(request, request.get_response_sender())).start()
        """,
        "self.turns = threading.Semaphore(0)",
    )
    with loaded(tmp_path, code, DECOUPLED) as model:
        first, second = model.stream(X[0]), model.stream(X[1])
        assert not first.ended.is_set()
        assert model.stream(-X[1]).wait() == []
        assert (first.wait(), second.wait()) == ([[0, 1, 2]], [[3, 4, 5]])


def test_coroutines_of_a_decoupled_model_go_on_side_by_side(tmp_path: Path) -> None:
    code = source("""
        import asyncio
        request = requests[0]
        self.events = getattr(self, "events", None) or {}
        event = self.events.setdefault(float(abs(x_of(request)[0])), asyncio.Event())
        if x_of(request)[0] < 0:
            event.set()
        else:
            await event.wait()
        request.get_response_sender().send(y(x_of(request)), flags=FINAL)
        """).replace("def execute", "async def execute")
    with loaded(tmp_path, code, DECOUPLED) as model:
        first = model.stream(X[1])
        assert model.stream(-X[1]).wait() == [[-3, -4, -5]]
        assert first.wait() == [[3, 4, 5]]


@pytest.mark.parametrize(
    ("execute", "answers", "text"),
    [
        ("raise ValueError('boom')", 0, "message: ValueError: boom\n\nAt:\n  m/1/model.py(21): execute\n"),
        (
            "s = requests[0].get_response_sender()\ns.send(y(x_of(requests[0])))\nraise ValueError('boom')",
            1,
            "message: ValueError: boom\n\nAt:\n  m/1/model.py(23): execute\n",
        ),
        ("return []", 0, "Python model 'm_0' is using the decoupled mode and the execute function must return None."),
        ("requests[0].get_response_sender().send(y(x_of(requests[0])))", 1, "without a final response"),
        (
            "requests[0].get_response_sender().send(pb_utils.InferenceResponse(error=pb_utils.TritonError('mine')), FINAL)",
            0,
            "mine",
        ),
    ],
)
def test_a_decoupled_request_that_fails_ends_with_the_reason(tmp_path: Path, execute: str, answers: int, text: str) -> None:
    with loaded(tmp_path, source(execute), DECOUPLED) as model:
        stream = model.stream(X[0])
        assert len(stream.wait()) == answers
        assert text in str(stream.error)
        assert model.instance.in_service


def test_sending_what_cannot_be_sent_is_the_models_mistake(tmp_path: Path) -> None:
    code = source("""
        s = requests[0].get_response_sender()
        said = []
        for arguments in ((y(np.ones(1)), 7), (None, 0), (5, 0)):
            try:
                s.send(*arguments)
            except Exception as error:
                said.append(str(error))
        s.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([" ".join(said).encode()], np.object_))]), FINAL)
        try:
            s.send(flags=FINAL)
        except pb_utils.TritonModelException as error:
            assert str(error) == "Unable to send response. Response sender has been closed."
        """)
    with loaded(tmp_path, code, DECOUPLED) as model:
        stream = model.stream(X[0])
        assert stream.ended.wait(60)
        said = stream.answers[0]["y"][0].decode()
        assert "Unable to send response. Unsupported flag provided." in said
        assert "Inference Response object must be provided when the response flags is set to zero." in said


def test_open_streams_of_a_process_that_dies_end_with_an_error(tmp_path: Path) -> None:
    responded = threading.Event()
    with loaded(
        tmp_path, source("self.kept = requests\nrequests[0].get_response_sender().send(y(np.ones(1)))"), DECOUPLED
    ) as model:
        stream = Stream(responded.set)
        model.instance.slots[0].start([model.share(X[0], stream=stream)])
        model.instance.slots[0].finish()
        assert responded.wait(60)
        os.kill(model.instance.process.pid, signal.SIGKILL)
        assert stream.wait() == [[1.0]]
        assert str(stream.error) == "Stub process 'm_0' is not healthy."


def test_a_decoupled_model_sees_that_its_client_went_away(tmp_path: Path) -> None:
    code = source("""
        def wait(sender):
            while not sender.is_cancelled():
                time.sleep(0.01)
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("gone")), FINAL)
        threading.Thread(target=wait, args=(requests[0].get_response_sender(),)).start()
        """)
    with loaded(tmp_path, code, DECOUPLED) as model:
        stream = Stream()
        share = model.share(X[0], stream=stream)
        model.instance.slots[0].start([share])
        model.instance.slots[0].finish()
        share.pending.cancelled = True
        assert stream.ended.wait(60)
        assert str(stream.error) == "gone"


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
        assert backend.metrics.text() == (
            "# HELP my_level Level\n# TYPE my_level gauge\nmy_level -1.5\n"
            '# HELP my_requests What I served\n# TYPE my_requests counter\nmy_requests{model="a\\"b"} 2\n'
        )


def test_a_model_that_asks_another_one_hears_that_there_is_none(tmp_path: Path) -> None:
    code = source("""
        request = pb_utils.InferenceRequest(model_name="n", requested_output_names=["y"], inputs=[pb_utils.Tensor("x", np.ones(3))])
        return [text(request.exec().error().message()) for _ in requests]
        """)
    with loaded(tmp_path, code, WORDS) as model:
        assert model.run(X[0])[0][0] == b"this server lets models ask no other models"


def test_the_process_starts_light(tmp_path: Path) -> None:
    said = words(tmp_path, "sorted(m for m in sys.modules if m.split('.')[0] in ('grpc', 'google', 'asyncio', 'tritonclient'))")
    assert said == "[]"
