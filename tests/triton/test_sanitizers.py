# SPDX-License-Identifier: Apache-2.0
"""The backend under the sanitizers of g++, in a stand-in for tritonserver that they can instrument."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import json_format

from hypersonic.hls import verilator
from hypersonic.hls.cache import cached
from hypersonic.server.core.config.read import read_config
from hypersonic.sim.card.library import library_path
from hypersonic.triton.compile import STANDARD, contents, include_options, sources
from tests.host.conftest import Cards
from tests.server.backends.fpga.repositories import Repository, linked

pytestmark = pytest.mark.whole("triton", "sim/emu", "host/errors.py", "tests/triton/harness.cpp", "tests/host/model.c")

HARNESS = Path(__file__).with_name("harness.cpp")
SANITIZERS = {"address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"), "thread": ("-fsanitize=thread",)}
BATCHES = 400

Run = Callable[..., re.Match[str]]


def harness(flags: tuple[str, ...]) -> Path:
    """The stand-in and the backend as one program."""

    def build(directory: Path) -> None:
        options = [STANDARD, "-O1", "-g", "-pthread", *flags, *include_options(directory)]
        verilator.run(["g++", *options, HARNESS, *sources(), "-o", directory / "harness", "-ldl"], directory)

    return cached("triton_harness", [HARNESS, *contents(), *flags], build) / "harness"


@pytest.fixture(params=SANITIZERS)
def run(request: pytest.FixtureRequest, tmp_path: Path, image: bytes, cards: Cards) -> Run:
    """run(units, hang=""): the program's last line, for a model on that many compute units."""

    def start(units: int, hang: str = "") -> re.Match[str]:
        parameters = {"slots": "2", "timeout_ms": "1000", "retry_ms": "20"}
        version = Repository(tmp_path / "models").publish("m", linked(image, units), parameters=parameters)
        config = read_config(version.parent / "config.pbtxt", "m")
        (version.parent / "config.json").write_text(json_format.MessageToJson(config.message, preserving_proto_field_name=True))
        argv = [str(harness(SANITIZERS[request.param])), str(version.parent), str(library_path()), str(BATCHES)]
        environment = {**os.environ, **cards.environment, "HYPERSONIC_EMU_HANG": hang, "HYPERSONIC_EMU_DEVICES": "1"}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        found = re.search(r"(\d+) right, (\d+) failed, 0 wrong, 0 unanswered", done.stdout)
        assert found is not None, done.stdout
        return found

    return start


def test_every_request_is_answered_right(run: Run) -> None:
    assert run(3)[2] == "0"


def test_the_requests_of_a_unit_that_hangs_run_on_another(run: Run) -> None:
    assert run(2, hang="facile_1:20")[2] == "0"


def test_without_a_unit_all_requests_end(run: Run) -> None:
    answered = run(1, hang="facile_1:20")
    assert int(answered[1]) > 0
    assert int(answered[2]) > 0
