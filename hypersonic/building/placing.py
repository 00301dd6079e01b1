# SPDX-License-Identifier: Apache-2.0
"""The plan of a build's units, for which their kernels may need registers at their AXI ports (toolchains/port_registers.py).

It is made twice: after the conversion, from what is known of a unit without Yosys, so that an emulated kernel is the card's;
and for a card again from the estimate of Yosys, before place and route (linking.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypersonic.building.converted import Converted
from hypersonic.building.fit.card import SHELL
from hypersonic.firmware.estimate.kernel import known_amounts
from hypersonic.firmware.toolchains.port_registers import registered
from hypersonic.firmware.toolchains.toolchain import KernelUnits
from hypersonic.hls.resources import KINDS, Amounts
from hypersonic.hls.rf.fit.exchange import fit_from_json


def placed(models: Sequence[Converted]) -> list[Converted]:
    """Return the models, which are those of one xclbin, with their kernels as the plan needs them."""
    if not all(model.kernel for model in models):
        return list(models)  # sw_emu
    parts = [KernelUnits(model.kernel, model.request.compute_units, _amounts(model)) for model in models if model.kernel]
    planned = registered(parts, models[0].request.platform)
    return [replace(model, kernel=part.kernel) for model, part in zip(models, planned, strict=True)]


def _amounts(model: Converted) -> Amounts:
    """Return the resources of a compute unit, estimated without Yosys: of each kind, the largest of the estimates."""
    assert model.core is not None
    figures = [known_amounts(model.core)]
    if logic := model.core.logic:
        figures.append(SHELL + Amounts(lut=logic.luts, ff=logic.registers))
    if found := model.project.report.get("fit"):
        figures.append(fit_from_json(found).chosen.design.unit)
    return Amounts(*(max(getattr(one, kind) for one in figures) for kind in KINDS))
