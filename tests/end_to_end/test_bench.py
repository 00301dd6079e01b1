# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench` gathers what the scripts print; the kernel's own script keeps to its bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hypersonic.bench import SCRIPTS, BenchError, bench


def test_each_scripts_json_is_gathered_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import json, sys; assert sys.argv[1:] == ['--json']; print(json.dumps({'clocks': 7}))")
    (tmp_path / "two.py").write_text("import sys; print('progress', file=sys.stderr); print('[1, 2]')")
    steps: list[str] = []
    assert bench(steps.append, tmp_path) == {"one": {"clocks": 7}, "two": [1, 2]}
    assert steps == ["bench: one", "bench: two"]


def test_a_script_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit('no card')")
    with pytest.raises(BenchError, match=r"bad\.py ended with 1:\nno card"):
        bench(lambda _: None, tmp_path)


def test_an_installation_without_benches_says_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="source repository"):
        bench(lambda _: None, tmp_path)


def test_a_run_of_16000_rows_costs_at_most_its_read_beats_and_15_per_cent() -> None:
    argv = [sys.executable, SCRIPTS / "kernel_clocks.py", "--json"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    for memory in json.loads(printed)["clocks"]:
        assert 18_000 <= memory["single"] <= 1.15 * 18_000
