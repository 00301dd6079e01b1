# SPDX-License-Identifier: Apache-2.0
"""Processes that a model starts itself: none of them outlives the model's process, whatever ends that."""

from __future__ import annotations

import json
import logging
import os
import signal
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton

from hypersonic.server.errors import InstanceLostError, ModelLoadError
from tests.server.python_models import DOUBLE, FLOATS, loaded, source
from tests.server.python_models import write_python as write
from tests.server.python_serving import infer
from tests.support.processes import alive
from tests.support.server_program import program
from tests.support.waiting import wait_until

X = np.ones((2, 3), np.float32)
#: of a program of its own, in a session of its own, of a daemon that nobody is the parent of, and of a pool
KINDS = ("program", "session", "daemon", "pool")
START = """
import multiprocessing, subprocess
pids = {{}}
pids["program"] = subprocess.Popen(["sleep", "600"]).pid
pids["session"] = subprocess.Popen(["sleep", "600"], env={{"PATH": os.environ["PATH"]}}, start_new_session=True).pid
daemon = "import os, time\\nif os.fork(): os._exit(0)\\nos.setsid()\\nprint(os.getpid(), flush=True)\\ntime.sleep(600)"
started = subprocess.Popen([sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True)
pids["daemon"] = int(started.stdout.readline())
started.wait()
self.pool = multiprocessing.get_context("fork").Pool(1)
pids["pool"] = self.pool.apply(os.getpid)
pids["model"] = os.getpid()
with open({path!r} + ".new", "w") as file:
    json.dump(pids, file)
os.rename({path!r} + ".new", {path!r})
"""


def starting(path: Path) -> str:
    return START.format(path=str(path))


def pids_of(path: Path) -> dict[str, int]:
    pids = json.loads(path.read_text())
    assert set(pids) == {*KINDS, "model"}
    return pids


def left(pids: dict[str, int]) -> list[str]:
    """Which of them run still."""
    return [kind for kind, pid in pids.items() if alive(pid)]


ENDS: dict[str, tuple[str, str]] = {
    "unloaded": (DOUBLE, ""),
    "killed": ("os.kill(os.getpid(), 11)", "not healthy"),
    "hung": ("time.sleep(600)", "did not answer within 1000 ms"),
}  # fmt: skip


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The server's log so far."""
    logger = logging.getLogger("hypersonic")
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])
    caplog.set_level(logging.INFO, "hypersonic")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("end", ENDS)
def test_what_a_model_has_started_is_gone_when_its_process_is(
    tmp_path: Path, end: str, messages: Callable[[], list[str]]
) -> None:
    """At once, not soon: a process that takes its place finds the memory and the devices free."""
    execute, text = ENDS[end]
    code = source(execute, starting(tmp_path / "pids"))
    config = FLOATS + 'parameters { key: "timeout_ms" value { string_value: "1000" } }'
    with loaded(tmp_path, code, config) as model:
        pids = pids_of(tmp_path / "pids")
        assert left(pids) == [*KINDS, "model"]
        if text:
            with pytest.raises(InstanceLostError, match=text):
                model.run(X)
            assert left(pids) == []
    assert left(pids) == []
    # the keeper's end is the model's
    endings = [message for message in messages() if "its process ended" in message]
    assert endings == (["m_0: its process ended with signal SIGSEGV"] if end == "killed" else [])


def test_what_a_model_has_started_is_gone_when_its_load_fails(tmp_path: Path) -> None:
    code = source(DOUBLE, starting(tmp_path / "pids") + "raise ValueError('after all')")
    with pytest.raises(ModelLoadError, match="after all"), loaded(tmp_path, code):
        pass
    assert left(pids_of(tmp_path / "pids")) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_models_have_started_is_gone_when_their_server_is(tmp_path: Path, how: signal.Signals) -> None:
    """In mid run: on SIGTERM it waits for the run, but not for ever."""
    entered = tmp_path / "entered"
    code = source(f"open({str(entered)!r}, 'w')\ntime.sleep(600)", starting(tmp_path / "pids"))
    write(tmp_path / "models", "m", code)
    options = ("--model-repository", str(tmp_path / "models"), "--exit-timeout-secs", "1")
    with program(*options) as server, ThreadPoolExecutor(1) as pool:
        pids = pids_of(tmp_path / "pids")
        with triton.InferenceServerClient(server.grpc) as client:
            asked = pool.submit(infer, client, X)
            server.wait_for(entered.exists)
            server.process.send_signal(how)
            server.process.wait(60)
            assert asked.exception(60) is not None
        wait_until(lambda: not left(pids))


def test_what_a_model_has_started_is_gone_although_somebody_has_stopped_its_keeper(tmp_path: Path) -> None:
    with loaded(tmp_path, source(DOUBLE, starting(tmp_path / "pids"))) as model:
        pids = pids_of(tmp_path / "pids")
        os.kill(model.instance.process.pid, signal.SIGSTOP)
        model.instance.lost()
        assert left(pids) == []


def test_what_a_model_has_started_in_its_session_is_gone_although_somebody_has_killed_its_keeper(tmp_path: Path) -> None:
    with loaded(tmp_path, source(DOUBLE, starting(tmp_path / "pids"))) as model:
        pids = pids_of(tmp_path / "pids")
        os.kill(model.instance.process.pid, signal.SIGKILL)
        model.instance.process.wait()
        wait_until(lambda: not {"model", "program", "pool"} & set(left(pids)))
    for kind in left(pids):  # nothing else kills these
        os.kill(pids[kind], signal.SIGKILL)


def test_the_keeper_of_a_models_process_is_small(tmp_path: Path) -> None:
    with loaded(tmp_path, source(textwrap.dedent(DOUBLE))) as model:
        status = Path(f"/proc/{model.instance.process.pid}/smaps_rollup").read_text()
        private = sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("Private"))
        assert private < 6000, "kB that one more process for each instance costs"
