# SPDX-License-Identifier: Apache-2.0
"""Modules named like libraries, as a user may have them. Each leaves a marker file when it runs, then raises."""

from __future__ import annotations

from pathlib import Path

NAMES = (
    "yaml", "random", "events", "numpy", "tensorflow", "h5py", "hls4ml", "grpc", "typing", "subprocess", "sitecustomize",
    "task", "network",
)  # fmt: skip


def plant(directory: Path) -> Path:
    """Write the modules into `directory`, create it if needed, and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        marker = directory / f"ran-{name}"
        (directory / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise RuntimeError('{name}.py was run')\n")
    return directory


def ran(directory: Path) -> list[str]:
    """The names of the modules that were run, sorted."""
    return sorted(file.name.removeprefix("ran-") for file in directory.glob("ran-*"))
