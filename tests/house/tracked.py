# SPDX-License-Identifier: Apache-2.0
"""The files of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.house.graph import ROOT


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]
