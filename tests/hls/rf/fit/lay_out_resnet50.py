# SPDX-License-Identifier: Apache-2.0
"""Prints the designs of ResNet-50's published shapes for a card, and the plan over its dies. Weights and results have 8 bits.

No model is converted, so that this takes seconds: bench/rf_fit.py has the zoo's model.

python -m tests.hls.rf.fit.lay_out_resnet50 [CARD]
"""

from __future__ import annotations

import sys

from hypersonic.building.fit.card import card_of
from hypersonic.firmware.platform import find_platform
from hypersonic.hls.rf.fit.search import fit
from hypersonic.hls.rf.fit.text import fit_lines
from tests.hls.rf.fit.networks import resnet50

if __name__ == "__main__":
    result = fit(resnet50(), card_of(find_platform((sys.argv[1:] or ["u250"])[0])))
    sys.stdout.write("\n".join([*fit_lines(result), ""]))
