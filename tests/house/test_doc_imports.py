# SPDX-License-Identifier: Apache-2.0
"""The imports in the documentation's Python examples."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _imports(page: Path) -> list[tuple[str, str]]:
    lines = (line for example in _EXAMPLE.findall(page.read_text()) for line in example.splitlines())
    statements = [line for line in lines if re.match(r"(>>> )?from hypersonic\S* import ", line)]
    found = [node for line in statements for node in ast.parse(line.removeprefix(">>> ")).body]
    return [(node.module or "", alias.name) for node in found if isinstance(node, ast.ImportFrom) for alias in node.names]


@pytest.mark.parametrize("page", [page for page in PAGES if _imports(page)], ids=lambda page: page.name)
def test_what_an_example_of_the_documentation_imports_exists(page: Path) -> None:
    missing = [f"{module}.{name}" for module, name in _imports(page) if not _exists(module, name)]
    assert not missing, f"{page.name} imports what does not exist: {', '.join(missing)}"


def _exists(module: str, name: str) -> bool:
    """Whether the import finds the name, or a package outside this project that is not installed stops it."""
    try:
        if hasattr(import_module(module), name):
            return True
        import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        return not (error.name or "").startswith("hypersonic")
    except ImportError as error:  # a module that names the package to install
        return error.__cause__ is not None
    return True
