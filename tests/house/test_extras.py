# SPDX-License-Identifier: Apache-2.0
"""The extras of pyproject.toml and of hypersonic/extras.py are the same, and every import is of the base or of an extra."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hypersonic import cli, extras
from hypersonic.commands import NAMES
from tests.house.graph import ROOT, read_sources
from tests.house.tracked import tracked_files
from tests.support.optional import NOT_IN_ANY_PACKAGE, skip

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: what the base install has
BASE = {"google", "grpc", "numpy", "rich", "tritonclient"}

#: in no extra: tests' own, the module that Triton's backend gives to a model.py, the program of a client that imports us,
#: HGQ2, which is installed into the cache when a model needs it, and torch, Brevitas and PYNQ, which are in other environments
OTHERS = {
    "cocotb",
    "cocotb_tools",
    "cocotbext",
    "pyslang",
    "pytest",
    "tests",
    "triton_python_backend_utils",
    "coffea",
    "pynq",
    "hgq",
    "torch",
    "brevitas",
}


def imported() -> set[str]:
    """The top-level modules that our modules import, wherever in their text."""
    names = set()
    for file in read_sources(ROOT).values():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).partition(".")[0])
    return names - {"hypersonic"} - set(sys.stdlib_module_names)


def test_every_imported_module_is_of_the_base_or_of_an_extra() -> None:
    known = BASE | OTHERS | {module for modules in extras.MODULES.values() for module in modules}
    assert imported() <= known


def test_the_extras_are_those_of_the_project() -> None:
    assert set(extras.MODULES) == set(PROJECT["optional-dependencies"])


def test_no_module_is_in_two_extras() -> None:
    modules = [module for modules in extras.MODULES.values() for module in modules]
    assert len(set(modules)) == len(modules)


def test_a_python_without_tensorflow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 8, "final", 0))
    assert extras.explain_missing("hls4ml") == (
        "this command needs hls4ml, but TensorFlow has no wheel for Python 3.14: make an environment of Python 3.11, 3.12 or "
        "3.13, and there pip install '.[build]' in a clone of hypersonic"
    )
    other = extras.explain_missing("uvicorn")
    assert other == "this command needs uvicorn, which is not installed: pip install '.[server]' in a clone of hypersonic"


@pytest.mark.parametrize(("module", "extra"), [("uvicorn.config", "server"), ("yaml", "build"), ("tensorflow-cpu", "build")])
def test_a_missing_module_of_an_extra_is_one_sentence_and_the_users_to_mend(module: str, extra: str) -> None:
    text, code = cli.explain_error(ModuleNotFoundError(f"No module named {module!r}", name=module))
    top = module.partition(".")[0]
    assert (text, code) == (
        f"this command needs {top}, which is not installed: pip install '.[{extra}]' in a clone of hypersonic",
        2,
    )


def test_another_missing_module_is_our_fault() -> None:
    assert cli.explain_error(ModuleNotFoundError("No module named 'hypersonic.nope'", name="hypersonic.nope"))[1] == 1


def test_work_of_a_child_process_asks_for_its_modules_first(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require("numpy", "yaml")
    monkeypatch.setitem(extras.MODULES, "build", ("no_such_module",))
    with pytest.raises(extras.MissingExtraError, match=r"needs no_such_module, .* '\.\[build\]'"):
        extras.require("no_such_module")


def pages() -> list[Path]:
    return [file for file in tracked_files() if file.suffix == ".md" and file.name != "CHANGELOG.md"]


def test_no_page_and_no_message_installs_a_name_that_no_index_has() -> None:
    ours = [file for file in tracked_files() if file.suffix == ".py" and file.relative_to(ROOT).parts[0] != "tests"]
    wrong = re.compile(r"pip install (?:-\S+ )*['\"]?hypersonic(?![-\w])")
    assert [str(file) for file in [*pages(), *ours] if wrong.search(file.read_text())] == []


@pytest.mark.slow
def test_pip_takes_every_part_that_the_pages_install_from_a_clone() -> None:
    specs = sorted({spec for page in pages() for spec in re.findall(r"'(\.\[[\w,]+\])'", page.read_text())})
    assert {".[build]", ".[columnar]", ".[server]", ".[triton]"} <= set(specs)
    uv = Path(sys.executable).with_name("uv")
    argv = [str(uv), "pip", "install", "--dry-run", "--no-build-isolation", f"--python={sys.executable}", *specs]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if "Failed to fetch" in done.stderr:
        skip(f"{NOT_IN_ANY_PACKAGE}, a package index: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    assert "extra" not in done.stderr  # as in: does not have an extra named


def test_the_page_on_installing_has_every_command_and_every_part() -> None:
    _, _, table = (ROOT / "docs" / "install.md").read_text().partition("| in a clone: `pip install` |")
    words = set(re.findall(r"[a-z-]+", table.partition("## A wheel")[0]))
    assert {name.replace("_", "-") for name in NAMES} | set(extras.MODULES) <= words
