# SPDX-License-Identifier: Apache-2.0
"""Ensembles of one step for tests of the model repository."""

from __future__ import annotations

from pathlib import Path

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.ensemble.model import EnsembleModel
from hypersonic.server.core.inference.model import Model
from hypersonic.server.repository.models import ModelRepository
from tests.server.conftest import CONFIG


def ensemble(config: ModelConfig, version: int, repository: ModelRepository) -> Model:
    return EnsembleModel(config, version, repository.model)


def write_ensemble(repository: Path, name: str, member: str, version: int = -1) -> None:
    (repository / name / "1").mkdir(parents=True)
    step = f'model_name: "{member}" model_version: {version} input_map {{ key: "x" value: "x" }}'
    (repository / name / "config.pbtxt").write_text(
        CONFIG.replace('backend: "sum"', 'platform: "ensemble"')
        + f'ensemble_scheduling {{ step {{ {step} output_map {{ key: "y" value: "y" }} }} }}'
    )
