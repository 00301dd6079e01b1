# SPDX-License-Identifier: Apache-2.0
"""A platform: a card that does not exist, half of a U250."""

from __future__ import annotations

from tests.house.lists.change import Change

_FILE = """\
# SPDX-License-Identifier: Apache-2.0
# A card that does not exist: two dies of a U250 with one DIMM each. Sources: none. The fields: firmware/platform.py.
name = "u125"
part = "xcu125-figd2104-2L-e"
vbnv = "xilinx_u125_gen3x8_xdma_1_0"
build = "xrt"
unverified = ["part", "vbnv"]

[clock]
kernel_mhz = 250
system_mhz = 500
scalable = true

[pcie]
link = "Gen3 x8"
h2c_gb_s = 5.0
c2h_gb_s = 6.0
""" + "".join(
    f"""
[[slr]]
lut = 345_000
ff = 690_000
dsp = 2_877
bram36 = 500
uram = 320

[[memory]]
tag = "bank{die}"
sp = "DDR[{die}]"
kind = "DDR4"
base = 0x{die + 4}000000000
size_mib = 16_384
peak_gb_s = 19.2
slr = {die}
"""
    for die in (0, 1)
)

_CHECK = """\
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.xclbin.connectivity import assign_banks, budgets
from hypersonic.plan.limits import capacity_of
from tests.plan.questions import hlt

card = find_platform("u125")
assert len(budgets(card)) == len(card.memory) == 2
assert [list(bank) for unit in assign_banks(card, 1, 2) for bank in unit]
limits = {limit.part: limit.events_per_s for limit in capacity_of(hlt(platform="u125"), 1).limits}
assert round(limits["kernel"]) == round(250e6 / 18_000)  # 16 000 rows of 72 bytes, 64 bytes a clock
"""

CHANGE = Change(
    section="A platform",
    new={"firmware/platforms/u125.toml": _FILE},
    edits={},
    unneeded={"firmware/platform.py": "documents the fields"},
    check=_CHECK,
    tests=("tests/firmware/test_platform.py",),
)
