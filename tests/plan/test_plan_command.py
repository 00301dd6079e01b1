# SPDX-License-Identifier: Apache-2.0
"""`hypersonic plan` from its user's point of view: in an empty directory, with a file of their own."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hypersonic import cli
from hypersonic.commands.plan import batching_of, server_batching
from hypersonic.plan.farm import Queued, Take, Wait
from hypersonic.plan.published import check_table
from hypersonic.plan.read import Given, make_question
from hypersonic.server.core.scheduling.rule import BatchRule
from tests.plan.metrics import page
from tests.plan.published_model import publish_two
from tests.plan.questions import hlt

FARM = """\
# 3300 HLT jobs behind one switch
workload: {jobs: 3300, rows: 16000}
model: facile
site: {platform: u55c, server_gbps: 100, switch_gbps: 400, background_gbps: 40}
target: {p99_ms: 20, headroom: 0.9}
"""


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_plan_from_a_file_with_latencies_a_picture_and_json(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty / "farm.yaml").write_text(FARM)
    assert cli.main(["plan", "--file", "farm.yaml", "--json", "farm.json", "--plot", "farm.svg"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("facile on u55c: 3,300 jobs, ")
    for text in ("take 2 cards", "memory bank", "read from a file (farm.yaml)", "assumed (platforms/u55c.toml)", "p99, ms"):
        assert text in printed, text
    data = json.loads((empty / "farm.json").read_text())
    assert (data["cards"], data["limited_by"], data["target_reached"]) == (2, "memory bank", True)
    assert [point["ratio"] for point in data["points"]] == [0.5, 0.8, 0.9, 1.0, 1.1, 1.5]
    assert "<svg" in (empty / "farm.svg").read_text()

    assert cli.main(["plan", "--file", "farm.json", "--json", "again.json", "--no-simulation"]) == 0
    again = json.loads((empty / "again.json").read_text())
    same = ("inputs", "limits", "changes", "cards", "saturation_jobs", "required_events_per_s")
    assert {name: again[name] for name in same if name != "limits"} == {name: data[name] for name in same if name != "limits"}
    assert [limit["events_per_s"] for limit in again["limits"]] == [limit["events_per_s"] for limit in data["limits"]]


def test_a_name_and_jobs_are_enough(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "facile", "--jobs", "3300", "--no-simulation"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("facile on u250: 3,300 jobs, 5,47")
    assert " events/s take 3 cards, with 0.8 of the capacity in use.\n" in printed
    assert not list(empty.iterdir())


def test_a_target_that_is_missed_is_exit_code_1(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "facile", "--jobs", "3300", "--cards", "1", "--no-simulation"]) == 1
    assert "NOT reached" in capsys.readouterr().out
    assert cli.main(["plan", "facile", "--jobs", "30000", "--switch-gbps", "100", "--no-simulation"]) == 1
    assert "no number of cards serves 30,000 jobs" in capsys.readouterr().out
    assert not list(empty.iterdir())


def test_a_running_servers_times_are_scraped(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page(mean_us=160.0).encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        argv = ["plan", "facile", "--metrics", url, "--jobs", "1000", "--network-gbps", "100", "--json", "plan.json"]
        assert cli.main([*argv, "--no-simulation"]) == 0
        assert cli.main(["plan", "jets", "--metrics", url, "--jobs", "1000"]) == 2
        server.shutdown()
    captured = capsys.readouterr()
    data = json.loads((empty / "plan.json").read_text())
    limits = {limit["part"]: limit for limit in data["limits"]}
    assert limits["compute units"]["events_per_s"] == pytest.approx(data["cards"] / 160e-6)
    assert limits["compute units"]["basis"] == "measured"
    assert data["marks"]["model.metrics"] == {"basis": "measured", "source": url}
    assert "has the histograms of facile, expected that of model 'jets'" in captured.err


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["facile", "--jobs", "10", "--platform", "u251"], "platform is 'u251', expected one of "),
        (["facile", "--jobs", "10", "--platform", "aws_f1"], "; did you mean aws_f2?"),
        (["facil", "--jobs", "10"], "did you mean facile?"),
        (["facile", "--jobs", "10", "--platform", "U250"], "; did you mean u250?"),
        (["facile", "--jobs", "10", "--json", "none/plan.json"], "--json is 'none/plan.json', and "),
        (["facil", "--jobs", "10"], "did you mean facile? For any other model"),
        (["facile"], "give --jobs or --events-per-s"),
        (["--jobs", "10"], "model.name is missing"),
        (["facile", "--jobs", "10", "--share", "1.5"], "workload.share is 1.5"),
        (["facile", "--jobs", "10", "--network-gbps", "0"], "a plan needs a network"),
        (["facile", "--jobs", "10", "--events-per-s", "900"], "contradict each other"),
        (["facile", "--jobs", "10", "--p99-ms", "0.1"], "target.p99_ms is 0.1"),
        (["facile", "--jobs", "10", "--metrics", "http://127.0.0.1:1/metrics"], "http://127.0.0.1:1/metrics does not answer"),
        (["facile", "--jobs", "10", "--model-repository", "."], "is not a directory, expected the folder of a model"),
        (["facile", "--jobs", "10", "--plot", "farm.txt"], "--plot is 'farm.txt', expected a file that ends in .png"),
        (["facile", "--jobs", "10", "--plot", "none/farm.png"], "is not a directory; make it first"),
        (["--file", "none.yaml"], "none.yaml: No such file"),
    ],
)
def test_wrong_input_is_one_error_and_exit_code_2(
    empty: Path, capsys: pytest.CaptureFixture[str], argv: list[str], error: str
) -> None:
    assert cli.main(["plan", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("hypersonic: error: ")
    assert error in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out
    assert not list(empty.iterdir())


def test_the_check_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--check"]) == 0
    assert capsys.readouterr().out == check_table()


def test_the_simulation_asks_the_servers_own_rule() -> None:
    choose = batching_of(BatchRule(100, merge=True, preferred_rows=frozenset({50}), max_delay_ns=1000))
    assert choose([Queued(20, 0), Queued(30, 10)], 20) == Take(2, 50)
    assert choose([Queued(20, 0)], 20) == Wait(1000)
    assert choose([Queued(20, 0)], 1000) == Take(1, 20)
    assert choose([Queued(250, 0)], 5) == Take(1, 100)
    facile = server_batching(hlt())
    assert facile([Queued(16_000, 0), Queued(16_000, 0)], 1) == Take(1, 16_000)


def test_the_rule_of_a_published_model_is_that_of_its_configuration(tmp_path: Path) -> None:
    folder = publish_two(tmp_path, preferred_rows=7, delay_us=9)
    choose = server_batching(make_question(Given({"model.name": str(folder), "workload.jobs": 1})))
    assert choose([Queued(3, 0), Queued(4, 0)], 1) == Take(2, 7)
    assert choose([Queued(3, 0)], 1) == Wait(9000)
