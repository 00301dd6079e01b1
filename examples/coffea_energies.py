# SPDX-License-Identifier: Apache-2.0
"""A coffea analysis whose energies come from servers: all channels of a chunk of events in one call. Needs coffea.

python examples/coffea_energies.py HOST:PORT[,HOST:PORT...]
"""

from __future__ import annotations

import sys
from typing import Any

import awkward as ak
import numpy as np

from hypersonic.client.coffea import triton_wrapper


class Energies(triton_wrapper):
    """FACILE: 18 numbers of a channel in, its energy out."""

    def prepare_awkward(self, channels: Any) -> Any:
        """Return the arguments of the call, as coffea's wrappers do: the channels of all events, one after another."""
        return [], {"output_list": ["output"], "input_dict": {"input": ak.flatten(channels)}}


def energies_of(events: Any, energies: Energies) -> Any:
    """Return the energy of each channel of each event."""
    served = energies(events.channels)["output"]
    return ak.unflatten(served[:, 0], ak.num(events.channels))


def main(addresses: str) -> None:
    """Make three events, and print the number of channels and the largest energy of each."""
    rows = np.random.default_rng(1).uniform(0, 1, (600, 18)).astype(np.float32)
    channels = ak.to_regular(ak.unflatten(ak.from_regular(ak.from_numpy(rows)), [200, 0, 400]), axis=2)
    events = ak.zip({"channels": channels}, depth_limit=1)
    found = energies_of(events, Energies(f"triton+grpc://{addresses}/facile/1", client_args={"ssl": False}))
    for number, of_event in enumerate(found):
        print(
            f"event {number}: {len(of_event)} channels, largest energy {ak.max(of_event, initial=0, mask_identity=False):.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1])
