# SPDX-License-Identifier: Apache-2.0
"""Builds are found by what went into them, never half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.hls.cache import CacheError, cache_directory, cached, content_hash


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))


def test_the_same_parts_build_once_and_another_part_builds_anew() -> None:
    built: list[Path] = []

    def build(directory: Path) -> None:
        built.append(directory)
        (directory / "made").write_text(str(len(built)))

    first = cached("kind", ["a", b"b"], build)
    assert cached("kind", ["a", b"b"], build) == first
    other = cached("kind", ["a", b"c"], build)
    assert [(place / "made").read_text() for place in (first, other)] == ["1", "2"]
    assert len(built) == 2


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again() -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise RuntimeError("no g++")

    with pytest.raises(RuntimeError, match="no g\\+\\+"):
        cached("kind", ["a"], fail)
    assert list((cache_directory() / "kind").iterdir()) == []
    assert cached("kind", ["a"], lambda directory: None).is_dir()


def test_the_slower_of_two_equal_builds_takes_the_faster_ones() -> None:
    def fast(directory: Path) -> None:
        (directory / "made").write_text("faster")

    def slow(directory: Path) -> None:
        cached("kind", ["a"], fast)
        (directory / "made").write_text("slower")

    assert (cached("kind", ["a"], slow) / "made").read_text() == "faster"


def test_how_parts_are_cut_and_what_files_hold_both_count(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("one")
    hashes = {content_hash(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], [file.parent])}
    file.write_text("two")
    hashes |= {content_hash([file.parent])}
    file.rename(file.with_name("renamed"))
    hashes |= {content_hash([file.parent]), content_hash([file.with_name("renamed"), "more"])}
    assert len(hashes) == 7


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("HYPERSONIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "hypersonic"


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError, match=r"file/cache, which cannot be written: Not a directory; set HYPERSONIC_CACHE"):
        cached("kind", ["a"], lambda _: None)
