# SPDX-License-Identifier: Apache-2.0
"""Every layer of Keras 2, Keras 3 and QKeras and every operator of ONNX converts, or is refused by a sentence about it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.session import run_session

HERE = Path(__file__).resolve().parent

#: how many convert, at least
CONVERT = {"keras_2": 40, "qkeras": 8, "keras_3": 70, "rebuilt": 40, "onnx": 20}

#: of how many no model is made, at most: parts of layers, those that need an argument of the user's or read text, and operators
#: of ONNX that do not read two tensors of numbers
NOT_MADE = {"keras_2": 20, "qkeras": 10, "keras_3": 30, "rebuilt": 0, "onnx": 135}

_EXCEPTION = re.compile(r"\b[A-Z]\w*(Error|Exception|Warning)\b|\bException:|Traceback|NoneType|object has no attribute")
#: a sentence that says what to do, or what was expected
_REMEDY = re.compile(r"; |expected|use |build it|export")

pytestmark = pytest.mark.whole("hls/frontend", "requirements.lock", "tests/hls/frontend/every/every_layer.py")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every")


@pytest.mark.parametrize("kind", CONVERT)
def test_every_layer_converts_or_is_refused_by_a_sentence_about_it(kind: str, written: Path) -> None:
    said = _run(kind, written)
    refused = {name: text for name, text in said.items() if text and not text.startswith("not made: ")}
    assert not {name: text for name, text in refused.items() if text.startswith("not refused: ")}
    assert not {name: text for name, text in refused.items() if _EXCEPTION.search(text)}
    assert not {name: text for name, text in refused.items() if "please report" in text or not _REMEDY.search(text)}
    unnamed = {name: text for name, text in refused.items() if "mine" not in text and name.lower() not in text.lower()}
    assert not unnamed
    assert len(said) - len(refused) - _missing(said) >= CONVERT[kind]
    assert _missing(said) <= NOT_MADE[kind]


def _missing(said: dict[str, str]) -> int:
    return sum(text.startswith("not made: ") for text in said.values())


def _run(kind: str, directory: Path) -> dict[str, str]:
    run_session(HERE / "every_layer.py", kind, directory, TF_USE_LEGACY_KERAS="0" if kind == "keras_3" else "1")
    return dict(json.loads((directory / f"{kind}.json").read_text()))
