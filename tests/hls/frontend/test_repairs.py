# SPDX-License-Identifier: Apache-2.0
"""hls4ml's C++ where it does not compile, stops the process or reads past its tables: corrected, and right."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.csim.compiled import Csim, compile_csim
from hypersonic.hls.frontend.repairs import _REPAIRS, repair
from hypersonic.hls.project import HlsProject
from tests.hls.frontend.repaired_model import NAME, VOCABULARY
from tests.support.session import run_keras_2

pytestmark = pytest.mark.whole

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def csim(tmp_path_factory: pytest.TempPathFactory) -> Csim:
    directory = tmp_path_factory.mktemp("repaired")
    run_keras_2(HERE / "repaired_model.py", directory)
    project = HlsProject.load(directory / NAME)
    return Csim(compile_csim(project), project)


def rows(csim: Csim, count: int, index: int = 0) -> np.ndarray:
    inputs = csim.project.inputs
    raw = np.random.default_rng(2).integers(-2000, 2000, (count, inputs.size))
    raw[:, : inputs.tensors[0].size] = index
    return raw


def test_a_reuse_factor_of_the_whole_model_is_adjusted_for_each_layer_that_cannot_do_it(csim: Csim) -> None:
    notes = [note for note in csim.project.report["notes"] if "ReuseFactor is 4" in note]
    taken = {note.split("'")[1]: int(note.split("hls4ml takes ")[1].split(",")[0]) for note in notes}
    assert taken == {"phi": 3, "lstm": 3, "both": 3}


def test_a_network_without_gate_rows_is_compared_on_indices_that_its_table_has(csim: Csim) -> None:
    gate = csim.project.report["gate"]
    assert gate["source"] == "random"
    assert gate["max_abs_difference"] < 0.1


def test_an_index_outside_the_table_reads_its_first_row_or_its_last(csim: Csim) -> None:
    at = {index: csim.predict_raw(rows(csim, 1, index)).tolist() for index in range(-128, 128)}
    assert len({str(answer) for answer in at.values()}) == VOCABULARY
    for index, answer in at.items():
        assert answer == at[min(max(index, 0), VOCABULARY - 1)], index


def test_recurrent_layers_answer_threads_at_once_as_they_answer_one(csim: Csim) -> None:
    parts = [rows(csim, 400)[i::4] for i in range(4)]
    expected = [csim.predict_raw(part).tolist() for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert [answer.tolist() for answer in pool.map(csim.predict_raw, parts)] == expected


def test_cpp_of_another_version_is_not_corrected_in_silence(csim: Csim, tmp_path: Path) -> None:
    utils = tmp_path / "firmware" / "nnet_utils"
    utils.mkdir(parents=True)
    for name in {name for name, *_ in _REPAIRS}:
        (utils / name).write_bytes((csim.project.hls / "firmware" / "nnet_utils" / name).read_bytes())
    (utils / "nnet_recurrent.h").write_text("another")
    with pytest.raises(RuntimeError, match=r"nnet_\w+.h has no .*: expected hls4ml 1.3.0"):
        repair(tmp_path)
