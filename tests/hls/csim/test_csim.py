# SPDX-License-Identifier: Apache-2.0
"""The golden library: the integers of hls4ml's own compiled C++, from any thread, with any number of weights and any stack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersonic.firmware.target import Target
from hypersonic.hls.csim.compiled import Csim, CsimError, compile_csim, precompiled
from hypersonic.hls.csim.source import prepare
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.card.direct import Simulation
from hypersonic.sim.card.simulator import build_simulator
from tests.hls.csim.csim_models import NAMES

pytestmark = pytest.mark.whole

HERE = Path(__file__).resolve().parent
Answers = tuple[HlsProject, NDArray[np.int64], NDArray[np.int64]]


@pytest.fixture(scope="module")
def hls4ml_answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """Project, raw rows, and the raw integers of hls4ml's own library."""
    directory = tmp_path_factory.mktemp("csim")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "TF_USE_LEGACY_KERAS": "1"}
    argv = [sys.executable, str(HERE / "csim_models.py"), str(directory)]
    done = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return {name: _answers(directory, name) for name in NAMES}


def _answers(directory: Path, name: str) -> Answers:
    project = HlsProject.load(directory / name)
    with np.load(directory / f"{name}.npz") as file:
        values = [file[key].reshape(len(file[key]), -1) for key in file.files]
    count = len(project.inputs.tensors)
    x, y = (_raw(row, part) for row, part in ((project.inputs, values[:count]), (project.outputs, values[count:])))
    return project, x, y


def _raw(row: Row, values: list[NDArray[np.float64]]) -> NDArray[np.int64]:
    scaled = [np.ldexp(part, tensor.fixed.fraction) for tensor, part in zip(row.tensors, values, strict=True)]
    raw = np.concatenate(scaled, axis=1)
    np.testing.assert_array_equal(raw, np.rint(raw))
    return raw.astype(np.int64)


def csim_of(project: HlsProject) -> Csim:
    return Csim(compile_csim(project, optimisation="-O0"), project)


@pytest.mark.parametrize("name", NAMES)
def test_integers_are_those_of_hls4mls_own_library(hls4ml_answers: dict[str, Answers], name: str) -> None:
    project, x, y = hls4ml_answers[name]
    assert len(np.unique(y)) > 20
    np.testing.assert_array_equal(csim_of(project).predict_raw(x), y)


def test_a_models_definitions_do_not_keep_gpp_from_the_precompiled_headers(
    hls4ml_answers: dict[str, Answers], tmp_path: Path
) -> None:
    project, _, _ = hls4ml_answers[NAMES[0]]
    firmware = tmp_path / "firmware"
    shutil.copytree(project.hls / "firmware", firmware)
    prepare(firmware)
    (tmp_path / "a.cpp").write_text('#include "ap_fixed.h"\nap_fixed<4, 2> number;\n')
    flags = ["-std=c++17", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden", "-w", "-O0"]
    options = precompiled(flags, firmware / "ap_types")
    argv = ["g++", *flags, "-DOWN=1", *options, f"-I{firmware / 'ap_types'}", "-fstack-usage", "-H", "-c", "a.cpp"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"! {options[-1]}.gch" in done.stderr
    assert "stdlib" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_threads_may_call_at_once(hls4ml_answers: dict[str, Answers], name: str) -> None:
    project, x, y = hls4ml_answers[name]
    csim = csim_of(project)
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(csim.predict_raw, [x] * 12):
            np.testing.assert_array_equal(answer, y)


def test_sw_emu_answers_io_stream_models(hls4ml_answers: dict[str, Answers]) -> None:
    project, x, y = hls4ml_answers["streams"]
    data = project.inputs.encode(project.inputs.from_raw(x))
    expected = project.outputs.encode(project.outputs.from_raw(y))
    with Simulation(build_simulator(Target.SW_EMU, project), 1 << 16) as simulation:
        simulation.memory[: data.size] = data
        simulation.start(0, 0x8000, len(x))
        simulation.finish()
        np.testing.assert_array_equal(simulation.memory[0x8000 : 0x8000 + expected.size], expected)


HEADER = """//Min -0.5
#ifndef W2_H_
#define W2_H_

weight2_t w2[4] = {-0.50000, 0.25000, 0.00000, 7.00000};
weight2_t w4[3] = {1e-3, 0.1, -3e300};
weight2_t w5[2] = {300, -40000};
weight2_t w6[1] = {other};
exponent w3[2] = {{1, 2}, {0, 3}};

#endif
"""
PRINTS = """
#include <cstdio>
typedef double weight2_t;
struct exponent { int sign, weight; };
static const double other = 5;
#include "weights/w2.h"
int main() {
    for (double w : w2) std::printf("%.17g ", w);
    for (double w : w4) std::printf("%.17g ", w);
    for (double w : w5) std::printf("%.17g ", w);
    std::printf("%.17g %d\\n", w6[0], w3[1].weight);
}
"""


def test_arrays_are_filled_with_the_same_values_from_the_smallest_numbers(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(PRINTS)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w2.h").write_text(HEADER)
    printed = []
    for _ in range(2):
        subprocess.run(["g++", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
        printed.append(subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout)
        prepare(tmp_path)
    assert printed[0] == printed[1] == "-0.5 0.25 0 7 0.001 0.10000000000000001 -3.0000000000000002e+300 300 -40000 5 3\n"
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "weights").glob("*.bin")}
    assert sizes == {"w2.bin": 4 * 2, "w4.bin": 3 * 8, "w5.bin": 2 * 4}
    assert "w2[4] = {" not in (tmp_path / "weights" / "w2.h").read_text()


MODEL = """
#include <cstddef>
#include <deque>
namespace hls {
template <class T> struct stream : std::deque<T> {
    void write(const T &x) { this->push_back(x); }
    T read() { T x = this->front(); this->pop_front(); return x; }
};
}
struct number { long V; };
struct pack { static const unsigned size = 2; number x[2]; number &operator[](size_t i) { return x[i]; } };
"""


def project_of(directory: Path, parameters: str, body: str) -> HlsProject:
    """A project whose C++ is ours: x and y of four elements."""
    firmware = directory / "hls" / "firmware"
    (firmware / "weights").mkdir(parents=True)
    (firmware / "answer.h").write_text(f"#pragma once\n{MODEL}\nvoid answer({parameters});\n")
    (firmware / "answer.cpp").write_text(f'#include "answer.h"\nvoid answer({parameters}) {{ {body} }}\n')
    row = Row((TensorSpec("t", (4,), FixedPoint(16, 8)),))
    return HlsProject(directory, "answer", row, row, "part", {})


def test_functions_may_need_more_stack_than_any_thread_has(tmp_path: Path) -> None:
    body = """volatile long products[64 << 20 >> 3];
        for (int i = 0; i < 4; ++i) products[i * 1000000] = x[i].V + 1;
        for (int i = 0; i < 4; ++i) y[i].V = products[i * 1000000];"""
    project = project_of(tmp_path, "number x[4], number y[4]", body)
    x = np.arange(8).reshape(2, 4)
    np.testing.assert_array_equal(csim_of(project).predict_raw(x), x + 1)


@pytest.mark.parametrize(
    "body", ["y.write(x.read());", "y.write(x.read()); x.read();", "y.write(x.front()); y.write(x.front());"]
)
def test_a_stream_of_another_length_is_an_error_not_a_wrong_number(tmp_path: Path, body: str) -> None:
    project = project_of(tmp_path, "hls::stream<pack> &x, hls::stream<pack> &y", body)
    with pytest.raises(CsimError, match=r"'answer': the top function read or wrote a different number of elements"):
        csim_of(project).predict_raw(np.arange(4)[None])
