# SPDX-License-Identifier: Apache-2.0
"""Which file found no space, from what tools print and from exceptions."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.hls.disk import full_place, naming


@pytest.mark.parametrize(
    ("said", "file"),
    [
        ("cc1plus: fatal error: error writing to /tmp/ccxy.s: No space left on device", "/tmp/ccxy.s"),
        ("Assembler messages:\n/my tmp/a.o: No space left on device", "/my tmp/a.o"),
        ("OSError: [Errno 28] No space left on device: '/cache/a b/raw.npy'", "/cache/a b/raw.npy"),
        ("[('/from/a', '/to/a', \"[Errno 28] No space left on device: '/from/a' -> '/to/a'\")]", "/to/a"),
        ("x: /home/me/x: Disk quota exceeded", "/home/me/x"),
        ("fatal error: can't write PCH file: No space left on device", "/"),
        ("/usr/bin/ld: final link failed: No space left on device", "/"),
    ],
)
def test_the_file_is_the_one_that_the_tool_names_or_the_directory_it_wrote_in(said: str, file: str) -> None:
    assert full_place(said, Path("/")) == file


@given(st.text(max_size=200))
def test_a_tool_that_failed_for_another_reason_is_not_taken_for_one_without_space(said: str) -> None:
    assert full_place(said, Path("/")) is None


def test_an_error_of_a_full_disk_without_a_file_gets_the_place_that_is_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught, naming(tmp_path), Path("/dev/full").open("w") as file:
        file.write("x" * 100_000)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))


def test_an_error_with_a_file_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path):
        (tmp_path / "none").read_text()
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(shutil.Error) as several, naming(tmp_path):
        raise shutil.Error([("a", "b", "No space left on device")])
    assert "No space left on device" in str(several.value)
