# SPDX-License-Identifier: Apache-2.0
"""The section EMBEDDED_METADATA: the platform and the kernels with their instances, in XML (kernel/vitis_xml.py reads it)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from hypersonic.firmware.kernel.vitis_xml import KernelDescription, document, metadata_element
from hypersonic.firmware.platform import Platform
from hypersonic.firmware.target import Target

#: the attribute `target` of the element `core`, as v++ writes it
CORE_TARGETS = {Target.SW_EMU: "csim", Target.HW_EMU: "hw_em", Target.HW: "bitstream"}


def embedded_metadata(kernels: Sequence[KernelDescription], target: Target, platform: Platform) -> bytes:
    """The payload of EMBEDDED_METADATA for an xclbin with these kernels and their instances."""
    vendor, _, shell = platform.vbnv.partition("_")
    part, _, package = platform.part.partition("-")
    project = ET.Element("project", name=kernels[0].name)
    board = ET.SubElement(project, "platform", vendor=vendor, boardid=platform.name, name=shell, featureRomTime="0")
    ET.SubElement(board, "version", major="1", minor="0")
    device = ET.SubElement(board, "device", name="fpga0", fpgaDevice=f"{part}:{package}", addrWidth="0")
    core = ET.SubElement(device, "core", name="OCL_REGION_0", target=CORE_TARGETS[target], type="clc_region")
    core.set("numComputeUnits", str(sum(len(kernel.instances) for kernel in kernels)))
    clocks = ET.SubElement(core, "kernelClocks")
    ET.SubElement(clocks, "clock", port="DATA_CLK", frequency=f"{platform.kernel_clock_mhz}.0MHz")
    ET.SubElement(clocks, "clock", port="KERNEL_CLK", frequency=f"{platform.system_clock_mhz}.0MHz")
    core.extend(metadata_element(kernel) for kernel in kernels)
    return document(project)
