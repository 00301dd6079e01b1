# SPDX-License-Identifier: Apache-2.0
"""Builds are found by what went into them, never half done."""

from __future__ import annotations

import errno
import itertools
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hypersonic.hls.cache import CacheError, cache_directory, cached, content_hash
from hypersonic.hls.child import python_argv, python_environment


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


def test_who_needs_what_another_builds_waits_for_it() -> None:
    building, finish = threading.Event(), threading.Event()
    built: list[str] = []

    def slow(directory: Path) -> None:
        building.set()
        assert finish.wait(30)
        (directory / "made").write_text("first")
        built.append("first")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(cached, "kind", ["a"], slow)
        assert building.wait(30)
        others = [threads.submit(cached, "kind", ["a"], lambda _: built.append("again")) for _ in range(2)]
        cached("kind", ["b"], lambda _: None)  # other parts do not wait
        assert not any(other.done() for other in others)
        finish.set()
        assert {(each.result(30) / "made").read_text() for each in (first, *others)} == {"first"}
    assert built == ["first"]
    assert sorted(file.name for file in (cache_directory() / "kind").iterdir() if file.name.startswith(".")) == []


def test_who_waits_builds_when_the_first_build_fails() -> None:
    building, finish = threading.Event(), threading.Event()

    def fail(_: Path) -> None:
        building.set()
        assert finish.wait(30)
        raise RuntimeError("no g++")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cached, "kind", ["a"], fail)
        assert building.wait(30)
        second = threads.submit(cached, "kind", ["a"], lambda directory: (directory / "made").touch())
        finish.set()
        with pytest.raises(RuntimeError, match="no g\\+\\+"):
            first.result(30)
        assert (second.result(30) / "made").exists()


def test_a_builder_that_is_killed_holds_up_nobody() -> None:
    program = (
        "import os, signal\nfrom hypersonic.hls.cache import cached\n"
        "cached('kind', ['a'], lambda _: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    killed = subprocess.run(python_argv("-c", program), env=python_environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    assert cached("kind", ["a"], lambda _: None).is_dir()


@pytest.mark.parametrize("locks", [True, False])
def test_many_threads_agree_on_one_build(locks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks, as on some network file systems, each may build, and the first to finish wins."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:
        monkeypatch.setattr("fcntl.flock", no_locks)
    count = itertools.count()

    def build(directory: Path) -> None:
        (directory / "made").write_text(str(next(count)))

    with ThreadPoolExecutor(8) as threads:
        places = [thread.result(30) for thread in [threads.submit(cached, "kind", ["a"], build) for _ in range(64)]]
    assert len({(place / "made").read_text() for place in places}) == 1
    assert not locks or next(count) == 1


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


def test_a_build_that_finds_no_space_leaves_nothing_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path))

    def build(_directory: Path) -> None:
        with Path("/dev/full").open("w") as file:
            file.write("x" * 9999)

    with pytest.raises(CacheError, match=rf"^{tmp_path}/kind/\.\w+-\w+: No space left on device; free some space, or set"):
        cached("kind", ["x"], build)
    assert [file for file in (tmp_path / "kind").iterdir() if file.suffix != ".lock"] == []
