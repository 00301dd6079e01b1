# SPDX-License-Identifier: Apache-2.0
"""The xclbin of an emulated card with XRT (emulation.py): a simulator for each kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypersonic.firmware.kernel.files import Kernel
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.firmware.xclbin.images import kernel_images, pack_images
from hypersonic.host.library import library_path
from hypersonic.sim.card.emulation import EmulatedModel, Progress
from hypersonic.sim.card.simulator import build_simulator, check_simulator


def check(kernel: Kernel) -> None:
    """Raise ToolMemoryError if Verilator would need more memory for the kernel than its limit."""
    check_simulator(kernel)


def emulate(
    models: Sequence[EmulatedModel], target: Target, platform: Platform, tools: Mapping[str, str], progress: Progress
) -> bytes:  # fmt: skip
    """Return the xclbin's bytes; compile the emulated card too, so that the first server finds it."""
    images = {
        model.project.name: build_simulator(target, model.project, model.kernel, progress).read_bytes() for model in models
    }
    library_path(target, progress)
    linked = [LinkedKernel(model.project.name, model.compute_units, model.weights, model.digest) for model in models]
    return assemble_kernels(linked, target, platform, pack_images(images), tools=tools)


def simulators(xclbin: Xclbin) -> Mapping[str, bytes]:
    """The simulator of each kernel of an xclbin, by name."""
    return kernel_images(xclbin)
