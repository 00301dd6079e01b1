# SPDX-License-Identifier: Apache-2.0
"""The estimate of the memory that Verilator and g++ need, and the refusal that is made of it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench.tool_memory import design, verilator_bytes, write_named
from hypersonic.hls import verilator
from hypersonic.hls.bounded.need import FACTOR, Rtl, Share, Side, check_need, jobs
from hypersonic.hls.core import Core, Operations
from hypersonic.hls.errors import ToolMemoryError
from hypersonic.hls.rtl.simulate import RtlCore
from hypersonic.hls.rtl.size import size_of

GB = 1 << 30

#: an AveragePooling2D of 124 x 124 x 5 numbers of 16 bits as a da core
LARGE = Rtl(
    "core pool", 365_000, (Side(76_880, 1_230_080),), (Side(19_220, 307_520),),
    (Share("scale", "Scaling", 10_000), Share("pool", "Pool", 96_100)),
)  # fmt: skip


def test_the_estimate_grows_with_everything_that_is_counted() -> None:
    small = Rtl("core a", 1000, (Side(10, 160),), (Side(10, 160),))
    for more in (
        replace(small, lines=2000), replace(small, inputs=(Side(20, 160),)), replace(small, inputs=(Side(10, 320),)),
        replace(small, outputs=(Side(20, 160),)), replace(small, outputs=(Side(10, 320),)), replace(small, converters=20),
    ):  # fmt: skip
        assert more.needed_bytes > small.needed_bytes
        assert more.compiler_bytes >= small.compiler_bytes


def test_what_is_above_the_limit_is_refused_with_the_largest_layer_and_what_to_do() -> None:
    with pytest.raises(ToolMemoryError) as caught:
        check_need(LARGE, 4 * GB)
    said = str(caught.value)
    assert said.startswith("Verilator and g++ would need about ")
    for words in (
        "for core pool", "365,000 lines of RTL", "takes 1,230,080 bits at once and gives 307,520",
        "layer pool (Pool) is the largest, 91% of the network's operations", "the limit is 4.0 GB", "HYPERSONIC_MEMORY",
        "--memory", "io_stream", "Strategy Resource", "--target sw_emu",
    ):  # fmt: skip
        assert words in said
    assert caught.value.exit_code == 2


def test_the_refusal_ends_where_the_limit_is_the_estimate() -> None:
    check_need(LARGE, LARGE.needed_bytes)
    check_need(LARGE, None)
    with pytest.raises(ToolMemoryError):
        check_need(LARGE, LARGE.needed_bytes - 1)


def test_the_estimate_of_the_pool_that_took_21_gb_is_within_the_factor() -> None:
    assert 21e9 / FACTOR < LARGE.needed_bytes < 21e9 * FACTOR


def test_a_design_without_layers_is_refused_without_one() -> None:
    with pytest.raises(ToolMemoryError, match=r"gives 307,520; the limit is"):
        check_need(replace(LARGE, layers=()), GB)


def test_as_many_compilers_run_as_the_limit_has_room_for() -> None:
    small = Rtl("core a", 1000, (), ())
    assert jobs(small, None, 64) == 64
    assert jobs(small, 4 * GB, 64) == (4 * GB - small.verilator_bytes) // small.compiler_bytes
    assert jobs(small, 1000 * GB, 64) == 64
    assert jobs(LARGE, GB, 64) == 1


def test_a_cores_operations_are_counted_by_layer_and_kept(tmp_path: Path) -> None:
    core = write_named("dense:4:2", tmp_path)
    assert [(layer.layer, layer.kind) for layer in core.layers] == [("dense_0", "Dense"), ("dense_1", "Dense")]
    assert all(layer.nodes > 4 for layer in core.layers)
    assert Core.load(tmp_path) == core
    assert size_of("core", [core], core.sources).layers == tuple(Share(*layer) for layer in core.layers)
    pool = write_named("pool:4", tmp_path / "pool")
    assert [layer[:2] for layer in pool.layers] == [("pool", "Pool")]
    assert isinstance(pool.layers[0], Operations)


def test_a_core_that_needs_too_much_is_refused_before_verilator_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HYPERSONIC_MEMORY", "100M")
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(ToolMemoryError, match=r"for core pool, .*layer pool \(Pool\).*the limit is 100 MB"):
        RtlCore(write_named("pool:4", tmp_path))


@pytest.mark.parametrize(
    ("name", "kernel"), [("pool:8", True), ("pool:16", False), ("relu:1000", False), ("dense:32:2", False)]
)
def test_what_verilator_takes_is_within_the_factor_of_the_estimate(tmp_path: Path, name: str, kernel: bool) -> None:
    verilator.require("perl")
    rtl, files, top = design(name, tmp_path, kernel=kernel)
    assert rtl.verilator_bytes / FACTOR < verilator_bytes(files, top, tmp_path) < rtl.verilator_bytes * FACTOR
