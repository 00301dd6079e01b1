# SPDX-License-Identifier: Apache-2.0
"""Tests with the mark `whole`: when they are wanted, and the record of what they passed on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.house.graph import ROOT
from tests.support.whole import COVERED, HOURS, group_of, hash_of, record_passed, recorded

pytest_plugins = ["pytester"]


def test_a_mark_names_what_exists() -> None:
    module = ROOT / "tests" / "house" / "test_whole.py"
    assert group_of(("requirements.lock", "hls"), module) == "tests/house/test_whole.py hls requirements.lock"
    assert group_of((), module).split() == ["tests/house/test_whole.py", *COVERED]
    with pytest.raises(ValueError, match="names nowhere, expected files or folders"):
        group_of(("hls", "nowhere"), module)


def test_tests_of_hours_have_a_record_of_their_own_with_the_same_hash() -> None:
    module = ROOT / "tests" / "house" / "test_whole.py"
    short, long = (group_of(("LICENSE",), module, hours=hours) for hours in (False, True))
    assert long == f"{short} {HOURS}"
    assert hash_of(long) == hash_of(short)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "hls").mkdir()
    (tmp_path / "hls" / "a.py").write_text("1")
    (tmp_path / "other").write_text("1")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "changes"), [("hls/a.py", "2", True), ("hls/new.py", "1", True), ("other", "2", False)]
)
def test_the_hash_is_of_the_covered_files_only(tree: Path, name: str, content: str, changes: bool) -> None:
    before = hash_of("hls", tree)
    hash_of.cache_clear()
    (tree / name).write_text(content)
    assert (hash_of("hls", tree) != before) == changes


@pytest.mark.parametrize(("group", "changes"), [("sim", False), ("sim sim/timing", True)])
def test_the_ledger_of_clocks_counts_only_for_the_tests_that_read_it(tree: Path, group: str, changes: bool) -> None:
    (tree / "sim" / "timing").mkdir(parents=True)
    before = hash_of(group, tree)
    hash_of.cache_clear()
    (tree / "sim" / "timing" / "ledger.json").write_text("{}")
    assert (hash_of(group, tree) != before) == changes


@pytest.mark.parametrize(("group", "changes"), [("hls", False), ("docs hls", True)])
def test_words_count_where_the_documentation_shows_them(tree: Path, group: str, changes: bool) -> None:
    before = hash_of(group, tree)
    hash_of.cache_clear()
    (tree / "hls" / "a.py").write_text('"""A docstring."""\n# a comment\n1')
    assert (hash_of(group, tree) != before) == changes


@pytest.mark.parametrize(
    ("name", "changes"), [("tests/a/helper.py", True), ("tests/a/test_b.py", False), ("tests/a/deeper/helper.py", False)]
)
def test_the_hash_is_of_the_helpers_beside_the_module_too(tree: Path, name: str, changes: bool) -> None:
    (tree / "tests" / "a" / "deeper").mkdir(parents=True)
    (tree / "tests" / "a" / "test_a.py").touch()
    before = hash_of("tests/a/test_a.py hls", tree)
    hash_of.cache_clear()
    (tree / name).write_text("1")
    assert (hash_of("tests/a/test_a.py hls", tree) != before) == changes


def test_the_record_keeps_other_groups(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"hls": "old", "sim": "kept"}))
    record_passed(["hls"], record)
    assert recorded(record) == {"hls": hash_of("hls"), "sim": "kept"}


@pytest.mark.parametrize(("choice", "passed"), [("none", 1), ("changed", 1), ("all", 2)])
def test_the_option_selects_them(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, choice: str, passed: int) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = (ROOT / "conftest.py").read_text()
    record = "import tests.support.whole as whole\nwhole.recorded = lambda record=None: {'LICENSE': whole.hash_of('LICENSE')}\n"
    pytester.makeconftest(f"{text}\n{record}\nrecord_passed = lambda groups: print('recorded', list(groups))\n")
    pytester.makepyfile("import pytest\n@pytest.mark.whole('LICENSE')\ndef test_whole(): ...\ndef test_other(): ...\n")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "1", f"--whole={choice}")
    done.assert_outcomes(passed=passed)
    (recorded_line,) = [line for line in done.outlines if "recorded" in line]
    assert recorded_line.endswith("recorded ['LICENSE']" if choice == "all" else "recorded []")
