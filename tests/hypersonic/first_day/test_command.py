# SPDX-License-Identifier: Apache-2.0
"""`hypersonic first-day` on a machine without a card and without the vendor's tools."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.first_day.steps import NAMES
from hypersonic.host.library import OVERRIDE


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without XRT and Vitis."""
    monkeypatch.setenv(OVERRIDE, str(tmp_path / "libxrt.so"))
    for name in ("XILINX_VITIS", "XILINX_VIVADO"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_without_a_card_it_names_the_rehearsal_and_writes_the_archive(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["first-day"]) == 2
    said = capsys.readouterr().out
    assert "DEVIATION, no card: there is no card 0: " in said
    assert "hypersonic first-day --rehearse" in said
    assert said.splitlines()[-1] == "archive: first-day.tar.gz"
    with tarfile.open("first-day.tar.gz") as archive:
        assert archive.getnames() == [f"first-day/{name}" for name in ("summary.json", "steps/1-devices.txt", "devices.json")]


def test_a_later_step_without_a_build_says_how_to_make_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["first-day", "--only", "memory", "--archive", str(tmp_path / "day.tar.gz")]) == 2
    assert "expected the model built for target hw: hypersonic first-day --build --platform u250" in capsys.readouterr().out
    assert (tmp_path / "day.tar.gz").is_file()


def test_the_archive_is_written_after_ctrl_c_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_root: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("hypersonic.first_day.machine.devices", interrupt)
    assert cli.main(["first-day"]) == 130
    assert capsys.readouterr().out.splitlines()[-1] == "archive: first-day.tar.gz"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--build"], "v++ is neither on PATH nor in $XILINX_VITIS/bin"),
        (["--platform", "aws_f2"], "first-day needs a card that XRT drives, got aws_f2"),
        (["--platform", "u999"], "u999"),
        (["--model", "own.onnx"], "give its rows with --rows FILE"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_paragraph(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.onnx").touch()
    assert cli.main(["first-day", *argv]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "first-day.tar.gz").exists()


@pytest.mark.parametrize("option", ["--from-step", "--only"])
def test_a_step_that_does_not_exist_is_refused_with_those_there_are(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["first-day", option, "lunch"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert all(name in message for name in NAMES)
