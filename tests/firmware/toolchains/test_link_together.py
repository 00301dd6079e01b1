# SPDX-License-Identifier: Apache-2.0
"""Several kernels are packaged and linked into one xclbin, with stand-ins for the tools (see conftest.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.firmware.errors import ResourceError
from hypersonic.firmware.kernel.write import write_kernel
from hypersonic.firmware.toolchains.errors import StepError
from hypersonic.firmware.toolchains.toolchain import CardOptions, KernelUnits
from hypersonic.firmware.toolchains.vitis.build import link_kernels
from hypersonic.firmware.toolchains.vitis.tools import Tools
from hypersonic.firmware.xclbin.assemble import LinkedKernel
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.hls.resources import Amounts
from hypersonic.sim.bench_core import bench_rows, write_bench_core
from tests.firmware.toolchains.conftest import U250, Vendor
from tests.support.rtl.bench_weights import write_bench_weights

OPTIONS = CardOptions(needed_bytes=0)


@pytest.fixture
def kernels(tmp_path: Path) -> list[KernelUnits]:
    cores = write_bench_core(*bench_rows(3, 2), tmp_path / "a", name="alpha"), write_bench_weights(tmp_path / "b", name="beta")
    first, second = (write_kernel(core, tmp_path / "kernels") for core in cores)
    return [KernelUnits(first, 2), KernelUnits(second, 1)]


def test_several_kernels_are_packaged_each_and_linked_into_one_xclbin(
    vendor: Vendor, tools: Tools, tmp_path: Path, kernels: list[KernelUnits]
) -> None:
    vendor.link_kernels(U250, LinkedKernel("alpha", 2), LinkedKernel("beta", 1, weights=True))
    built = [link_kernels("trigger", kernels, U250, tools, tmp_path / "builds", OPTIONS) for _ in range(2)]
    assert built[0] == built[1]
    assert vendor.steps() == ["check_part.tcl", "package_xo.tcl", "package_xo.tcl", "vpl.synth", "vpl.impl"]
    assert vendor.calls()[-1][-2:] == ["alpha/alpha.xo", "beta/beta.xo"]
    assert (built[0].build.name.split("-")[:2], built[0].xclbin.name) == (["trigger", "u250"], "trigger.xclbin")
    config = (built[0].build / "link.cfg").read_text().splitlines()
    assert [line for line in config if line.startswith(("nk=", "kernel_frequency="))] == [
        "kernel_frequency=0:300", "nk=alpha:2:alpha_1,alpha_2", "nk=beta:1:beta_1",
    ]  # fmt: skip
    xclbin = Xclbin.read(built[0].xclbin)
    assert xclbin.kernel_digests == {part.kernel.name: part.kernel.sha256 for part in kernels}
    assert xclbin.bitstream == b"bitstream"


def test_an_xclbin_that_lacks_a_kernel_is_refused(
    vendor: Vendor, tools: Tools, tmp_path: Path, kernels: list[KernelUnits]
) -> None:
    vendor.link_kernels(U250, LinkedKernel("alpha", 2))
    with pytest.raises(StepError, match=r"kernels is \['alpha'\], expected \['alpha', 'beta'\]; v\+\+ linked something else"):
        link_kernels("trigger", kernels, U250, tools, tmp_path / "builds", OPTIONS)


def test_kernels_that_are_too_large_together_are_refused_before_any_tool_runs(
    vendor: Vendor, tools: Tools, tmp_path: Path, kernels: list[KernelUnits]
) -> None:
    large = [KernelUnits(part.kernel, 3, Amounts(lut=150_000)) for part in kernels]
    with pytest.raises(ResourceError, match="the kernels alpha x 3, beta x 3 do not fit u250 together: compute unit"):
        link_kernels("trigger", large, U250, tools, tmp_path / "builds", OPTIONS)
    assert vendor.calls() == []
