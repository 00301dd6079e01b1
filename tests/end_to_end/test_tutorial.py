# SPDX-License-Identifier: Apache-2.0
"""The tutorial and the pages that continue it: their commands run in order, and print what the pages show.

The tutorial begins in an empty directory, docs/describe.md continues there, and each other page in a copy of that directory.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.reader import Reader
from tests.end_to_end.tutorial import Commands, File, is_shown, read_steps
from tests.support.caches import make_cold_cache

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: what a reader has done before any of PAGES
BEFORE = ("tutorial", "describe")
PAGES = ("check", "kernel", "together", "serve", "onnx", "python")


def steps_of(page: str) -> list[File | Commands]:
    return read_steps((DOCS / f"{page}.md").read_text())


def read(somebody: Reader, page: str) -> None:
    """Do all that the page says."""
    for step in steps_of(page):
        if isinstance(step, File):
            somebody.save(step)
        else:
            somebody.run(step)


@contextmanager
def reader(directory: Path, cache: Path) -> Iterator[Reader]:
    found = Reader(directory, cache)
    try:
        yield found
    finally:
        found.leave()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cold_cache(tmp_path_factory.mktemp("reader") / "cache")


@pytest.fixture(scope="module")
def begun(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of somebody who has read the pages of BEFORE."""
    directory = tmp_path_factory.mktemp("begun")
    with reader(directory, cache) as somebody:
        for page in BEFORE:
            read(somebody, page)
    return directory / "pulse"


slow = [
    pytest.mark.whole(
        *(f"docs/{page}.md" for page in (*BEFORE, *PAGES)),
        *("client", "firmware", "hls", "host", "hypersonic", "requirements.lock", "server", "sim"),
    ),
    pytest.mark.timeout(1800),  # two minutes of processor time, on a busy machine many of the clock's
]


@pytest.mark.parametrize("page", [pytest.param(page, marks=slow) for page in PAGES])
def test_every_command_of_the_tutorial_and_of_a_page_after_it_does_what_the_page_says(
    page: str, begun: Path, cache: Path, tmp_path: Path
) -> None:
    shutil.copytree(begun, tmp_path / "pulse")
    with reader(tmp_path, cache) as somebody:
        read(somebody, page)


def test_the_pages_build_both_cores_serve_and_stop() -> None:
    scripts = "".join(step.text for page in (*BEFORE, *PAGES) for step in steps_of(page) if isinstance(step, Commands))
    for words in (
        "--target sw_emu",
        "--target hw_emu",
        "--core rf --fit u250",
        "--compute-units 2",
        "hypersonic serve",
        "kill ",
    ):
        assert words in scripts, words


@pytest.mark.parametrize("page", [*BEFORE, *PAGES])
def test_the_marks_of_a_page_are_known(page: str) -> None:
    known = r"^<!-- (?!file: |not run: |exit code \d|numbers vary).*-->$"
    assert not re.findall(known, (DOCS / f"{page}.md").read_text(), re.MULTILINE)


def test_the_tutorial_takes_ten_minutes() -> None:
    assert len((DOCS / "tutorial.md").read_text().split()) <= 1200


@pytest.mark.parametrize(
    ("shown", "numbers_vary", "printed", "expected"),
    [
        ("a ...\nc", False, "a b\nb\nc\n", True),
        ("...\nb\n...\nc", False, "b\na\nc\n", True),
        ("...\nb", False, "ab\n", False),
        ("a 1", False, "a 2", False),
        ("a  1.5 ns", True, "a   12,000 ns", True),
        ("a  1.5 ns", True, "b   1.5 ns", False),
        ("a\nb", True, "a\nc\nb", False),
    ],
)
def test_output_is_compared_with_what_is_shown(shown: str, numbers_vary: bool, printed: str, expected: bool) -> None:
    assert is_shown(Commands("", output=shown, numbers_vary=numbers_vary), printed) is expected


def test_the_blocks_of_a_page_are_read_in_order() -> None:
    file = "# A\n\n<!-- file: a.py -->\n```python\n1\n```\n\n"
    commands = "```bash\nb\n```\n```text\n...\n```\n\n<!-- exit code 2 -->\n```bash\nc\n```\n"
    not_run = "<!-- not run: d -->\n```bash\nd\n```\n```text\nd\n```\n"
    assert read_steps(file + commands + not_run) == [File("a.py", "1\n"), Commands("b\n", 0, "...\n"), Commands("c\n", 2)]
