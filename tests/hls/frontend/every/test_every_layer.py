# SPDX-License-Identifier: Apache-2.0
"""Every layer of Keras 2, Keras 3 and QKeras and every operator of ONNX converts, or is refused by a sentence about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hls.frontend.every.refused import check_refusals
from tests.support.session import run_session

HERE = Path(__file__).resolve().parent

#: how many convert, at least
CONVERT = {"keras_2": 40, "qkeras": 8, "keras_3": 70, "rebuilt": 40, "onnx": 20}

#: of how many no model is made, at most: parts of layers, those that need an argument of the user's or read text, and operators
#: of ONNX that do not read two tensors of numbers
NOT_MADE = {"keras_2": 20, "qkeras": 10, "keras_3": 30, "rebuilt": 0, "onnx": 135}

pytestmark = pytest.mark.whole("hls/frontend", "requirements.lock", "tests/hls/frontend/every")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every")


@pytest.mark.parametrize("kind", CONVERT)
def test_every_layer_converts_or_is_refused_by_a_sentence_about_it(kind: str, written: Path) -> None:
    said = _run(kind, written)
    refused, missing = check_refusals(said)
    assert len(said) - len(refused) - missing >= CONVERT[kind]
    assert missing <= NOT_MADE[kind]


def _run(kind: str, directory: Path) -> dict[str, str]:
    run_session(HERE / "every_layer.py", kind, directory, TF_USE_LEGACY_KERAS="0" if kind == "keras_3" else "1")
    return dict(json.loads((directory / f"{kind}.json").read_text()))
