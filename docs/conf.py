# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the documentation site. `make docs` builds the site into build/docs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

import hls4ml  # noqa: E402, F401 - before our plugin for it, which needs it whole
from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import hypersonic  # noqa: E402

project = "hypersonic"
project_copyright = "the hypersonic authors, Apache-2.0"
version = release = hypersonic.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "short_names",
    "source_links",
]
exclude_patterns = ["extensions", "pynq-card.ipynb", "zoo"]  # the notebook needs a PYNQ environment; tests/pynq runs it
toc_object_entries = False  # the sidebar lists pages and headings, not every function
default_role = "code"  # `x` in a docstring is code
napoleon_use_ivar = True  # fields are documented in the docstring of their class
smartquotes = False  # texts quote code, such as ""
nitpicky = False  # annotations name types of packages that have no inventory here

# pages
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = f"hypersonic {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
copybutton_selector = "div:not(.highlight-text, .output) > div.highlight > pre"  # what is printed is not for copying

# notebooks are executed on every build; an error in it ends the build
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_in_temp = True

# the API reference, a page a folder
apidoc_modules = [
    {
        "path": "../hypersonic",
        "destination": "api/generated",
        "follow_links": True,
        "module_first": True,
        "exclude_patterns": [
            "../hypersonic/sim/tb",
            "../hypersonic/hls/zoo/*/*",
            "../hypersonic/server/backends/python/stub",
        ],
    }
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "ignore-module-all": True}  # names are documented where they are defined
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none, and looking for them takes a tenth of the build
autodoc_mock_imports = ["pynq", "coffea"]  # pynq needs an older NumPy than this environment has; coffea is not installed


def setup(app: Sphinx) -> None:
    """Register the languages of code blocks that Pygments does not know."""
    app.add_lexer("pbtxt", TextLexer)
