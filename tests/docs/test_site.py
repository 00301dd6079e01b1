# SPDX-License-Identifier: Apache-2.0
"""The documentation site: `make docs` builds every page without a warning and executes the notebooks."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hypersonic

pytestmark = pytest.mark.whole("CHANGELOG.md", "README.md", "client", "docs", "hypersonic", "requirements.lock")

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: the recipe of `make docs`, into a folder of its own."""
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^docs:.*\n\t\$\(BIN\)/sphinx-build (.*) docs build/docs$", makefile, re.MULTILINE)
    out = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [python_tool("sphinx-build"), *recipe.split(), "docs", str(out)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return out


def test_the_site_builds_without_warnings_and_has_every_page(site: Path) -> None:
    missing = [page.stem for page in PAGES if not (site / f"{page.stem}.html").is_file()]
    assert missing == []
    assert (site / "index.html").is_file()


def test_the_index_leads_to_every_page(site: Path) -> None:
    index = (site / "index.html").read_text()
    assert [page.stem for page in PAGES if page.stem != "index" and f'href="{page.stem}.html"' not in index] == []


def test_commands_can_be_copied_and_what_they_print_has_no_button(site: Path) -> None:
    page, script = (site / "tutorial.html").read_text(), (site / "_static" / "copybutton.js").read_text()
    assert "_static/copybutton.js" in page
    assert "'div:not(.highlight-text, .output) > div.highlight > pre'" in script


def test_the_notebook_was_executed_up_to_its_plot(site: Path) -> None:
    notebook = (site / "notebook.html").read_text()
    assert "(4000, 1) float32" in notebook
    assert re.search(r"resolution: Keras 0\.\d+, served 0\.\d+", notebook)
    assert re.search(r'<img[^>]+src="_images/[0-9a-f]+\.png"', notebook)


def test_the_notebook_of_columns_was_executed_up_to_its_plot(site: Path) -> None:
    notebook = (site / "columns-example.html").read_text()
    assert "12 events, 55099 rows" in notebook
    assert re.search(r"median of served / true above 10 GeV: (0\.9|1\.0)\d", notebook)
    assert re.search(r'<img[^>]+src="_images/[0-9a-f]+\.png"', notebook)


def test_the_api_reference_shows_the_public_names_with_their_docstrings(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    for name in ("build", "build_csim", "open_device", "start_server", "Client", "FixedPoint", "Xclbin", "Manifest"):
        assert f'id="hypersonic.{name}"' in page
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())
    assert " ".join(str(hypersonic.build.__doc__).split(".")[0].replace("`", "").split()) in text


def python_tool(name: str) -> str:
    """A tool of this environment."""
    return str(Path(sys.executable).parent / name)
