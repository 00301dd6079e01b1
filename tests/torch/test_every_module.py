# SPDX-License-Identifier: Apache-2.0
"""A network around each layer of torch.nn converts, or is refused by a sentence about it. `make test-torch` runs this test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hypersonic.hls.frontend.pytorch import program
from hypersonic.hls.frontend.pytorch.export import PYTHON
from tests.hls.frontend.every.refused import check_refusals
from tests.support.session import run_keras_2

HERE = Path(__file__).resolve().parent
EVERY = HERE.parent / "hls" / "frontend" / "every" / "every_layer.py"

#: how many convert, at least, and of how many no network is made, at most
CONVERT, NOT_MADE = 50, 20

#: layers at which torch's exporter may abort the process
MOST_ABORTS = 10


@pytest.mark.timeout(3600)
def test_every_layer_of_torch_converts_or_is_refused_by_a_sentence_about_it(tmp_path: Path) -> None:
    assert PYTHON in os.environ, f"run make test-torch, which sets {PYTHON}"
    place = tmp_path / "torch"
    place.mkdir()
    argv = [os.environ[PYTHON], str(HERE / "every_module.py"), program.__file__, str(place)]
    for _ in range(MOST_ABORTS + 1):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    run_keras_2(EVERY, "torch", tmp_path)
    said = json.loads((place / "said.json").read_text()) | json.loads((tmp_path / "torch.json").read_text())
    refused, missing = check_refusals(said, named=False)
    assert len(said) - len(refused) - missing >= CONVERT, f"{len(said) - len(refused) - missing} convert"
    assert missing <= NOT_MADE, missing
