# SPDX-License-Identifier: Apache-2.0
"""The process that converts candidates ends, and the next request starts another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.hls.errors import ConversionError
from hypersonic.hls.tune import candidates


def test_a_request_after_the_process_ended_is_answered_by_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_PROGRAM", "tests.hls.tune.ending_program")
    model = tmp_path / "model.keras"
    model.touch()
    with candidates.Candidates(model) as asked:
        with pytest.raises(ConversionError, match=r"the conversions of .* ended with 1: IndexError: beyond the end"):
            asked.inputs()
        assert asked.inputs() == [("x", (4,), False)]


def test_a_file_of_rows_that_is_not_there_is_named_before_a_process_starts(tmp_path: Path) -> None:
    with candidates.Candidates(tmp_path / "model.keras") as asked, pytest.raises(FileNotFoundError, match=r"none\.npy"):
        asked.survey(tmp_path / "none.npy")
