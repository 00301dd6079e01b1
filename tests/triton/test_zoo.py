# SPDX-License-Identifier: Apache-2.0
"""Zoo models of both cores in tritonserver: `hypersonic build`, `hypersonic triton serve`, `hypersonic infer --all`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command_line import hypersonic
from tests.support.triton_program import triton_program

MODELS = ("facile", "jets")


@pytest.mark.whole("firmware", "hls", "host/errors.py", "hypersonic", "requirements.lock", "sim", "triton")
def test_each_answer_of_zoo_models_in_tritonserver_is_csim_s(tmp_path: Path) -> None:
    place = tmp_path / "models"
    for model in MODELS:
        where = ("--model-repository", place, "--build-directory", tmp_path / "build")
        built = hypersonic("build", model, "--target", "sw_emu", "--quiet", *where)
        assert built.returncode == 0, built.stderr
    with triton_program(f"--model-repository={place}") as server:
        metrics = f"http://{server.ports['Metrics Service']}/metrics"
        done = hypersonic(
            "infer", "--all", "--events", "2", "--url", server.grpc, "--metrics-url", metrics, "--output", tmp_path / "result"
        )
    assert done.returncode == 0, done.stderr
    lines = {line["model"]: line for line in json.loads((tmp_path / "result" / "figures.json").read_text())}
    assert list(lines) == list(MODELS)
    assert lines["facile"]["compared"] == 2 * 16_000
    assert lines["jets"]["compared"] == 2 * lines["jets"]["rows"] * 5
    assert all(line["events"] == 2 and not line["problem"] for line in lines.values())
