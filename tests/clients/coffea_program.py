# SPDX-License-Identifier: Apache-2.0
"""Runs in coffea's own environment: a processor's call of triton_wrapper, coffea's and ours, with awkward arrays in and out.

coffea_program.py <address> <model> <version> <input> <output> <rows.npy> <answers.npy>
"""

from __future__ import annotations

import sys
from typing import Any

import awkward as ak
import numpy as np
from coffea.ml_tools import triton_wrapper

from hypersonic.client import coffea as ours


class Energies(triton_wrapper):  # type: ignore[misc] # coffea is not installed here
    def prepare_awkward(self, given: str, wanted: str, rows: Any) -> Any:
        return [], {"output_list": [wanted], "input_dict": {given: rows}}


class OurEnergies(ours.triton_wrapper):
    def prepare_awkward(self, given: str, wanted: str, rows: Any) -> Any:
        return [], {"output_list": [wanted], "input_dict": {given: rows}}


def main(address: str, model: str, version: str, given: str, wanted: str, rows: str, answers: str) -> None:
    energies = Energies(f"triton+grpc://{address}/{model}/{version}", client_args={"ssl": False})
    array = ak.from_numpy(np.load(rows))
    served = energies(given, wanted, array)[wanted]
    assert isinstance(served, ak.Array)
    assert len(energies(given, wanted, array[:0])[wanted]) == 0
    np.save(answers, ak.to_numpy(served))
    our_energies = OurEnergies(f"triton+grpc://{address}/{model}/{version}", client_args={"ssl": False})
    np.testing.assert_array_equal(ak.to_numpy(our_energies(given, wanted, array)[wanted]), ak.to_numpy(served))
    assert our_energies.batch_size == energies.batch_size


if __name__ == "__main__":
    main(*sys.argv[1:])
