# SPDX-License-Identifier: Apache-2.0
"""The hardest constituents of the toy jets as rows, for the taggers that read particles instead of observables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.shower import Particles

Float = NDArray[np.float64]

#: the numbers that particle_sets gives for each particle
SET_FEATURES = ("pt / jet pt", "eta", "phi")
#: the numbers that sequences gives for each particle
SEQUENCE_FEATURES = ("ln pt in GeV", "ln(pt / jet pt)", "ln energy in GeV", "eta", "phi", "distance from the axis")


def particle_sets(jets: Particles, count: int) -> NDArray[np.float32]:
    """Return SET_FEATURES of the `count` hardest particles, (n, count, 3) float32; all zero where a jet has fewer."""
    pt, eta, phi = (values[:, :count] for values in (jets.pt, jets.eta, jets.phi))
    some = pt > 0.0
    return np.stack([pt / _total(jets), some * eta, some * phi], axis=2).astype(np.float32)


def sequences(jets: Particles, count: int) -> NDArray[np.float32]:
    """Return SEQUENCE_FEATURES of the `count` hardest particles, hardest first, (n, count, 6) float32; all zero where a jet has
    fewer."""
    pt, eta, phi = (values[:, :count] for values in (jets.pt, jets.eta, jets.phi))
    some = pt > 0.0
    safe = np.where(some, pt, 1.0)
    features = (np.log(safe), np.log(safe / _total(jets)), np.log(safe * np.cosh(eta)), eta, phi, np.hypot(eta, phi))
    return np.stack([np.where(some, values, 0.0) for values in features], axis=2).astype(np.float32)


def _total(jets: Particles) -> Float:
    return np.asarray(np.maximum(jets.pt.sum(axis=1, keepdims=True), 1e-9), np.float64)
