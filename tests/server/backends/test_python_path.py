# SPDX-License-Identifier: Apache-2.0
"""Where a model.py imports from: its own directories, as Triton documents, and never the server's working directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.server.python_models import WORDS, loaded, source
from tests.support.shadow_modules import plant, ran


def test_a_model_imports_what_lies_beside_it_and_nothing_of_the_servers_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = plant(tmp_path / "here")
    (here / "beside.py").write_text("V = 'of the working directory'")
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "beside.py").write_text("V = 'of the model'")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", ":/nowhere:")
    code = "import random, subprocess, beside\n" + source("return [text(beside.V) for _ in requests]")
    with loaded(tmp_path / "models", code, WORDS) as model:
        assert model.run(np.zeros(3, np.float32))[0].reshape(-1).tolist() == [b"of the model"]
    assert not ran(here)
