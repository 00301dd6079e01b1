# SPDX-License-Identifier: Apache-2.0
"""perf_analyzer, its binary as published, against ours: that it finishes and reports what the server counted."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.reference import environment
from tests.reference.servers import Served

#: few requests, any spread of latencies accepted: this is no measurement
_SHORT = (
    "--measurement-mode",
    "count_windows",
    "--measurement-request-count",
    "20",
    "--stability-percentage",
    "999",
    "--max-trials",
    "2",
)


@pytest.fixture(scope="session")
def perf_analyzer() -> environment.Program:
    try:
        return environment.perf_analyzer()
    except environment.UnavailableError as error:
        pytest.skip(str(error))


def run(program: environment.Program, report: Path, *options: str) -> dict[str, str]:
    """One row of its CSV report, by column. Its text report goes into a failure's message."""
    argv = [*program.argv, "-x", "1", *_SHORT, "--verbose-csv", "-f", str(report), *options]
    done = subprocess.run(argv, env={**os.environ, **program.env}, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Server:\s+Inference count: [1-9]", done.stdout), done.stdout
    (row,) = csv.DictReader(report.read_text().splitlines())
    return row


@pytest.mark.parametrize("mode", [("--sync",), ("--async",), ("--async", "--streaming")], ids=["sync", "async", "streaming"])
@pytest.mark.parametrize("model", ["facile", "simple_onnx"])
def test_grpc_reports_the_servers_statistics(
    perf_analyzer: environment.Program, hypersonic: Served, tmp_path: Path, mode: tuple[str, ...], model: str
) -> None:
    options = ("-i", "grpc", "-u", hypersonic.grpc, "-m", model, "-b", "8", "--concurrency-range", "2", *mode)
    row = run(perf_analyzer, tmp_path / "report.csv", *options)
    assert float(row["Inferences/Second"]) > 0
    for part in ("Server Queue", "Server Compute Input", "Server Compute Infer", "Server Compute Output"):
        assert float(row[part]) >= 0
    assert float(row["Server Compute Infer"]) > 0


def test_http_reports_the_servers_statistics(perf_analyzer: environment.Program, hypersonic: Served, tmp_path: Path) -> None:
    row = run(perf_analyzer, tmp_path / "report.csv", "-i", "http", "-u", hypersonic.http, "-m", "facile", "-b", "8")
    assert float(row["Server Compute Infer"]) > 0


def test_tensors_in_system_shared_memory(perf_analyzer: environment.Program, hypersonic: Served, tmp_path: Path) -> None:
    memory = ("--shared-memory", "system", "--output-shared-memory-size", "65536")
    row = run(perf_analyzer, tmp_path / "report.csv", "-i", "grpc", "-u", hypersonic.grpc, "-m", "facile", "-b", "16", *memory)
    assert float(row["Server Compute Infer"]) > 0


def test_sequences_and_decoupled_models(perf_analyzer: environment.Program, hypersonic: Served, tmp_path: Path) -> None:
    grpc = ("-i", "grpc", "-u", hypersonic.grpc)
    run(
        perf_analyzer,
        tmp_path / "sequence.csv",
        *grpc,
        "-m",
        "simple_sequence",
        "--sequence-length",
        "5",
        "--async",
        "--streaming",
    )
    run(perf_analyzer, tmp_path / "repeat.csv", *grpc, "-m", "repeat_int32", "--shape", "IN:3", "--async", "--streaming")


def test_ensembles_are_reported_step_by_step(perf_analyzer: environment.Program, hypersonic: Served, tmp_path: Path) -> None:
    picture = tmp_path / "pictures" / "IMAGE"
    picture.parent.mkdir()
    picture.write_bytes(b"P6 4 4 255\n" + bytes(range(48)))
    options = ("-i", "grpc", "-u", hypersonic.grpc, "-m", "image_channels", "--input-data", str(picture.parent))
    assert run(perf_analyzer, tmp_path / "report.csv", *options)
