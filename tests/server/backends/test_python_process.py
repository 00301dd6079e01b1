# SPDX-License-Identifier: Apache-2.0
"""A model's process: what it prints, how it dies, and what it cannot do to the server."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.errors import (
    BackendError,
    InstanceLostError,
    InstanceTimeoutError,
)
from tests.server.python_models import (
    DOUBLE,
    FLOATS,
    WORDS,
    loaded,
    source,
)
from tests.support.processes import alive
from tests.support.waiting import wait_until

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def words(tmp_path: Path, expression: str) -> str:
    """The value of an expression about the request, in the model's process."""
    code = source(f"return [text({expression}) for request in requests]")
    with loaded(tmp_path, code, WORDS) as model:
        return str(model.run(X[0])[0][0].decode())


def test_the_process_starts_light(tmp_path: Path) -> None:
    modules = words(
        tmp_path, "sorted(m for m in sys.modules if m.split('.')[0] in ('grpc', 'google', 'asyncio', 'tritonclient'))"
    )
    assert modules == "[]"


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


def test_a_process_that_is_killed_loses_its_run_and_another_one_comes_back(tmp_path: Path) -> None:
    code = source("if x_of(requests[0])[0, 0] < 0: time.sleep(60)\n" + DOUBLE)
    with loaded(tmp_path, code) as model:
        first = model.instance.process.pid
        model.start(model.share(-1 - X))
        os.kill(first, signal.SIGKILL)
        with pytest.raises(InstanceLostError, match=r"^Stub process 'm_0' is not healthy\.$") as lost:
            model.finish()
        assert lost.value.by_run
        assert not model.instance.in_service
        assert model.instance.revive()
        assert not alive(first)
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)


def test_a_process_that_died_between_runs_is_noticed_at_the_next_one(tmp_path: Path) -> None:
    with loaded(tmp_path, source(DOUBLE)) as model:
        process = model.instance.process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with pytest.raises(InstanceLostError) as lost:
            model.run(X)
        assert not lost.value.by_run


def test_a_hanging_execute_is_killed_after_timeout_ms_with_all_it_started(tmp_path: Path) -> None:
    code = source("""
        if x_of(requests[0])[0, 0] < 0:
            import subprocess
            child = subprocess.Popen(["sleep", "600"])
            with open(os.path.join(pb_utils.get_model_dir(), "pid"), "w") as file:
                file.write(str(child.pid))
            time.sleep(600)
        return [y(2 * x_of(request)) for request in requests]
        """)
    config = FLOATS + 'parameters { key: "timeout_ms" value { string_value: "1500" } }'
    with loaded(tmp_path, code, config) as model:
        np.testing.assert_array_equal(model.run(X)[0], 2 * X)
        with pytest.raises(InstanceTimeoutError, match="did not answer within 1500 ms") as lost:
            model.run(-1 - X)
        assert lost.value.by_run
        child = int((tmp_path / "m" / "1" / "pid").read_text())
        wait_until(lambda: not alive(child))  # killed, but perhaps not dead yet
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
        "import gc\nfrom hypersonic.server.backends.python.stub.runs import Runs\n"
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
        f"from hypersonic.server.backends.python.stub.calls import PROCESS\nPROCESS.calls.tell({lie})\ntime.sleep(60)"
    )
    with loaded(tmp_path, code) as model, pytest.raises(InstanceLostError):
        model.run(X)


def test_shared_memory_cannot_be_shrunk_under_the_server(tmp_path: Path) -> None:
    code = source("""
        import gc
        from hypersonic.server.backends.python.stub.runs import MappedFile
        for window in [o for o in gc.get_objects() if isinstance(o, MappedFile)]:
            try:
                os.ftruncate(window._fd, 0)
                os._exit(1)
            except PermissionError:
                pass
        return [y(x_of(request)) for request in requests]
        """)
    with loaded(tmp_path, code) as model:
        np.testing.assert_array_equal(model.run(X)[0], X)
