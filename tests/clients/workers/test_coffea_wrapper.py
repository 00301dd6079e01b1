# SPDX-License-Identifier: Apache-2.0
"""Our triton_wrapper beside coffea's, in coffea's environment: equal arrays, and requests that overlap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.reference import environment
from tests.support.scripted_server import Script, scripted_server, wait

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("coffea_overlap_program.py")


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python of coffea's environment."""
    return environment.environment("coffea") / "bin" / "python"


def printed(python: Path, task: str, *scripts: Script) -> Any:
    """The JSON that the program prints for a task, against scripted servers."""
    with ExitStack() as stack:
        addresses = ",".join(stack.enter_context(scripted_server(script)) for script in scripts)
        argv = [str(word) for word in (python, "-P", PROGRAM, task, addresses)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_answers_equal_coffeas_on_awkward_and_dask_awkward_arrays_in_other_processes_too(python: Path) -> None:
    script = Script()
    answered = printed(python, "answers", script)
    assert min(answered["sent"]) > 0, "both servers are used"
    assert {rows for rows in script.rows if rows != 8} >= {1, answered["rows"] % 8}, "batches that are not full are not padded"


def test_all_rows_of_a_call_are_of_one_version_while_the_servers_are_updated(python: Path) -> None:
    calls = printed(python, "versions", Script(versions=("1",)), Script(versions=("2",)))
    assert {len(versions) for versions in calls} == {1}, calls


def test_eight_requests_in_flight_are_three_times_as_fast_when_a_request_takes_25_ms(python: Path) -> None:
    """The server sleeps for that time, so the rates hardly depend on this machine."""
    rates = printed(python, "rates", Script(infer=wait(0.025)))
    assert rates["hypersonic"] >= 3 * rates["coffea"], rates


def test_without_coffea_the_import_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"needs coffea, which cannot be imported .*: pip install coffea"):
        __import__("hypersonic.client.coffea")
    assert "coffea" not in sys.modules
