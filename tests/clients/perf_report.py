# SPDX-License-Identifier: Apache-2.0
"""One run of perf_analyzer, and what its text and its CSV file say about the server."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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


class Analyzer(NamedTuple):
    """perf_analyzer, where a test leaves remarks (`record_property`), and the runs that hung, which may have sent all requests."""

    program: Program
    remark: Callable[[str, object], None]
    hung: list[str]


def analyze(analyzer: Analyzer, directory: Path, *options: str) -> Sequence[Measurement]:
    """Run perf_analyzer; return one measurement for each concurrency or rate."""
    report = directory / "report.csv"
    done = _run(analyzer, ["--verbose-csv", "-f", str(report), *options])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    texts = re.split(r"\nRequest (?:concurrency|Rate): [^,\n]+(?=\n)", done.stdout)[1:]
    rows = list(csv.DictReader(report.read_text().splitlines()))
    rows.sort(key=lambda row: float(next(iter(row.values()))))  # by concurrency or rate; the file has the quickest first
    assert len(texts) == len(rows), done.stdout
    return [_measurement(text, row) for text, row in zip(texts, rows, strict=True)]


def _run(analyzer: Analyzer, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run it, and once more with a remark if it hangs; one of some hundred runs at a given rate did."""
    program = analyzer.program
    argv, env = [*program.argv, *options], {**os.environ, **program.env}
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    analyzer.hung.append(" ".join(options))
    analyzer.remark("noteworthy", f"perf_analyzer hung, and was run again: {analyzer.hung[-1]}")
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)


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
