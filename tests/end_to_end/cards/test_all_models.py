# SPDX-License-Identifier: Apache-2.0
"""`hypersonic infer --all`: one table for the zoo models that a server has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersonic.events import everything
from hypersonic.events.everything import FailedModelsError, Line, show_all
from hypersonic.events.golden import WrongAnswerError
from hypersonic.events.outcome import Outcome
from hypersonic.server_process import start_server
from tests.end_to_end.command_line import hypersonic, refused

HOST = ("deeptau", "deeptau_ensemble", "particlenet")


@pytest.mark.whole("firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")
def test_each_zoo_model_of_a_server_has_a_line_and_the_others_are_named(tmp_path: Path) -> None:
    where = ("--model-repository", tmp_path / "models", "--build-directory", tmp_path / "build")
    for model in ("facile", "jets", *HOST):
        built = hypersonic("build", model, "--target", "sw_emu", "--quiet", *where)
        assert built.returncode == 0, built.stderr
    with start_server(tmp_path / "models", "--emulated-cards", "2") as server:
        done = hypersonic(
            "infer", "--all", "--events", "2", "--url", server.grpc, "--metrics-url", f"http://{server.metrics}/metrics",
            "--output", tmp_path / "result",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = {line["model"]: line for line in json.loads((tmp_path / "result" / "figures.json").read_text())}
    assert list(lines) == ["deeptau", "deeptau_ensemble", "facile", "jets", "particlenet"]
    assert lines["facile"]["compared"] == 2 * 16_000
    assert lines["jets"]["compared"] == 2 * lines["jets"]["rows"] * 5
    assert [lines[name]["compared"] for name in HOST] == [0, 0, 0], "a model on the host has no csim"
    assert all(line["events"] == 2 and line["events_per_s"] > 0 and not line["problem"] for line in lines.values())
    assert "not on the server: anomaly, deepcalo, " in done.stdout


def test_a_model_with_wrong_answers_has_its_reason_in_the_table_and_the_next_one_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object, **__: object) -> Outcome:
        raise WrongAnswerError("3 of 5 answers differ from csim")

    asked = everything.Asked(wrong, "", "", events=1, event_rows=0, clients=1, seed=1, check=True)
    monkeypatch.setattr(everything, "_describe_all", lambda *_: ({"jets": None, "facile": None}, {}))
    lines, missing = everything.infer_all(asked, lambda _: None)
    assert [line.model for line in lines] == ["facile", "jets"]
    assert "deepmet" in missing
    with pytest.raises(FailedModelsError, match="2 of 2 models failed: facile, jets; the table has the reasons"):
        show_all(lines, (), tmp_path)
    assert "3 of 5 answers differ from csim" in " ".join(capsys.readouterr().out.split())


def test_figures_that_a_model_does_not_have_are_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_all([Line("deeptau", 2, 4, events_per_s=12.5, figure="none")], ["jets"], tmp_path)
    out = capsys.readouterr().out
    assert " ".join(out.replace("│", " ").split()).endswith(
        "events/s are those of the emulation on this machine not on the server: jets"
    )
    assert [cell.strip() for cell in out.splitlines()[4].split("│")[1:-1]] == [
        "deeptau",
        "2",
        "4",
        "-",
        "12.5",
        "-",
        "-",
        "none",
    ]


def test_a_server_without_the_zoo_and_options_of_one_model_are_refused(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        refused(hypersonic("infer", "--all", "--url", server.grpc), "has none of the zoo's models", "hypersonic build --all")
    refused(hypersonic("infer"), "got no model, expected the name of a model, or --all")
    refused(hypersonic("infer", "facile", "--all"), "got --all and facile")
    refused(hypersonic("infer", "--all", "--name", "x"), "--name is of one model, got --all too")
    refused(hypersonic("infer", "--all", "--input", "x.root"), "--input is of one model, got --all too")
