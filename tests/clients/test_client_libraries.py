# SPDX-License-Identifier: Apache-2.0
"""Client libraries that people use in tritonclient's place, unchanged: PyTriton's clients, KServe's Python client, tritony."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.clients import program_cases
from tests.clients.conftest import SERVERS
from tests.clients.networks import Network, on_card, summing
from tests.clients.program_cases import Arrays, Case
from tests.reference import environment
from tests.reference.servers import Served

HERE = Path(__file__).parent
pytestmark = pytest.mark.whole("host", "requirements.lock", "server", "tests/*.txt")


class Checked(NamedTuple):
    """A case, and what raises where the outputs are not the answer to the inputs."""

    case: Case
    check: Callable[[Arrays, Arrays], None]


def of(network: Network) -> Checked:
    """Rows of features -> an energy a row."""
    case = Case(
        network.server.grpc,
        network.server.http,
        network.model,
        len(network.rows),
        {network.given: network.rows},
        [network.wanted],
    )

    def check(inputs: Any, outputs: Any) -> None:
        network.check(inputs[network.given], outputs[network.wanted])

    return Checked(case, check)


def addsub(server: Served) -> Checked:
    """More rows than one request takes: tritony makes three requests of them."""
    a, b = np.random.default_rng(8).integers(-999, 1000, (2, 20, 16)).astype(np.int32)
    return Checked(Case(server.grpc, server.http, "simple", 8, {"INPUT0": a, "INPUT1": b}, ["OUTPUT0", "OUTPUT1"]), check_sums)


def check_sums(inputs: Any, outputs: Any) -> None:
    np.testing.assert_array_equal(outputs["OUTPUT0"], inputs["INPUT0"] + inputs["INPUT1"])
    np.testing.assert_array_equal(outputs["OUTPUT1"], inputs["INPUT0"] - inputs["INPUT1"])


def repeat(server: Served) -> Checked:
    x = np.array([4, 5, 6, 7], np.int32)
    return Checked(Case(server.grpc, server.http, "repeat_int32", 0, {"IN": x}, ["OUT", "IDX"]), check_repeated)


def check_repeated(inputs: Any, outputs: Any) -> None:
    np.testing.assert_array_equal(outputs["OUT"], inputs["IN"])
    np.testing.assert_array_equal(outputs["IDX"], np.arange(len(inputs["IN"])))


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> dict[str, Checked]:
    """A network on each backend, and integers."""
    cases = {"FACILE-on-card": of(on_card(request.getfixturevalue("card")))}
    for name in SERVERS:
        server = request.getfixturevalue(name)
        cases |= {f"{name}-sums": of(summing(server, "facile")), f"{name}-integers": addsub(server)}
    return cases | {"onnxruntime-sums": of(summing(request.getfixturevalue("hypersonic"), "facile_onnx"))}


def check_answers(library: str, cases: dict[str, Checked], directory: Path) -> None:
    """All cases in one process: some of these libraries take seconds to import."""
    python = environment.environment(library) / "bin" / "python"
    program_cases.write(directory, {name: checked.case for name, checked in cases.items()})
    argv = [str(python), str(HERE / f"{library}_program.py"), str(directory)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for name, checked in cases.items():
        answers = program_cases.read(directory, name)
        assert answers, f"{library} asked nothing of {name}"
        for way, outputs in answers.items():
            count = len(outputs[checked.case.outputs[0]])
            assert count, f"{name}, {way}: no rows"
            try:
                checked.check(program_cases.first(checked.case, count), outputs)
            except AssertionError as error:
                raise AssertionError(f"{name}, {way}: {error}") from error


def test_pytriton(cases: dict[str, Checked], hypersonic: Served, tmp_path: Path) -> None:
    """ModelClient reads the whole configuration and knows only some kinds of instances."""
    check_answers("pytriton", cases | {"repeated": repeat(hypersonic)}, tmp_path)


def test_kserve(cases: dict[str, Checked], tmp_path: Path) -> None:
    check_answers("kserve", cases, tmp_path)


def test_tritony(cases: dict[str, Checked], tmp_path: Path) -> None:
    """It sends `timeout: 30` with each request: microseconds, which count only where a queue policy lets them."""
    check_answers("tritony", cases, tmp_path)
