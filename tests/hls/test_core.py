# SPDX-License-Identifier: Apache-2.0
"""A core's ports are written once: every writer's module has those of Core.signals; and the kinds of cores are known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersonic.hls.core import Core, Signal
from hypersonic.hls.core_kind import CONVERTED, CORE_CHOICES, CoreKind
from hypersonic.hls.da.write import write_core
from hypersonic.hls.errors import ProjectError
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from hypersonic.sim.bench_rf import rf_bench_rows, write_rf_bench
from tests.hls.network import made
from tests.support.rtl.bench_weights import write_bench_weights

KIND = FixedPoint(9, 5)


def da_core(directory: Path) -> Core:
    row = Row((TensorSpec("x", (3,), KIND),))
    x = made.vector("x", 3, KIND)
    network = made.network("net", [x], [made.activation("r", x, True, KIND)], ["r"])
    return write_core(network, "net", row, row, directory)[0]


WRITERS: dict[str, Callable[[Path], Core]] = {
    "da": da_core,
    "rf": lambda directory: write_rf_bench(*rf_bench_rows(((4, 3), "FP32")), directory),
    "rf in beats of two tensors": lambda directory: write_rf_bench(*rf_bench_rows(((4, 3), "FP32"), ((5,), "INT8")), directory),
    "bench": lambda directory: write_bench_core(*bench_rows(), directory),
    "weights": write_bench_weights,
}


def declared(core: Core) -> tuple[Signal, ...]:
    """The ports of the core's top, read from its text."""
    header = re.search(rf"module {core.top} \((.*?)\);", core.sources[-1].read_text(), re.DOTALL)
    assert header
    ports = re.findall(r"(input|output)\s+logic (?:\[(\d+):0\] )?(\w+)", header[1])
    return tuple(Signal(name, direction, int(high) + 1 if high else None) for direction, high, name in ports)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_cores_module_has_the_ports_of_its_description(writer: str, tmp_path: Path) -> None:
    core = WRITERS[writer](tmp_path)
    assert declared(core) == core.signals
    assert len(core.signals) == (13 if core.takes_weights else 10)


def test_a_core_is_loaded_with_its_kind_and_of_no_other(tmp_path: Path) -> None:
    saved = da_core(tmp_path)
    assert (Core.load(tmp_path).kind, Core.load(tmp_path).signals) == (CoreKind.DA, saved.signals)
    file = tmp_path / "core.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "kind": "gpu"}))
    with pytest.raises(ProjectError, match=r"core\.json: kind is 'gpu', expected one of da, rf, hls, csim, bench; build"):
        Core.load(tmp_path)


def test_kinds_are_their_words_and_say_what_they_can_do() -> None:
    assert [str(kind) for kind in CORE_CHOICES] == ["da", "rf", "hls", "csim"]
    assert CONVERTED == (CoreKind.DA, CoreKind.RF, CoreKind.CSIM)
    assert json.dumps({"core": CoreKind.RF}) == '{"core": "rf"}'
    assert {kind for kind in CORE_CHOICES if kind.is_own_rtl} == {kind for kind in CONVERTED if kind.has_rtl}
