# SPDX-License-Identifier: Apache-2.0
"""`hypersonic load` as a user runs it, against a real gRPC server."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic import cli
from hypersonic.client.load import LoadError, Point, loops
from hypersonic.commands.load import parse_rates
from tests.end_to_end.command_line import hypersonic, refused
from tests.support.scripted_server import Script, fail, scripted_server, wait

SHORT = ("--requests", "12", "--warm-up-s", "0", "--rows", "2")


@pytest.fixture
def server() -> Iterator[str]:
    with scripted_server(Script(infer=wait(0.01))) as url:
        yield url


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_sweep_of_concurrencies_prints_a_table_and_writes_figures_and_a_picture(server: str, tmp_path: Path) -> None:
    files = tmp_path / "load.csv", tmp_path / "load.png"
    done = hypersonic(
        "load", "double", "--url", server, "--concurrency", "1:4", *SHORT, "--csv", files[0], "--plot", files[1]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("load: ")] == [
        f"load: concurrency {n}" for n in (1, 2, 3, 4)
    ]
    assert "double, 2 rows a request: closed loop" in done.stdout
    assert "fit T = N / l = max(T0, N / l_max): unloaded latency T0 = " in done.stdout
    assert f"plot: {files[1]}" in done.stdout
    lines = read(files[0])
    assert [(line["loop"], line["concurrency"], line["answered"], line["failed"]) for line in lines] == [
        ("closed", str(n), "12", "0") for n in (1, 2, 3, 4)
    ]
    assert all(float(line["p50_ms"]) >= 10 for line in lines)
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_two_concurrencies_confirm_no_fit_and_the_command_says_so(server: str) -> None:
    done = hypersonic("load", "double", "--url", server, "--concurrency", "1,2", *SHORT, "--quiet")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "note: two points fit the law whatever the server does, so these figures are not confirmed: measure three" in words


@given(first=st.integers(1, 500), step=st.integers(1, 50), more=st.integers(0, 60), tenths=st.booleans())
def test_a_range_of_rates_is_its_numbers_with_the_last_one(first: int, step: int, more: int, tenths: bool) -> None:
    scale = 10 if tenths else 1
    last = (first + more * step) / scale
    rates = parse_rates(f"{first / scale}:{last}:{step / scale}")
    assert rates == pytest.approx([(first + place * step) / scale for place in range(more + 1)])
    assert parse_rates("50,100.5") == (50, 100.5)


def test_rates_are_offered_until_one_is_not_kept(server: str, tmp_path: Path) -> None:
    options = ("--rate", "40:80:40", "--arrivals", "constant", *SHORT, "--csv", tmp_path / "load.csv", "--quiet")
    done = hypersonic("load", "double", "--url", server, *options, "--plot", tmp_path / "load.svg")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "double, 2 rows a request: open loop, constant arrivals" in done.stdout
    assert "rate that was kept" in done.stdout or "no rate was kept" in done.stdout
    lines = read(tmp_path / "load.csv")
    assert [line["offered_per_s"] for line in lines] == ["40", "80"][: len(lines)]
    assert all(line["rate_kept"] == "yes" for line in lines[:-1])
    assert (tmp_path / "load.svg").read_text().startswith("<?xml")


def test_a_model_that_the_server_does_not_have_is_named_with_those_that_it_has(server: str) -> None:
    done = hypersonic("load", "doubel", "--url", server)
    refused(done, "has no model 'doubel' (it has double)")
    assert len(done.stderr.splitlines()) == 1


def test_without_a_server_the_message_says_where_it_looked() -> None:
    done = hypersonic("load", "double", "--url", "localhost:1", "--url", "localhost:2")
    refused(done, "localhost:1, localhost:2: UNAVAILABLE: ", "; is `hypersonic serve` running there?")
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_refuses_everything_is_an_error_with_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(Script(infer=fail(grpc.StatusCode.INTERNAL, "broken"))) as url:
        assert cli.main(["load", "double", "--url", url, *SHORT, "--quiet"]) == 2
    captured = capsys.readouterr()
    assert "all failed" in captured.out
    assert "no request to model 'double' was answered, 12 failed: " in captured.err
    assert captured.err.rstrip().endswith("INTERNAL: broken")


def test_an_interrupted_sweep_prints_what_was_measured(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = loops.measure

    def interrupted(client, model, requests, offer, window) -> Point:
        if offer.concurrency == 2:
            raise KeyboardInterrupt
        return measure(client, model, requests, offer, window)

    monkeypatch.setattr(loops, "measure", interrupted)
    file = tmp_path / "load.csv"
    argv = ["load", "double", "--url", server, "--concurrency", "1,2,4", *SHORT, "--quiet", "--csv", str(file)]
    assert cli.main(argv) == 130
    captured = capsys.readouterr()
    assert "closed loop" in captured.out
    assert captured.err == "interrupted\n"
    assert [line["concurrency"] for line in read(file)] == ["1"]


def test_a_plot_without_matplotlib_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "hypersonic.client.load.picture", raising=False)
    monkeypatch.delattr("hypersonic.client.load.picture", raising=False)
    assert cli.main(["load", "double", "--url", "localhost:1", "--plot", "x.png"]) == 2
    assert "a plot needs matplotlib, which is not installed: pip install matplotlib" in capsys.readouterr().err


def test_a_plots_file_is_checked_before_anything_is_sent(tmp_path: Path) -> None:
    from hypersonic.client.load import picture

    with pytest.raises(LoadError, match=r"the plot's file is 'load\.xls', expected a name that ends with one of .*\.png"):
        picture.check_path(Path("load.xls"))
    with pytest.raises(LoadError, match="no such directory"):
        picture.check_path(tmp_path / "nowhere" / "load.png")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--concurrency", "0"], "got '0', expected numbers above 0 such as 1,2,4,8 or 1:8 or 2:16:2"),
        (["--concurrency", "4:1"], "got '4:1', expected numbers above 0"),
        (["--concurrency", "1:2:3:4"], "got '1:2:3:4', expected numbers above 0"),
        (["--rate", "10,-1"], "got '10,-1', expected requests/s above 0 such as 50,100,200"),
        (["--rate", "nan"], "got 'nan', expected requests/s above 0"),
        (["--concurrency", "1:99999999999"], "or 2:16:2, at most 1000 of them"),
        (["--rate", "1000:5000"], "got '1000:5000', expected requests/s above 0 such as 50,100,200 or 1000:5000:1000"),
        (["--rate", "1:1e12:1"], "or 1000:5000:1000, at most 1000 of them"),
        (["--rate", "5:1:1"], "got '5:1:1', expected requests/s above 0"),
        (["--rate", "0:5:1"], "got '0:5:1', expected requests/s above 0"),
        (["--rate", "1:5:0"], "got '1:5:0', expected requests/s above 0"),
        (["--rate", "inf:5:1"], "got 'inf:5:1', expected requests/s above 0"),
        (["--rate", "1:inf:1"], "got '1:inf:1', expected requests/s above 0"),
        (["--rate", "5", "--concurrency", "5"], "not allowed with argument"),
        (["--duration-s", "-1"], "got '-1', expected a number of seconds"),
        (["--shape", "3,4"], "got '3,4', expected NAME:D,.. such as image:3,224,224"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["load", "double", *options])
    assert message in capsys.readouterr().err
