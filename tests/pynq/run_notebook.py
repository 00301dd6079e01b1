# SPDX-License-Identifier: Apache-2.0
"""Runs in PYNQ's own environment: every cell of a notebook, as Jupyter runs it. run_notebook.py <notebook> <copy>"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def is_script(output: Any) -> bool:
    """Return whether this is the script that importing PYNQ sends to a browser."""
    return "application/javascript" in output.get("data", {})


def main(notebook: str, copy: str) -> None:
    cells = nbformat.read(notebook, as_version=4)
    NotebookClient(cells, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(Path.cwd())}}).execute()
    for cell in cells.cells:
        cell.metadata.pop("execution", None)  # when it ran
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_script(output)]
    nbformat.write(cells, copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
