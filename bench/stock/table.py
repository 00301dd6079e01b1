# SPDX-License-Identifier: Apache-2.0
"""The results of hls4ml's test cases, as a table in Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.stock.cases import Kind, Result, file_of

COLUMNS = (Kind.EQUAL, Kind.REFUSED, Kind.CRASHED, Kind.DIFFERENT, Kind.SLOW, Kind.THEIRS, Kind.UNASKED)


def table(results: Sequence[Result], listed: Sequence[Path]) -> str:
    """Return the table, with a row for each file, named without test_ and .py, after a line on what was run.

    listed: the files with all cases that the plugin wrote.
    """
    names = {case for file in listed if file.is_file() for case in json.loads(file.read_text())["counted"]}
    of_file = Counter(map(file_of, names))
    files = sorted(set(of_file) | {file_of(result.case) for result in results})
    lines = [
        f"{len(results)} of {len(names)} cases were run.",
        "",
        f"| file | cases | run | {' | '.join(kind.value for kind in COLUMNS)} |",
        f"|---|{'---:|' * (len(COLUMNS) + 2)}",
    ]
    waiting = []
    for file in files:
        run = [result for result in results if file_of(result.case) == file]
        if run:
            lines.append(_line(file.removeprefix("test_").removesuffix(".py"), of_file[file], run))
        else:
            waiting.append(file)
    if waiting:
        lines.append(_line(f"{len(waiting)} files of which none was run", sum(of_file[file] for file in waiting), []))
    lines.append(_line("all", len(names), results))
    return "\n".join(lines)


def _line(name: str, cases: int, run: Sequence[Result]) -> str:
    kinds = Counter(result.kind for result in run)
    return f"| {name} | {cases} | {len(run)} | {' | '.join(str(kinds[kind] or '') for kind in COLUMNS)} |"
