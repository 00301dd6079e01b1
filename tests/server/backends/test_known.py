# SPDX-License-Identifier: Apache-2.0
"""The properties that backends declare of themselves."""

from __future__ import annotations

from pathlib import Path

import hypersonic.server.backends
from hypersonic.server.backends.known import BACKENDS


def test_every_backend_that_has_a_folder_is_known_under_its_name() -> None:
    (directory,) = hypersonic.server.backends.__path__
    assert set(BACKENDS) == {path.parent.name for path in Path(directory).glob("*/properties.py")}


def test_the_page_on_triton_names_every_backend() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "coming-from-triton.md"
    (row,) = (line for line in page.read_text().splitlines() if line.startswith("| backends | "))
    assert [name for name in BACKENDS if f"`{name}`" not in row] == []


def test_no_two_backends_have_the_same_model_file_or_platform() -> None:
    files = [backend.model_file for backend in BACKENDS.values()]
    platforms = [backend.platform for backend in BACKENDS.values() if backend.platform]
    assert len(set(files)) == len(files)
    assert len(set(platforms)) == len(platforms)
