# SPDX-License-Identifier: Apache-2.0
"""Skips of optional tests: their reasons, the lines that end a run, and the one list of Debian packages that texts repeat."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.graph import ROOT
from tests.house.tracked import tracked_files
from tests.support.optional import enabling, needs, packages

pytest_plugins = ["pytester"]


def test_packages_are_counted_and_installed_by_one_line() -> None:
    reasons = [needs("tcl"), needs("slurm-wlm", "munge", detail="slurmd not found"), needs("tcl"), "needs root", "needs root"]
    assert enabling(reasons) == [
        "2 skipped tests need the Debian package tcl",
        "1 skipped test needs the Debian package slurm-wlm",
        "1 skipped test needs the Debian package munge",
        "2 skipped: needs root",
        "to run them: apt-get install munge slurm-wlm tcl",
    ]


def test_details_of_reasons_do_not_make_groups() -> None:
    assert enabling(["needs the network: a failed", "needs the network: b failed"]) == ["2 skipped: needs the network"]
    assert enabling([]) == []


def test_every_package_that_a_test_names_is_listed() -> None:
    known = set(packages("optional"))
    for file in tracked_files():
        if file.suffix == ".py" and ROOT / "tests" in file.parents and file != Path(__file__):
            assert named_packages(file) <= known, file


def named_packages(file: Path) -> set[str]:
    """The packages in calls of needs, require and skip_without."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    skipped = {"needs": 0, "require": 1, "skip_without": 1}
    return {
        argument.value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in skipped
        for argument in call.args[skipped[call.func.id] :]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


@pytest.mark.parametrize(("text", "names"), [("README.md", ("run", "test")), ("tests/README.md", ("optional",))])
def test_texts_name_the_packages_of_the_list(text: str, names: tuple[str, ...]) -> None:
    written = (ROOT / text).read_text()
    if text == "README.md":
        run, test = (match.split() for match in re.findall(r"apt-get install ([a-z0-9+ -]+)", written))
        assert run == packages("run")
        assert test == packages("test")
    else:
        assert set(packages("optional")) <= set(re.findall(r"`([a-z0-9.+-]+)`", written))


def test_a_run_ends_with_what_its_skips_need(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest((ROOT / "conftest.py").read_text())
    pytester.makepyfile("from tests.support.optional import needs, skip\ndef test_one():\n    skip(needs('tcl'))\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "1", "-rs")
    assert result.ret == 0, result.outlines + result.errlines
    ends = ["1 skipped test needs the Debian package tcl", "to run them: apt-get install tcl"]
    assert [line for line in result.outlines if line in ends] == ends
    assert result.outlines.index(ends[0]) > next(i for i, line in enumerate(result.outlines) if line.startswith("SKIPPED"))
