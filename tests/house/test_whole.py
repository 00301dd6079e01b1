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


@pytest.fixture
def module(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A module with two tests with the mark `whole` and one without, whose record is printed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    text = (ROOT / "conftest.py").read_text()
    record = "import tests.support.whole as whole\nwhole.recorded = lambda record=None: {'LICENSE': whole.hash_of('LICENSE')}\n"
    pytester.makeconftest(f"{text}\n{record}\nrecord_passed = lambda groups: print('recorded', list(groups))\n")
    marked = "@pytest.mark.whole('LICENSE')\ndef test_{}(): ...\n"
    pytester.makepyfile(f"import pytest\n{marked.format('one')}{marked.format('two')}def test_other(): ...\n")
    return pytester


def record_of(module: pytest.Pytester, passed: int, *options: str) -> str:
    done = module.runpytest_subprocess("-n", "1", *options)
    done.assert_outcomes(passed=passed)
    (line,) = [line for line in done.outlines if "recorded" in line]
    return line.partition("recorded ")[2]


@pytest.mark.parametrize(("choice", "passed"), [("none", 1), ("changed", 1), ("all", 3)])
def test_the_option_selects_them(module: pytest.Pytester, choice: str, passed: int) -> None:
    got = record_of(module, passed, "-p", "no:cacheprovider", f"--whole={choice}")
    assert got == ("['LICENSE']" if choice == "all" else "[]")


def test_a_run_of_some_tests_of_a_module_records_nothing(module: pytest.Pytester) -> None:
    name = f"{next(module.path.glob('test_*.py'))}::test_one"
    assert record_of(module, 1, "--whole=all", name) == "[]"
    assert record_of(module, 1, "--whole=all", "-k", "one") == "[]"


def test_a_run_of_those_that_failed_last_records_nothing(module: pytest.Pytester) -> None:
    (file,) = module.path.glob("test_*.py")
    text = file.read_text()
    file.write_text(text.replace("test_one(): ...", "test_one(): assert 0"))
    module.runpytest_subprocess("-n", "1", "--whole=all").assert_outcomes(passed=2, failed=1)
    file.write_text(text)
    assert record_of(module, 1, "--whole=all", "--lf") == "[]"
