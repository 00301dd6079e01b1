# SPDX-License-Identifier: Apache-2.0
"""Rules for the tests themselves: what a test module may import, how it waits, and which of them are slow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.graph import ROOT
from tests.house.tracked import tracked_files
from tests.support.slow import LONG_FOLDERS, SLOW_FOLDERS, STARTERS, is_long, is_slow

WAITING = ROOT / "tests" / "support" / "waiting.py"


def python_files() -> list[Path]:
    """Every Python file of tests/, sim/tb/ and bench/."""
    folders = {ROOT / "tests", ROOT / "sim" / "tb", ROOT / "bench"}
    return [file for file in tracked_files() if file.suffix == ".py" and folders & set(file.parents)]


def is_test_module(module: str) -> bool:
    return module.rpartition(".")[2].startswith("test_")


@cache
def find_fixtures(module: str, root: Path) -> set[str]:
    """The fixtures that a module of tests/ defines; empty for a module elsewhere."""
    file = root.joinpath(*module.split(".")).with_suffix(".py")
    if not module.startswith("tests.") or not file.is_file():
        return set()
    functions = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {each.name for each in functions if any("pytest.fixture" in ast.unparse(mark) for mark in each.decorator_list)}


def find_forbidden_imports(file: Path, root: Path) -> Iterator[str]:
    """Imports of test modules; in a test module also imports of fixtures."""
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            yield from (f"imports {alias.name}" for alias in node.names if is_test_module(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            modules = [node.module, *(f"{node.module}.{name}" for name in names)]
            tests = [each for each in modules if is_test_module(each) and each.startswith(("tests.", "sim.tb."))]
            yield from (f"imports {each}" for each in tests)
            if file.name.startswith("test_"):
                yield from (f"imports the fixture {name} of {node.module}" for name in names & find_fixtures(node.module, root))


def find_polling_loops(file: Path) -> Iterator[int]:
    """The lines of `while` loops that sleep between attempts."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text, str(file))) if "while" in text and "sleep" in text else ():
        if isinstance(node, ast.While) and any(is_sleep(inner) for inner in ast.walk(node)):
            yield node.lineno


def is_sleep(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"


def test_no_test_module_imports_another_one_or_a_fixture() -> None:
    found = [f"{file.relative_to(ROOT)} {what}" for file in python_files() for what in find_forbidden_imports(file, ROOT)]
    assert not found, "move what is shared to a helper module, and shared fixtures to conftest.py:\n" + "\n".join(found)


def test_tests_wait_with_the_shared_helper() -> None:
    files = [file for file in python_files() if file != WAITING and ROOT / "bench" not in file.parents]
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in find_polling_loops(file)]
    assert not found, f"use wait_until or holds_within of tests/support/waiting.py: {found}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tests.one.test_two import helper", "imports tests.one.test_two"),
        ("from tests.one import test_two", "imports tests.one.test_two"),
        ("import tests.one.test_two", "imports tests.one.test_two"),
        ("def late():\n    from tests.one.test_two import helper", "imports tests.one.test_two"),
        ("from tests.one.conftest import given", "imports the fixture given of tests.one.conftest"),
    ],
)
def test_a_forbidden_import_is_found_however_it_is_written(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "tests" / "one").mkdir(parents=True)
    fixture = "import pytest\n\n\n@pytest.fixture(scope='session')\ndef given():\n    return 1\n"
    (tmp_path / "tests" / "one" / "conftest.py").write_text(fixture)
    file = tmp_path / "tests" / "test_three.py"
    file.write_text(text + "\n")
    assert list(find_forbidden_imports(file, tmp_path)) == [expected]


def test_a_loop_that_sleeps_is_found(tmp_path: Path) -> None:
    file = tmp_path / "test_loop.py"
    file.write_text("import time\nfrom pathlib import Path\n\nwhile not Path('flag').exists():\n    time.sleep(1)\n")
    assert list(find_polling_loops(file)) == [4]


@pytest.mark.parametrize(
    ("file", "slow"),
    [
        ("sim/tb/axis_fifo/test_axis_fifo.py", True),
        ("tests/end_to_end/test_zoo.py", True),
        ("tests/hls/test_convert.py", True),  # imports a starter itself
        ("tests/server/repository/test_hung_loads.py", True),  # through a helper module
        ("tests/hls/test_row.py", False),
        ("tests/server/wire/grpc/test_stream.py", False),
        ("tests/client/test_streams.py", False),  # with a scripted server in its own process
        ("tests/house/test_tree.py", False),
    ],
)
def test_a_test_is_slow_by_its_folder_or_by_its_imports(file: str, slow: bool) -> None:
    assert is_slow(ROOT / file) is slow


def test_a_test_is_long_by_its_folder() -> None:
    assert is_long(ROOT / "tests/deploy/sites/test_image.py")
    assert not is_long(ROOT / "tests/hls/test_convert.py")


def test_the_rule_for_slow_tests_names_folders_and_modules_that_exist() -> None:
    assert all((ROOT / folder).is_dir() for folder in (*SLOW_FOLDERS, *LONG_FOLDERS))
    assert len(set(SLOW_FOLDERS)) == len(SLOW_FOLDERS)
    ours = [ROOT.joinpath(*starter.split(".")) for starter in STARTERS if starter.startswith("hypersonic.")]
    assert all(path.is_dir() or path.with_suffix(".py").is_file() for path in ours)
