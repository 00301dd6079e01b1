# SPDX-License-Identifier: Apache-2.0
"""LocalServer: the server that a client starts on its own host when all others are dead."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hypersonic.client import (
    Client,
    ClosedError,
    Fallback,
    LocalServer,
    LocalServerError,
    OtherServer,
    SameServer,
    UnknownModelError,
)
from tests.server.python_models import DOUBLE, source, write_python
from tests.support.processes import alive, children_of, command_line
from tests.support.waiting import wait_until

X = np.arange(6, dtype=np.float32).reshape(2, 3)
#: a negative number takes a long time
SLEEPY = "time.sleep(20 * any((x_of(request) < 0).any() for request in requests))\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("local")
    write_python(directory, "double", source(SLEEPY + DOUBLE))
    return directory


@pytest.fixture(scope="module")
def local(repository: Path) -> Iterator[LocalServer]:
    with LocalServer(repository) as server:
        yield server


def answers(server: LocalServer) -> None:
    np.testing.assert_array_equal(server.run("double", {"x": X})["y"], 2 * X)


def supervisors() -> set[int]:
    """The supervisors that this process has started."""
    return {pid for pid in children_of(os.getpid()) if "supervisor.py" in command_line(pid)}


def test_it_answers_when_all_servers_are_dead(local: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    retry = (SameServer(), OtherServer(tries=1), Fallback(local))
    with caplog.at_level(logging.WARNING, "hypersonic.client.attempts"), Client(["127.0.0.1:1"], retry=retry) as client:
        model = client.model("double")
        for _ in range(3):
            result = model.result({"x": X})
            np.testing.assert_array_equal(result.output, 2 * X)
            assert result.server == "fallback"
        np.testing.assert_array_equal(model.infer({"x": X}), 2 * X)
        statistics = client.statistics()
    assert (statistics.fallback, statistics.fallback_share) == (4, 1.0)
    assert sum("is computed by the fallback" in record.message for record in caplog.records) == 1


def test_closing_the_client_closes_it_and_leaves_nothing(repository: Path) -> None:
    before = supervisors(), threading.active_count(), descriptors()
    with Client(["127.0.0.1:1"], retry=(Fallback(LocalServer(repository)),)) as client:
        client.model("double").infer({"x": X})
        (supervisor,) = supervisors() - before[0]
        (server,) = children_of(supervisor)
        assert alive(server)
    assert not alive(server)
    assert not alive(supervisor)
    wait_until(lambda: (supervisors(), threading.active_count(), descriptors()) == before, 10)


def descriptors() -> int:
    """Those that are open for a file, a pipe or a socket; gRPC keeps a few of its own kinds for all channels."""
    kinds = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            kinds.append(str(link.readlink()))
        except FileNotFoundError:  # the one that lists the directory
            continue
    return sum(not kind.startswith("anon_inode") for kind in kinds)


def test_threads_that_ask_at_once_share_one_server_which_stays_when_they_end(repository: Path) -> None:
    before = supervisors()
    with LocalServer(repository) as server:
        with ThreadPoolExecutor(8) as pool:
            for k, outputs in enumerate(pool.map(lambda k: server.run("double", {"x": k * X})["y"], range(16))):
                np.testing.assert_array_equal(outputs, 2 * k * X)
        (supervisor,) = supervisors() - before
        processes = children_of(supervisor)
        answers(server)
        assert (supervisors() - before, children_of(supervisor)) == ({supervisor}, processes)
        os.kill(min(processes), signal.SIGKILL)
        answers(server)  # by another server, which it started
        (other,) = supervisors() - before
    assert other != supervisor


def test_a_server_whose_end_takes_long_to_be_seen_is_started_again(repository: Path) -> None:
    before = supervisors()
    with LocalServer(repository) as server:
        answers(server)
        (supervisor,) = supervisors() - before
        os.kill(supervisor, signal.SIGSTOP)
        os.kill(min(children_of(supervisor)), signal.SIGKILL)
        late = threading.Timer(2.0, os.kill, (supervisor, signal.SIGCONT))
        late.start()
        try:
            answers(server)
        finally:
            late.join()


def test_a_pickled_one_has_a_server_of_its_own_and_does_not_stop_this_one(local: LocalServer) -> None:
    answers(local)
    before = supervisors()
    pickle.loads(pickle.dumps(local)).close()
    assert supervisors() == before
    answers(local)


def test_a_model_that_it_does_not_have_is_named(local: LocalServer) -> None:
    with pytest.raises(UnknownModelError, match="has no model 'triple' \\(it has double\\)"):
        local.run("triple", {"x": X})


def test_a_server_that_does_not_start_shows_its_last_lines(tmp_path: Path) -> None:
    with LocalServer(tmp_path / "missing") as server:
        before = supervisors()
        for _ in range(2):  # the second one does not wait for another start
            with pytest.raises(
                LocalServerError, match=r"(?s)ended with 2 before it was ready; its last lines:\n.*missing cannot be read"
            ):
                server.run("double", {"x": X})
    assert supervisors() == before


def test_close_ends_a_start(tmp_path: Path) -> None:
    write_python(tmp_path, "endless", source(DOUBLE, "time.sleep(1000)"))
    before = supervisors()
    server = LocalServer(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(server.run, "endless", {"x": X})
        wait_until(lambda: supervisors() - before)
        server.close()
        assert isinstance(request.exception(30), ClosedError)
    assert supervisors() == before


def test_close_ends_a_request_and_the_next_one_starts_it_again(repository: Path) -> None:
    before = supervisors()
    server = LocalServer(repository)
    answers(server)
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(server.run, "double", {"x": -1 - X})
        with pytest.raises(TimeoutError):
            request.result(1)
        server.close()
        assert isinstance(request.exception(30), ClosedError)
    assert supervisors() == before
    answers(server)
    server.close()


PARENT = """
import os, sys, time
import numpy as np
from hypersonic.client import LocalServer
server = LocalServer(sys.argv[1])
total = server.run("double", {"x": np.ones((1, 3), np.float32)})["y"].sum()
if "fork" in sys.argv and not os.fork():
    time.sleep(60)  # it holds the pipe to the supervisor open
    os._exit(0)
print(total, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", [(), ("fork",), ("supervisor",)], ids=lambda how: "".join(how) or "kill")
def test_no_server_outlives_its_parent(repository: Path, how: tuple[str, ...]) -> None:
    argv = [sys.executable, "-c", PARENT, str(repository), *(word for word in how if word != "supervisor")]
    children: set[int] = set()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "6.0\n"
            children = children_of(parent.pid)
            (supervisor,) = [pid for pid in children if "supervisor.py" in command_line(pid)]
            (server,) = children_of(supervisor)
            os.kill(supervisor if how == ("supervisor",) else parent.pid, signal.SIGKILL)
            wait_until(lambda: not alive(server) and not alive(supervisor), 30)
        finally:
            parent.kill()
            for child in filter(alive, children):  # the fork
                os.kill(child, signal.SIGKILL)
