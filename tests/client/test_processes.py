# SPDX-License-Identifier: Apache-2.0
"""One client in several processes: pickled, forked and spawned."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from hypersonic.client import Client

X = np.arange(8, dtype=np.float32).reshape(2, 4)

#: the server runs in a process of its own: a process with gRPC's server threads does not fork well
SERVER = """
import sys
from tests.support.scripted_server import Script, scripted_server
with scripted_server(Script()) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


def double(client: Client) -> list[list[float]]:
    """Runs in another process."""
    with client:
        answer: list[list[float]] = client.model("double").infer(X).tolist()
    return answer


def test_a_used_client_can_be_pickled(address: str) -> None:
    with Client(address) as client:
        client.model("double").infer(X)
        copy: Client = pickle.loads(pickle.dumps(client))
        assert double(copy) == (2 * X).tolist()
        assert client.model("double").infer(X).tolist() == (2 * X).tolist(), "the first one is still open"


def test_a_model_is_pickled_with_its_client(address: str) -> None:
    with Client(address) as client:
        model = client.model("double", 1)
        model.infer(X)
        copy = pickle.loads(pickle.dumps(model))
        assert (copy.name, copy.infer(X).tolist()) == ("double", (2 * X).tolist())


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_other_processes_use_a_client_that_was_used_before(address: str, method: str) -> None:
    program = f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from hypersonic.client import Client
from tests.client.test_processes import X, double
with Client({address!r}) as client:
    for _ in range(2):
        assert client.model("double").infer(X).tolist() == (2 * X).tolist()
        with ProcessPoolExecutor(2, multiprocessing.get_context({method!r})) as pool:
            answers = [pool.submit(double, client).result(60) for _ in range(4)]
        assert answers == [(2 * X).tolist()] * 4
"""
    ended = subprocess.run(
        [sys.executable, "-c", f"if __name__ == '__main__':\n{_indented(program)}"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_fork_uses_the_client_it_inherits(address: str) -> None:
    program = f"""
import os
from hypersonic.client import Client
from tests.client.test_processes import X
client = Client({address!r})
model = client.model("double")
assert model.infer(X).tolist() == (2 * X).tolist()
for other in (client.model("double"), model, model):
    child = os.fork()
    if not child:
        ok = other.infer(X).tolist() == (2 * X).tolist()
        client.close()
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
assert client.model("double").infer(X).tolist() == (2 * X).tolist()
client.close()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def _indented(program: str) -> str:
    return "".join(f"    {line}\n" for line in program.splitlines())
