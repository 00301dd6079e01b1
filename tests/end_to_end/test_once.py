# SPDX-License-Identifier: Apache-2.0
"""A build does each step once: the YAML is read, the kernel's top is generated, the project is copied for people to see."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypersonic.building.csim import build_csim
from hypersonic.building.model import build
from hypersonic.firmware.kernel import write
from hypersonic.hls.core import Core
from hypersonic.hls.frontend.description import ZOO

YAML = (ZOO / "facile" / "facile.yaml").read_bytes()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of times each step runs in this process; the conversion runs in a process of its own."""
    count: Counter[str] = Counter()
    load, copy, generate = yaml.safe_load, shutil.copytree, write.top_text

    def safe_load(stream: Any) -> Any:
        count["YAML read"] += stream == YAML
        return load(stream)

    def copytree(source: Path, *arguments: Any, **options: Any) -> Any:
        count["project copied"] += (Path(source) / "project.json").is_file()
        return copy(source, *arguments, **options)

    def top_text(core: Core) -> str:
        count["kernel generated"] += 1
        return generate(core)

    monkeypatch.setattr(yaml, "safe_load", safe_load)
    monkeypatch.setattr(shutil, "copytree", copytree)
    monkeypatch.setattr(write, "top_text", top_text)
    return count


def test_a_build_of_a_kernel_does_each_step_once(tmp_path: Path, steps: Counter[str]) -> None:
    build("facile", repository=tmp_path / "models", directory=tmp_path / "build")
    assert steps == Counter({"YAML read": 1, "project copied": 1, "kernel generated": 1})


@pytest.mark.parametrize("target", ["sw_emu", "hw_emu"])
def test_a_build_that_nobody_wants_to_see_copies_nothing(target: str, tmp_path: Path, steps: Counter[str]) -> None:
    build("facile", target, repository=tmp_path)
    assert steps == Counter({"YAML read": 1, "project copied": 0, "kernel generated": int(target == "hw_emu")})


def test_the_golden_reference_reads_the_yaml_once(steps: Counter[str]) -> None:
    build_csim("facile")
    assert steps == Counter({"YAML read": 1})
