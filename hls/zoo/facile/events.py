# SPDX-License-Identifier: Apache-2.0
"""HCAL events for FACILE: a toy of the readout of CMS' barrel and endcap (HB, HE) after the Phase-1 upgrade.

A row is one channel, 18 FP32 in the order of FEATURES: ieta, iphi, gain (GeV/fC), 8 time-slice charges (fC), depth
one-hot 1 to 7. The truth is the channel's energy in the bunch crossing that triggered (BX 0), in GeV.

The chain per channel: energy in BX -3..+3 -> mean photo-electrons per 25 ns slice (pulse shape, arrival jitter) -> Poisson
photo-electrons and dark counts -> charge (pedestal, electronics noise) -> QIE11 pseudo-logarithmic code -> charge of the code.
Only numpy; the same seed gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.facile.geometry import CHANNELS, Geometry, geometry

Float = NDArray[np.float64]

SLICES = 8
FIRST_CHARGE = 3  # column of time slice 0
FIRST_DEPTH = FIRST_CHARGE + SLICES
FEATURES = ("ieta", "iphi", "gain", *(f"charge{i}_fc" for i in range(SLICES)), *(f"depth{d}" for d in range(1, 8)))

SLICE_NS = 25.0
SAMPLE_OF_INTEREST = 3  # the slice in which BX 0 arrives
JITTER_NS = 2.0  # rms of the arrival time
BUNCH_CROSSINGS = (-3, -2, -1, 0, 1, 2, 3)

NOMINAL_GAIN = 7.0e-4  # GeV/fC: the mean gain input of the networks CMS trained for Run 3
# SiPMs are equalised by bias voltage to a few per cent, so 10 % is generous. The 43 % spread of CMS' gain input comes from
# response corrections in eta, which can be applied to the energy after reconstruction. The network has to learn gain * charge
# over three decades with 31 ReLU units: with a spread of 15 % it was no better than the in-time sum between 10 and 30 GeV.
GAIN_SPREAD = 0.10  # rms of log(gain)
CHARGE_PER_PE_FC = 44.0  # at the nominal gain
PE_PER_GEV = 1.0 / (NOMINAL_GAIN * CHARGE_PER_PE_FC)  # depends on scintillator and fibre, not on the SiPM's gain
PEDESTAL_FC = 180.0  # including dark counts
NOISE_FC = 30.0  # electronics, rms per slice
DARK_PE = 0.2  # dark counts per slice
FULL_SCALE_GEV = 500.0


@dataclass(frozen=True)
class Events:
    """Whole events.

    Attributes:
        rows: (events * CHANNELS, 18) float32 in GeV/fC and fC.
        energy: (events * CHANNELS,) float32, GeV, BX 0.
    """

    rows: NDArray[np.float32]
    energy: NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.rows) // CHANNELS


# ---- pulse shape ---------------------------------------------------------------------------------------------------------

_STEP_NS = 0.25
_LENGTH_NS = 250.0
#: a BX 0 pulse begins this long before slice 3 ends (the phase of the readout), so that 45 % of it falls into slice 3
PHASE_NS = 23.0


@lru_cache(maxsize=1)
def pulse_integral() -> Float:
    """Return the fraction of a pulse's charge collected until i * 0.25 ns after its start, (1001,), 0 to 1.

    The pulse is the light of the Y11 fibre, t^2.528 exp(-0.1518 t) with t in ns, convolved with the SiPM's recovery (3.5 ns).
    """
    t = np.arange(0.0, _LENGTH_NS + _STEP_NS, _STEP_NS)
    light = t**2.528 * np.exp(-0.1518 * t)
    recovery = np.exp(-t / 3.5)
    integral = np.cumsum(np.convolve(light, recovery)[: len(t)])
    return np.asarray(integral / integral[-1])


def slice_fractions(arrival_ns: Float) -> Float:
    """Return the fraction of a pulse's charge in each time slice (n, 8).

    Args:
        arrival_ns: (n,), relative to an on-time BX 0 pulse.
    """
    ends = SLICE_NS * (np.arange(SLICES + 1) - SAMPLE_OF_INTEREST - 1) + PHASE_NS
    since_start = (ends[None, :] - arrival_ns[:, None]) / _STEP_NS
    return np.diff(np.interp(since_start, np.arange(len(pulse_integral())), pulse_integral()), axis=1)


# ---- QIE11 ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def qie_edges() -> Float:
    """Return the lower edges of the 256 codes in fC and, last, full scale (355 pC): (257,).

    There are 4 ranges of 64 codes, each 8 times as coarse as the one before. In the first range 16 bins are 1, 20 are 2, 21 are
    4 and 7 are 8 units of 3.1 fC wide (QIE10/QIE11 data sheet).
    """
    bins = np.repeat([1.0, 2.0, 4.0, 8.0], [16, 20, 21, 7])
    widths = 3.1 * np.concatenate([bins * 8.0**exponent for exponent in range(4)])
    return np.concatenate([[0.0], np.cumsum(widths)])


def qie(charge_fc: Float) -> Float:
    """Return the centre of the QIE11 bin of each charge (any shape), in fC; charges out of range use the first or last bin."""
    edges = qie_edges()
    code = np.clip(np.searchsorted(edges, charge_fc, side="right") - 1, 0, 255)
    return np.asarray(((edges[:-1] + edges[1:]) / 2)[code])


# ---- one event -----------------------------------------------------------------------------------------------------------


def pile_up(rng: np.random.Generator, place: Geometry) -> Float:
    """Return the energy (CHANNELS,) in GeV from the soft collisions of one bunch crossing, most often at low depth and high
    |eta|."""
    forward = (np.abs(place.ieta) / 29.0) ** 2
    occupancy = (0.06 + 0.24 * forward) * np.where(place.depth <= 3, 1.0, 0.4)
    mean_gev = 0.20 + 0.40 * forward
    hit = (rng.random(CHANNELS) < occupancy) & place.connected
    return np.where(hit, rng.exponential(mean_gev), 0.0)


def _mean_photo_electrons(rng: np.random.Generator, crossings: dict[int, Float]) -> Float:
    """Return the mean photo-electrons (CHANNELS, 8) for the energies of each bunch crossing; arrival times are random."""
    mean = np.full((CHANNELS, SLICES), DARK_PE)
    for crossing, energy in crossings.items():
        hit = np.flatnonzero(energy)
        arrival = SLICE_NS * crossing + rng.normal(0.0, JITTER_NS, len(hit))
        mean[hit] += PE_PER_GEV * energy[hit, None] * slice_fractions(arrival)
    return mean


def _event(rng: np.random.Generator, signal: Callable[[np.random.Generator, Geometry], Float]) -> tuple[Float, Float]:
    """Return the rows (CHANNELS, 18) and energies (CHANNELS,) of one event."""
    place = geometry()
    crossings = {crossing: pile_up(rng, place) for crossing in BUNCH_CROSSINGS}
    crossings[0] = crossings[0] + signal(rng, place)
    gain = NOMINAL_GAIN * np.exp(rng.normal(0.0, GAIN_SPREAD, CHANNELS))
    photo_electrons = rng.poisson(_mean_photo_electrons(rng, crossings))
    per_pe = CHARGE_PER_PE_FC * NOMINAL_GAIN / gain
    pedestal = PEDESTAL_FC - DARK_PE * CHARGE_PER_PE_FC
    charge = photo_electrons * per_pe[:, None] + rng.normal(pedestal, NOISE_FC, (CHANNELS, SLICES))
    depth = place.depth[:, None] == np.arange(1, 8)
    rows = np.column_stack([place.ieta, place.iphi, gain, qie(charge), depth])
    return rows, crossings[0]


def _events(kind: int, count: int, seed: int, signal: Callable[[np.random.Generator, Geometry], Float]) -> Events:
    """Generate events. Event i depends on (kind, seed, i) only, so that a larger sample begins with the events of a smaller
    one."""
    rows = np.empty((count, CHANNELS, len(FEATURES)), np.float32)
    energy = np.empty((count, CHANNELS), np.float32)
    for i in range(count):
        rows[i], energy[i] = _event(np.random.default_rng([kind, seed, i]), signal)
    return Events(rows.reshape(-1, len(FEATURES)), energy.reshape(-1))


# ---- the two kinds of events ---------------------------------------------------------------------------------------------


def log_flat_events(count: int, seed: int, *, low_gev: float = 0.1, high_gev: float = FULL_SCALE_GEV) -> Events:
    """Generate events with energies flat in log(E), so that every energy bin is filled; one channel in ten is empty."""

    def signal(rng: np.random.Generator, place: Geometry) -> Float:
        energy = low_gev * (high_gev / low_gev) ** rng.random(CHANNELS)
        return np.where((rng.random(CHANNELS) < 0.9) & place.connected, energy, 0.0)

    return _events(0, count, seed, signal)


def physics_events(count: int, seed: int) -> Events:
    """Generate events as a trigger selects them: a few jets on top of pile-up, with most channels empty."""
    return _events(1, count, seed, jets)


def gate_rows() -> NDArray[np.float32]:
    """Return the rows (4000, 18) on which a conversion is compared with its network: every 8th channel of one event per
    kind."""
    both = np.concatenate([log_flat_events(1, 9001).rows[::8], physics_events(1, 9001).rows[::8]])
    return np.ascontiguousarray(both)


def jets(rng: np.random.Generator, place: Geometry) -> Float:
    """Return the energy (CHANNELS,) in GeV of two hard jets (pT > 80 GeV) and a few softer ones (> 30 GeV)."""
    energy = np.zeros(CHANNELS)
    for threshold_gev in [80.0, 80.0] + [30.0] * int(rng.poisson(3)):
        pt_gev = min(threshold_gev * (1.0 - rng.random()) ** (-1.0 / 3.0), 1000.0)
        eta, phi = rng.normal(0.0, 1.4), rng.uniform(0.0, 2.0 * np.pi)
        hadrons = 2 + rng.poisson(5)
        share = rng.dirichlet(np.full(hadrons, 0.4)) * rng.uniform(0.4, 0.9)  # the rest is electromagnetic
        for part in share:
            at = (eta + rng.normal(0.0, 0.1), phi + rng.normal(0.0, 0.1))
            energy += _shower(rng, place, part * pt_gev * np.cosh(at[0]), at)
    return np.where(energy > 0.02, np.minimum(energy, FULL_SCALE_GEV), 0.0)


def _shower(rng: np.random.Generator, place: Geometry, energy_gev: float, at: tuple[float, float]) -> Float:
    """Return one hadron's energy (CHANNELS,): a Gaussian core narrower than a tower (0.087), around a random shower depth."""
    delta_phi = np.angle(np.exp(1j * (place.phi - at[1])))
    distance2 = (place.eta - at[0]) ** 2 + delta_phi**2
    start = rng.exponential(1.2) + 0.5
    along = np.exp(-0.5 * ((place.depth - start - 0.5) / 1.1) ** 2)
    weight = np.where(place.connected & (distance2 < 0.09), np.exp(-distance2 / (2 * 0.035**2)) * along, 0.0)
    total = weight.sum()
    return energy_gev * weight / total if total > 1e-6 else weight * 0.0
