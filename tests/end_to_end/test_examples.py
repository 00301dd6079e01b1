# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/, as a reader runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.workers.pages import Servers, page_servers
from tests.end_to_end.command_line import ROOT
from tests.reference import environment

EXAMPLES = ROOT / "examples"
#: nobody listens there
NOWHERE = "localhost:1"


def run(name: str, *words: str | Path, python: str | Path = sys.executable) -> str:
    """Run an example to its end and return its output."""
    argv = [str(word) for word in (python, "-P", EXAMPLES / name, *words)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with page_servers() as running:
        yield running


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(re.findall(r'run\("(\w+\.py)"', text))


@pytest.mark.whole("examples/own_model.py", "firmware", "hls", "hypersonic", "requirements.lock", "sim")
def test_a_model_of_ones_own_is_trained_built_served_and_asked(tmp_path: Path) -> None:
    said = run("own_model.py", tmp_path / "mine")
    off = re.fullmatch(r"(?s).*4000 answers, off by (0\.\d\d) of amplitudes from 0 to 8\n", said)
    assert off, said
    assert float(off[1]) < 0.3
    assert (tmp_path / "mine" / "models" / "pulse" / "1" / "model.xclbin").is_file()


def test_a_job_asks_the_servers_that_there_are_and_computes_by_itself_without_any(servers: Servers) -> None:
    said = run("client_with_fallback.py", NOWHERE, servers.a)
    assert said == f"{servers.a}: 10000 rows\n"
    assert run("client_with_fallback.py", NOWHERE) == "fallback: 10000 rows\n"


def test_an_analysis_in_coffea_gets_its_energies_from_servers(servers: Servers) -> None:
    python = environment.environment("coffea") / "bin" / "python"
    lines = run("coffea_energies.py", f"{servers.a},{servers.b}", python=python).splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [f"event {k}: {n} channels" for k, n in enumerate((200, 0, 400))]
    assert float(lines[0].split()[-1]) > 0
