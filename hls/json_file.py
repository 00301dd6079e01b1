# SPDX-License-Identifier: Apache-2.0
"""Reads the JSON files of projects and cores, which carry the number of their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypersonic.hls.errors import ProjectError


def read_json(file: Path, schema: int) -> dict[str, Any]:
    """Read a JSON object whose field "schema" is `schema`. Raises ProjectError if the file is missing or is something else."""
    try:
        value = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise ProjectError(f"{file} does not exist; it is written by hypersonic build") from error
    except ValueError as error:
        raise ProjectError(f"{file} is not JSON: {error}; build the model again") from error
    if not isinstance(value, dict) or value.get("schema") != schema:
        got = value.get("schema") if isinstance(value, dict) else type(value).__name__
        raise ProjectError(f"{file}: schema is {got}, expected {schema}; build the model again")
    return value
