# SPDX-License-Identifier: Apache-2.0
"""Toy jets and their observables, each held to its definition written out as loops."""

from __future__ import annotations

from itertools import combinations
from math import cos, cosh, hypot, log, prod, sqrt

import numpy as np
import pytest

from hypersonic.hls.zoo.jets import events, observables, shower
from hypersonic.hls.zoo.jets.shower import CLASSES, CONSTITUENTS, Particles


@pytest.fixture(scope="module")
def jets() -> Particles:
    return shower.generate(2000, 5)


def particles(*jet: tuple[float, float, float]) -> Particles:
    """One jet of (pt, eta, phi), hardest first."""
    table = np.zeros((3, 1, CONSTITUENTS))
    table[:, 0, : len(jet)] = np.array(jet).T
    pt, eta, phi = table
    return Particles(pt, eta, phi, np.zeros(1, np.int64))


def column(name: str, rows: np.ndarray) -> np.ndarray:
    return rows[:, observables.OBSERVABLES.index(name)]


def test_jets_have_the_16_observables_of_the_tutorial_as_float32(jets: Particles) -> None:
    rows = observables.observables(jets)
    assert rows.shape == (2000, 16)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert len(observables.OBSERVABLES) == 16
    np.testing.assert_array_equal(jets.label[:10], [0, 1, 2, 3, 4, 0, 1, 2, 3, 4])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first, again, other = (events.jets(50, seed) for seed in (3, 3, 4))
    assert first.rows.tobytes() == again.rows.tobytes()
    assert first.rows.tobytes() != other.rows.tobytes()


def test_constituents_are_the_hardest_first_inside_the_jet(jets: Particles) -> None:
    assert (np.diff(jets.pt, axis=1) <= 0.0).all()
    assert (np.hypot(jets.eta, jets.phi) < shower.RADIUS).all()
    assert ((jets.pt > 0.0).sum(axis=1) >= 1).all()


def test_masses_peak_where_the_particles_are(jets: Particles) -> None:
    mass = column("mass", observables.observables(jets))
    for name, low, high in (("W", 70.0, 100.0), ("Z", 80.0, 110.0), ("top", 150.0, 190.0)):
        of_class = mass[jets.label == CLASSES.index(name)]
        assert ((of_class > low) & (of_class < high)).mean() > 0.5, name


def test_gluons_have_more_constituents_than_quarks(jets: Particles) -> None:
    count = (jets.pt > 0.0).sum(axis=1)
    assert count[jets.label == 0].mean() > 1.3 * count[jets.label == 1].mean()


def test_correlation_functions_equal_their_definitions(jets: Particles) -> None:
    chosen = np.flatnonzero((jets.pt > 0.0).sum(axis=1) < 24)[:6]
    few = Particles(jets.pt[chosen], jets.eta[chosen], jets.phi[chosen], jets.label[chosen])
    kept, rows = observables.groomed(few), observables.observables(few)
    for i in range(len(chosen)):
        alive = kept[i] > 0.0
        expected = by_definition(kept[i][alive], few.eta[i][alive], few.phi[i][alive])
        np.testing.assert_allclose(rows[i, 1:15], expected, rtol=1e-4, atol=1e-9)
        z = few.pt[i][few.pt[i] > 0.0] / few.pt[i].sum()
        assert rows[i, 0] == pytest.approx(sum(part * log(part) for part in z), rel=1e-5)
        assert rows[i, 15] == len(z)


def by_definition(pt: np.ndarray, eta: np.ndarray, phi: np.ndarray) -> list[float]:
    """c1_b0 to mass, from the papers' sums."""
    z = pt / pt.sum()
    theta = [[hypot(eta[i] - eta[j], phi[i] - phi[j]) for j in range(len(z))] for i in range(len(z))]
    e2 = {b: sum(z[i] * z[j] * theta[i][j] ** b for i, j in combinations(range(len(z)), 2)) for b in (0, 1, 2)}

    def triples(count: int, beta: int) -> float:
        total = 0.0
        for i, j, k in combinations(range(len(z)), 3):
            angles = sorted([theta[i][j], theta[i][k], theta[j][k]])[:count]
            total += z[i] * z[j] * z[k] * prod(angles) ** beta
        return total

    e3 = {b: triples(3, b) for b in (1, 2)}
    square = sum(
        2.0 * pt[i] * pt[j] * (cosh(eta[i] - eta[j]) - cos(phi[i] - phi[j])) for i, j in combinations(range(len(z)), 2)
    )
    return [
        *e2.values(),
        *(e3[b] / e2[b] ** 2 for b in (1, 2)),
        *(e3[b] / e2[b] ** 3 for b in (1, 2)),
        e3[1] / e2[1] ** 3,
        e3[1] / e2[2] ** 1.5,
        *(triples(1, b) / e2[b] for b in (1, 2)),
        *(triples(2, b) / e2[b] ** 2 for b in (1, 2)),
        sqrt(square),
    ]


def test_grooming_equals_the_algorithm_written_out(jets: Particles) -> None:
    kept = observables.groomed(jets)
    for i in range(0, 400, 7):
        alive = np.flatnonzero(jets.pt[i] > 0.0)
        expected = mass_drop([(jets.pt[i, a], jets.eta[i, a], jets.phi[i, a], frozenset({int(a)})) for a in alive])
        assert set(np.flatnonzero(kept[i])) == expected


def mass_drop(pieces: list[tuple[float, float, float, frozenset[int]]]) -> frozenset[int]:
    """Cambridge/Aachen as a tree, undone while the softer branch has less than a tenth."""
    halves: dict[frozenset[int], tuple[tuple[float, frozenset[int]], tuple[float, frozenset[int]]]] = {}
    while len(pieces) > 1:
        a, b = min(combinations(pieces, 2), key=lambda ab: hypot(ab[0][1] - ab[1][1], ab[0][2] - ab[1][2]))
        pt = a[0] + b[0]
        both = (pt, (a[0] * a[1] + b[0] * b[1]) / pt, (a[0] * a[2] + b[0] * b[2]) / pt, a[3] | b[3])
        halves[both[3]] = ((a[0], a[3]), (b[0], b[3]))
        pieces = [piece for piece in pieces if piece is not a and piece is not b] + [both]
    branch = pieces[0][3]
    while branch in halves:
        soft, hard = sorted(halves[branch], key=lambda half: half[0])
        if soft[0] >= observables.Z_CUT * (soft[0] + hard[0]):
            break
        branch = hard[1]
    return branch


def test_soft_wide_radiation_is_groomed_away_and_a_hard_pair_is_not() -> None:
    jet = particles((600.0, 0.1, 0.0), (300.0, -0.2, 0.0), (5.0, 0.0, 0.7))
    kept = observables.groomed(jet)[0]
    np.testing.assert_array_equal(kept[:3], [600.0, 300.0, 0.0])
    rows = observables.observables(jet)
    assert column("c1_b1", rows)[0] == pytest.approx((2 / 3) * (1 / 3) * 0.3)
    assert column("n2_b1", rows)[0] == 0.0
    assert column("multiplicity", rows)[0] == 3


def test_a_jet_of_one_particle_has_no_substructure() -> None:
    rows = observables.observables(particles((900.0, 0.0, 0.0)))
    np.testing.assert_allclose(rows[0, :15], 0.0, atol=1e-3)
    assert rows[0, 15] == 1.0
