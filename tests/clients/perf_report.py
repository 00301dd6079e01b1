# SPDX-License-Identifier: Apache-2.0
"""One run of perf_analyzer, and what its text and its CSV file say about the server."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.environments import Program

#: what each part of a request's time is called in the CSV file
CSV_PARTS = {
    "queue": "Server Queue",
    "compute input": "Server Compute Input",
    "compute infer": "Server Compute Infer",
    "compute output": "Server Compute Output",
}
_COUNTS = r"Inference count: (\d+)\s+Execution count: (\d+)\s+Successful request count: (\d+)\s+Avg request latency: (\d+) usec \((.*)\)"
_SERVER = re.compile(r"\n  Server: \s+" + _COUNTS)
_COMPOSING = re.compile(r"\n  (\S+), version: (\d+)\s+" + _COUNTS)
_CLIENT = re.compile(r"\n  Client: \s+Request count: (\d+)")
_LATENCY = re.compile(r"\n    Avg latency: (\d+) usec")


class Counted(NamedTuple):
    """The growth of a model's statistics over the measurement. Times are means over the successful requests, in us."""

    inferences: int
    executions: int
    successes: int
    latency_us: int
    parts_us: Mapping[str, int]


class Measurement(NamedTuple):
    """One concurrency or rate. requests, latency_us: as the client saw them; composing: an ensemble's steps by model; row: of the
    CSV file, by column."""

    requests: int
    latency_us: int
    server: Counted
    composing: Mapping[str, Counted]
    row: Mapping[str, str]
    text: str


def analyze(program: Program, directory: Path, *options: str) -> Sequence[Measurement]:
    """Run perf_analyzer; return one measurement for each concurrency or rate."""
    report = directory / "report.csv"
    argv = [*program.argv, "--verbose-csv", "-f", str(report), *options]
    done = subprocess.run(argv, env={**os.environ, **program.env}, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    texts = re.split(r"\nRequest (?:concurrency|Rate): [^,\n]+(?=\n)", done.stdout)[1:]
    rows = list(csv.DictReader(report.read_text().splitlines()))
    rows.sort(key=lambda row: float(next(iter(row.values()))))  # by concurrency or rate; the file has the quickest first
    assert len(texts) == len(rows), done.stdout
    return [_measurement(text, row) for text, row in zip(texts, rows, strict=True)]


def _measurement(text: str, row: Mapping[str, str]) -> Measurement:
    client, latency, server = _CLIENT.search(text), _LATENCY.search(text), _SERVER.search(text)
    assert client, text
    assert latency, text
    assert server, text
    composing = {match[1]: _counted(match.groups()[2:]) for match in _COMPOSING.finditer(text)}
    return Measurement(int(client[1]), int(latency[1]), _counted(server.groups()), composing, row, text)


def _counted(found: Sequence[str]) -> Counted:
    *counts, parts = found
    named = dict(re.findall(r"(?:^|\+ )([a-z ]+) (\d+) usec", parts))
    inferences, executions, successes, latency = map(int, counts)
    return Counted(inferences, executions, successes, latency, {part: int(us) for part, us in named.items()})
