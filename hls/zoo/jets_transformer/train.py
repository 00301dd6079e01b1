# SPDX-License-Identifier: Apache-2.0
"""Train the transformer with HGQ2 and write the file that the zoo ships.

`python -m hypersonic.hls.zoo.jets_transformer.train --output DIRECTORY` takes a few minutes.

HGQ2 is installed into the cache first if it is not there.
"""

from __future__ import annotations

import sys

from hypersonic.hls.zoo.hgq_2 import Schedule
from hypersonic.hls.zoo.jets_hgq.train import Recipe, main
from hypersonic.hls.zoo.jets_transformer import events, network

RECIPE = Recipe("jets_transformer", network.network, events.jets, events.network_inputs, Schedule(60, 5e-3, 1024, (5e-7, 3e-6)))

if __name__ == "__main__":
    sys.exit(main(RECIPE, __doc__))
