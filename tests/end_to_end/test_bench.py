# SPDX-License-Identifier: Apache-2.0
"""`hypersonic bench` collects the figures of its scripts; the kernel's clock counts stay within their bound."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from hypersonic.commands.bench import KERNEL_HELP, KINDS, SCRIPTS, BenchError, bench
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.sim.card.direct import MemoryTiming
from hypersonic.sim.card.simulator import build_hardware_simulator
from tests.support.rtl.bench_weights import write_bench_weights


def test_each_scripts_json_is_gathered_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "kernel_one.py").write_text(
        "import json, sys; assert sys.argv[1:] == ['--json']; print(json.dumps({'clocks': 7}))"
    )
    (tmp_path / "server_two.py").write_text("import sys; print('progress', file=sys.stderr); print('[1, 2]')")
    steps: list[str] = []
    assert bench(steps.append, tmp_path) == {"kernel_one": {"clocks": 7}, "server_two": [1, 2]}
    assert steps == ["bench: kernel_one", "bench: server_two"]


def test_scripts_of_other_kinds_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "kernel_one.py").write_text("print(1)")
    (tmp_path / "client_tables.py").write_text("raise SystemExit('knows no --json')")
    assert bench(lambda _: None, tmp_path) == {"kernel_one": 1}


@pytest.mark.parametrize("script", [file.name for file in sorted(SCRIPTS.glob("*.py")) if file.name.startswith(KINDS)])
def test_the_benches_of_kernel_and_server_take_json(script: str) -> None:
    shown = subprocess.run([sys.executable, script, "--help"], cwd=SCRIPTS, capture_output=True, text=True, check=True).stdout
    assert "--json" in shown


def test_a_script_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "server_bad.py").write_text("raise SystemExit('no card')")
    with pytest.raises(BenchError, match=r"server_bad\.py ended with 1:\nno card"):
        bench(lambda _: None, tmp_path)


def test_an_installation_without_benches_says_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="source repository"):
        bench(lambda _: None, tmp_path)


@pytest.mark.whole("bench", "firmware", "hls", "hypersonic", "requirements.lock", "sim")
def test_bench_kernel_prints_what_each_channel_waited_for_and_its_help_says_what_the_columns_are() -> None:
    command = [sys.executable, "-m", "hypersonic.cli", "bench", "kernel"]
    asked = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "usage: hypersonic bench kernel" in asked
    assert KERNEL_HELP.splitlines()[0] in " ".join(asked.split())
    printed = subprocess.run(
        [*command, "--rows", "32", "--latency", "50", "--network-gbps", "100"], capture_output=True, text=True, check=True
    ).stdout
    head, columns, ideal, slow = printed.splitlines()[:4]
    assert head == "FP32 in, FP32 out, 32 rows per run"
    assert columns.split("|")[1].split() == ["AR", "R", "core", "behind", "AW", "W"]
    assert re.match(r"[\d,]+ events/s on one u250, limited by the memory bank: a prediction$", printed.splitlines()[4])
    waited = [[int(count) for count in line.split("|")[1].split()] for line in (ideal, slow)]
    assert waited[1][1] == waited[0][1] + 49  # the first beat comes so much later
    assert [waits[:1] + waits[2:] for waits in waited] == [[0] * 5] * 2


def test_bench_kernel_of_a_model_that_is_none_says_so_in_one_sentence() -> None:
    command = [sys.executable, "-m", "hypersonic.cli", "bench", "kernel", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"hypersonic: error: model is 'nosuch', expected a zoo name \(.*\bfacile, ", done.stderr)
    assert done.stderr.count("\n") == 1


def test_runs_of_every_wire_format_cost_their_beats_3_per_cent_and_600_clocks_and_one_row_at_most_700() -> None:
    argv = [sys.executable, str(SCRIPTS / "kernel_clocks.py"), "--json"]
    printed = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    measured = [clocks for kernel in printed["kernels"] for clocks in kernel["clocks"]]
    assert {(c["datatypes"][0], c["memory"]) for c in measured} >= {
        (datatype, memory) for datatype in ("FP32", "FP16", "INT16") for memory in ("ideal", "200 clocks")
    }
    for clocks in measured:
        assert clocks["bound"] <= clocks["single"] <= 1.03 * clocks["bound"] + 600, clocks
        assert clocks["one_row"] <= 700, clocks
        latency_clocks = 1 if clocks["memory"] == "ideal" else int(clocks["memory"].removesuffix(" clocks"))
        assert clocks["gap"] <= latency_clocks, clocks  # no bubble between runs is longer than the memory's latency
        if clocks["datatypes"][0] in ("FP16", "INT16"):
            assert clocks["bound"] == clocks["rows"]  # a row a clock


def test_the_weights_of_a_kernel_are_loaded_before_its_runs_are_measured(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPTS / "kernel_clocks.py"))
    kernel = write_kernel(write_bench_weights(tmp_path), tmp_path)
    clocks = script["measure"](kernel, build_hardware_simulator(kernel), 400, 3, ("ideal", MemoryTiming()))
    assert 400 * kernel.core.ii == clocks.bound <= clocks.single <= clocks.allowed
    assert clocks.one_row <= 50
