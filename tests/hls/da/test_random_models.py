# SPDX-License-Identifier: Apache-2.0
"""RTL and hls4ml's compiled C++ give equal integers on random networks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hypersonic.hls.core import Core
from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.rtl.simulate import RtlCore, Stalls

pytestmark = pytest.mark.whole

COUNT = 6
ROOT = Path(__file__).resolve().parents[3]


def projects(seed: int, directory: Path) -> list[HlsProject]:
    """COUNT converted networks: one process, one import of TensorFlow."""
    argv = [sys.executable, str(Path(__file__).with_name("random_models.py")), str(seed), str(COUNT), str(directory)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=_environment(), check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [HlsProject.load(directory / f"net_{index}") for index in range(COUNT)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1"}


def rows(project: HlsProject, seed: int) -> NDArray[np.int64]:
    """Half of them anywhere in the range, half near zero, and both ends."""
    rng = np.random.default_rng(seed)
    types = [tensor.fixed for tensor in project.inputs.tensors for _ in range(tensor.size)]
    low, high = [fixed.min_raw for fixed in types], [fixed.max_raw for fixed in types]
    x = rng.integers(low, high, (2000, len(types)), endpoint=True)
    x[1000:] >>= rng.integers(0, [fixed.width for fixed in types], (1000, len(types)))
    x[0], x[1] = low, high
    return x


@settings(max_examples=1, phases=[Phase.generate], derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_rtl_equals_csim_on_random_networks_under_stalls_and_reset(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directories = projects(seed, Path(name))
        cores = [Core.load(project.core) for project in directories]
        for project, core in zip(directories, cores, strict=True):
            x = rows(project, seed)
            expected = Csim(compile_csim(project), project).predict_raw(x)
            with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
                np.testing.assert_array_equal(
                    rtl.predict_raw(x, Stalls(60, 90, seed)), expected, err_msg=f"{seed} {project.name}"
                )
                rtl.predict_raw(x, Stalls(60, 90, seed), clock_limit=500)
                rtl.reset()
                np.testing.assert_array_equal(rtl.predict_raw(x), expected, err_msg=f"{seed} {project.name}")
