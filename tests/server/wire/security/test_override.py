# SPDX-License-Identifier: Apache-2.0
"""A load request's files: where they may be written, what they may be called, how much of them there may be."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hypersonic.server.errors import InvalidRequestError, ModelLoadError
from hypersonic.server.repository.control_mode import check_requested_name
from hypersonic.server.repository.override import Override, OverrideFile, OverridePolicy, discard, read_override, stage

POLICY = OverridePolicy(limit_bytes=1000)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../model.onnx",
            "1/../../x",
            "1/..",
            "1/.",
            "1/",
            "/1/x",
            "1//x",
            "1/a/b",
            "x",
            "",
            "1",
            "0/x",
            "01/x",
            "-1/x",
            "1.0/x",
        ),
        *(
            "1/\0",
            "1/x\0.onnx",
            "1/x\n",
            "1/.hidden",
            "1/a\\b",
            "1/" + "x" * 200,
            "\u0661/x",
            "1/\u00fc",
            "1/~",
            "1/$(id)",
            "1/a b",
        ),
    ],
)
def test_a_file_lies_in_a_version_under_a_plain_name(path: str) -> None:
    with pytest.raises(ModelLoadError, match="invalid load parameter") as error:
        read_override({"config": "{}", f"file:{path}": b"x"}, POLICY)
    assert error.value.text.isprintable()


def test_files_are_written_into_a_private_directory_and_nowhere_else() -> None:
    scratch = stage("m", Override("{}", {OverrideFile("1", "model.onnx"): b"data"}))
    try:
        written = [path for path in scratch.rglob("*") if path.is_file()]
        assert [(path.relative_to(scratch), path.read_bytes()) for path in written] == [(Path("m/1/model.onnx"), b"data")]
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        assert stat.S_IMODE(written[0].stat().st_mode) == 0o600
    finally:
        discard(scratch)
    assert not scratch.exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ModelLoadError, match="failed to store the load request's files") as error:
        stage("m", Override("{}", {OverrideFile("1", "x" * 300): b"the name is too long for any file system"}))
    assert str(tmp_path) not in error.value.text
    assert not list(tmp_path.iterdir())


def test_files_are_bounded_in_number_and_size() -> None:
    for files in ({"file:1/a": bytes(600), "file:1/b": bytes(600)}, {f"file:1/f{n}": b"" for n in range(300)}):
        with pytest.raises(InvalidRequestError, match="expected at most 256 files of 1000 bytes together"):
            read_override({"config": "{}", **files}, POLICY)


def test_an_xclbin_does_not_come_over_the_network_unless_allowed() -> None:
    for name in ("model.xclbin", "MODEL.XCLBIN"):
        with pytest.raises(InvalidRequestError, match="files for a card are not accepted over the network"):
            read_override({"config": "{}", f"file:1/{name}": b"xclbin2"}, POLICY)
    assert read_override({"config": "{}", "file:1/model.xclbin": b"x"}, OverridePolicy(allow_xclbin=True)) is not None


@pytest.mark.parametrize("name", ["../m", "a/b", "/etc", "..", ".", "m\0", "a\\b", "m/../../x", "m\n/..", ""])
def test_a_model_name_is_no_path(name: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        check_requested_name(name)
    assert error.value.text.isprintable()
