# SPDX-License-Identifier: Apache-2.0
"""README.md: its commands for a model of one's own run as they are pasted, and its program asks what they have published."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hypersonic.hls.child import keras_2_environment, script_argv
from hypersonic.server_process import start_server
from tests.end_to_end.command_line import ROOT
from tests.end_to_end.reader import Reader
from tests.end_to_end.tutorial import Commands, read_steps
from tests.support.caches import make_cold_cache

PAGE = (ROOT / "README.md").read_text()
MODEL = Path(__file__).parent / "own" / "own_model.py"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, make_cold_cache(tmp_path / "cache"))
    subprocess.run(script_argv(MODEL, str(reader.directory)), env=keras_2_environment(), check=True, capture_output=True)
    (reader.directory / "mine.keras").rename(reader.directory / "own.keras")
    yield reader
    reader.leave()


@pytest.mark.whole("README.md", "client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim")
def test_the_commands_for_a_model_of_ones_own_do_and_print_what_the_page_says(
    reader: Reader, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = read_steps(PAGE)
    for step in steps:
        assert isinstance(step, Commands)
        reader.run(replace(step, text=step.text.replace("--loss 1%", "--loss 1% --trials 2")))  # of forty
    assert "hypersonic tune own.keras" in step.text
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len([line for line in program.splitlines() if line and "import" not in line]) == 6
    monkeypatch.chdir(reader.directory)
    with start_server(reader.directory / "models") as server:
        exec(compile(program.replace("localhost:8001", server.grpc), "README.md", "exec"), {})
    assert capsys.readouterr().out.count("[") == 5  # an array of four rows


def test_the_first_screen_has_the_picture_the_commands_and_a_model_of_ones_own() -> None:
    screen = "\n".join(PAGE.splitlines()[:45])
    for text in ("docs/overview.svg", "make run", "make test", "hypersonic run own.keras --rows rows.npy --labels labels.npy"):
        assert text in screen


def test_words_of_the_field_are_explained_before_they_are_used() -> None:
    before, _, words = PAGE.partition("| word | meaning |")
    for word in ("csim", "`da`, `rf`", "sigma68"):
        assert f"\n| {word} | " in words
    for word in ("da", "rf", "sigma68", "energy"):
        assert not re.search(rf"\b{word}\b", before)
