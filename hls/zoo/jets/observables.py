# SPDX-License-Identifier: Apache-2.0
"""The 16 substructure observables of the hls4ml jet data set, computed from constituents by their published definitions.

Notation: z = pt / sum pt; theta is the distance in eta and phi; sums run over pairs and triples of different constituents.

::

    e2 = sum z z theta^b, e3 = sum z z z (theta theta theta)^b
    C1 = e2, C2 = e3 / e2^2                                  Larkoski, Salam, Thaler, arXiv:1305.0007
    D2 = e3 / e2^3, D2(a,b) = e3(a) / e2(b)^(3a/b)           Larkoski, Moult, Neill, arXiv:1409.6298
    M2 = 1e3 / e2, N2 = 2e3 / e2^2                           Moult, Necib, Thaler, arXiv:1609.07483

1e3 and 2e3 are like e3, with the smallest angle of a triple and with the product of its two smallest angles. All except
sum z ln z and the multiplicity are computed from the groomed jet: modified mass drop with z_cut 0.1 (Dasgupta et al.,
arXiv:1307.0007), which undoes Cambridge/Aachen clustering. A jet of fewer than three constituents has e3 = 0. A ratio whose
denominator is 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.zoo.jets.shower import Particles

Float = NDArray[np.float64]
Int = NDArray[np.int64]

OBSERVABLES = (
    *("zlogz", "c1_b0", "c1_b1", "c1_b2", "c2_b1", "c2_b2", "d2_b1", "d2_b2", "d2_a1_b1", "d2_a1_b2"),
    *("m2_b1", "m2_b2", "n2_b1", "n2_b2", "mass", "multiplicity"),
)
Z_CUT = 0.1
_CHUNK = 400_000  # distances or triples at a time, few enough for the processor's cache


def observables(jets: Particles) -> NDArray[np.float32]:
    """Return the observables (n, 16), float32, in the order of OBSERVABLES; the mass is in GeV. 10 000 jets take a few
    seconds."""
    rows = np.zeros((len(jets.label), len(OBSERVABLES)))
    z = jets.pt / np.maximum(jets.pt.sum(axis=1, keepdims=True), 1e-9)
    rows[:, 0] = (z * np.log(np.where(z > 0.0, z, 1.0))).sum(axis=1)
    rows[:, 15] = (jets.pt > 0.0).sum(axis=1)
    kept = groomed(jets)
    order = np.argsort(-kept, axis=1, kind="stable")
    hard = [np.take_along_axis(values, order, axis=1) for values in (kept, jets.eta, jets.phi)]
    for jet, size in _alike((hard[0] > 0.0).sum(axis=1), cost=lambda size: size**3 // 6 + 1):
        pt, eta, phi = (values[jet, :size] for values in hard)
        rows[jet, 1:14] = _correlations(pt, eta, phi)
        rows[jet, 14] = mass(pt, eta, phi)
    return rows.astype(np.float32)


def _alike(size: Int, cost: Callable[[int], int]) -> Iterator[tuple[Int, int]]:
    """Yield groups of jets of equal size as (indices, size), each small enough for the cache.

    Args:
        cost: numbers per jet of a size.
    """
    for count in np.unique(size):
        jet = np.flatnonzero(size == count)
        piece = max(1, _CHUNK // cost(int(count)))
        for first in range(0, len(jet), piece):
            yield jet[first : first + piece], int(count)


def mass(pt: Float, eta: Float, phi: Float) -> Float:
    """Return the invariant mass (n,) in GeV of massless constituents.

    Args:
        pt: (n, k) in GeV.
        eta, phi: (n, k).
    """
    energy = (pt * np.cosh(eta)).sum(axis=1)
    space = [(pt * part).sum(axis=1) for part in (np.cos(phi), np.sin(phi), np.sinh(eta))]
    return np.asarray(np.sqrt(np.maximum(energy**2 - sum(part**2 for part in space), 0.0)))


def _correlations(pt: Float, eta: Float, phi: Float) -> Float:
    """Return c1_b0 to n2_b2 (n, 13) for constituents (n, k), none of which is empty."""
    z = pt / np.maximum(pt.sum(axis=1, keepdims=True), 1e-9)
    first, second = _subsets(pt.shape[1], 2)
    pair = z[:, first] * z[:, second]
    theta = np.sqrt((eta[:, first] - eta[:, second]) ** 2 + (phi[:, first] - phi[:, second]) ** 2)
    e2 = [pair.sum(axis=1), (pair * theta).sum(axis=1), (pair * theta**2).sum(axis=1)]
    e3, smallest, two = _triples(z, theta)
    return np.stack(
        [
            *e2,
            _ratio(e3[0], e2[1] ** 2),
            _ratio(e3[1], e2[2] ** 2),
            _ratio(e3[0], e2[1] ** 3),
            _ratio(e3[1], e2[2] ** 3),
            _ratio(e3[0], e2[1] ** 3),
            _ratio(e3[0], e2[2] ** 1.5),
            _ratio(smallest[0], e2[1]),
            _ratio(smallest[1], e2[2]),
            _ratio(two[0], e2[1] ** 2),
            _ratio(two[1], e2[2] ** 2),
        ],
        axis=1,
    )


def _triples(z: Float, theta: Float) -> tuple[tuple[Float, Float], ...]:
    """Return e3, 1e3 and 2e3, each for beta 1 and 2.

    Args:
        theta: distances of the pairs in the order of _subsets(k, 2).
    """
    i, j, k = _subsets(z.shape[1], 3)
    place = np.zeros((z.shape[1],) * 2, np.int64)
    place[_subsets(z.shape[1], 2)] = np.arange(theta.shape[1])
    weight = z[:, i] * z[:, j] * z[:, k]
    a, b, c = theta[:, place[i, j]], theta[:, place[i, k]], theta[:, place[j, k]]
    smallest, largest = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    product = a * b * c
    two = product / np.maximum(largest, 1e-12)
    return tuple((np.einsum("nt,nt->n", weight, x), np.einsum("nt,nt,nt->n", weight, x, x)) for x in (product, smallest, two))


@lru_cache(maxsize=256)
def _subsets(size: int, count: int) -> tuple[Int, ...]:
    subsets = np.array(list(combinations(range(size), count)), dtype=np.int64).reshape(-1, count)
    return tuple(subsets.T)


def _ratio(above: Float, below: Float) -> Float:
    return np.asarray(np.where(below > 1e-18, above / np.where(below > 1e-18, below, 1.0), 0.0))


# ---- grooming ------------------------------------------------------------------------------------------------------------


def groomed(jets: Particles) -> Float:
    """Return pt (n, k) in GeV with the constituents that the modified mass drop removes set to 0."""
    kept = np.zeros_like(jets.pt)
    for jet, size in _alike((jets.pt > 0.0).sum(axis=1), cost=lambda size: size * size + 1):
        pt, eta, phi = (values[jet, :size] for values in (jets.pt, jets.eta, jets.phi))
        kept[jet, :size] = pt * _survives(*_clustered(pt, eta, phi)) if size > 1 else pt
    return kept


def _clustered(pt: Float, eta: Float, phi: Float) -> tuple[Int, Int, Float]:
    """Cluster n jets of k > 1 constituents by Cambridge/Aachen with pt-weighted recombination, all jets in step.

    Each of the k - 1 steps merges the two closest slots. Returns the slots that were merged, (k - 1, n) each, the second into
    the first, and their pt before the merge (k - 1, n, 2).
    """
    count, size = pt.shape
    pt, eta, phi, row = pt.copy(), eta.copy(), phi.copy(), np.arange(count)
    distance = (eta[:, :, None] - eta[:, None, :]) ** 2 + (phi[:, :, None] - phi[:, None, :]) ** 2
    distance[:, np.arange(size), np.arange(size)] = np.inf
    into, gone, momenta = [], [], []
    for _ in range(size - 1):
        a, b = np.divmod(distance.reshape(count, -1).argmin(axis=1), size)
        momenta.append(np.stack([pt[row, a], pt[row, b]], axis=1))
        total = pt[row, a] + pt[row, b]
        for place in (eta, phi):
            place[row, a] = (pt[row, a] * place[row, a] + pt[row, b] * place[row, b]) / total
        pt[row, a], pt[row, b] = total, 0.0
        near = (eta - eta[row, a, None]) ** 2 + (phi - phi[row, a, None]) ** 2
        near[pt == 0.0] = np.inf
        near[row, a] = np.inf
        distance[row, a], distance[row, :, a] = near, near
        distance[row, b], distance[row, :, b] = np.inf, np.inf
        into.append(a)
        gone.append(b)
    return np.array(into), np.array(gone), np.array(momenta)


def _survives(into: Int, gone: Int, momenta: Float) -> NDArray[np.bool_]:
    """Undo the clustering and drop softer branches with less than Z_CUT, until the first hard split; return what remains (n,
    k)."""
    size, count = len(into) + 1, into.shape[1]
    members = _members(into, gone)
    kept, searching = np.ones((count, size), np.bool_), np.ones(count, np.bool_)
    branch = into[-1]  # the slot of the branch that is followed
    for step in range(size - 2, -1, -1):
        here = searching & (into[step] == branch)
        first, second = momenta[step].T
        drop = here & (np.minimum(first, second) < Z_CUT * (first + second))
        goes_on = np.where((second > first)[:, None], members[step], ~members[step])
        kept &= goes_on | ~drop[:, None]
        branch = np.where(drop & (second > first), gone[step], branch)
        searching &= drop | ~here
    return kept


def _members(into: Int, gone: Int) -> list[NDArray[np.bool_]]:
    """Return, for each step, which constituents (n, k) were in the slot that was merged into another."""
    size, count = len(into) + 1, into.shape[1]
    slot = np.broadcast_to(np.arange(size), (count, size))
    columns = []
    for a, b in zip(into, gone, strict=True):
        moved = slot == b[:, None]
        slot = np.where(moved, a[:, None], slot)
        columns.append(moved)
    return columns
