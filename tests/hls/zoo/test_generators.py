# SPDX-License-Identifier: Apache-2.0
"""The toy events of DeepCalo, EmTrkMichelId, DeepMET and DeepClean: shapes, ranges, the same bytes for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hypersonic.hls.zoo.deepcalo import events as deepcalo
from hypersonic.hls.zoo.deepclean import events as deepclean
from hypersonic.hls.zoo.deepmet import events as deepmet
from hypersonic.hls.zoo.emtrk import events as emtrk

GENERATORS: dict[str, Callable[[int, int], object]] = {
    "deepcalo": deepcalo.generate,
    "emtrk": emtrk.generate,
    "deepmet": deepmet.generate,
    "deepclean": deepclean.generate,
}


def arrays(sample: object) -> dict[str, np.ndarray]:
    return dict(vars(sample))


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(name: str) -> None:
    first, again, other = (arrays(GENERATORS[name](12, seed)) for seed in (3, 3, 4))
    assert {k: v.tobytes() for k, v in first.items()} == {k: v.tobytes() for k, v in again.items()}
    assert next(iter(first.values())).tobytes() != next(iter(other.values())).tobytes()


@pytest.mark.parametrize("name", ["deepmet", "deepclean"])
def test_a_longer_run_begins_with_a_shorter_one(name: str) -> None:
    short, long = (arrays(GENERATORS[name](count, 5)) for count in (2, 4))
    for field, values in short.items():
        np.testing.assert_array_equal(long[field][:2], values)


# ---- DeepCalo ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def showers() -> deepcalo.Candidates:
    return deepcalo.generate(1500, 7)


def test_calorimeter_images_have_the_published_shapes(showers: deepcalo.Candidates) -> None:
    assert {name: values.shape[1:] for name, values in arrays(showers).items()} == {
        "em_barrel": (56, 11, 4),
        "scalars": (15,),
        "tracks": (57, 6),
        "energy": (),
    }
    assert all(values.dtype == np.float32 and np.isfinite(values).all() for values in arrays(showers).values())
    assert len(deepcalo.SCALARS) == 15
    assert deepcalo.gate_rows().shape == (12, 56 * 11 * 4)


def test_a_shower_leaves_most_of_its_energy_and_more_precisely_when_it_is_large(showers: deepcalo.Candidates) -> None:
    response = showers.em_barrel.sum(axis=(1, 2, 3)) / showers.energy
    low, high = response[showers.energy < 15.0], response[showers.energy > 60.0]
    assert 0.9 < np.median(response) < 1.02
    assert high.std() < 0.6 * low.std()
    assert (np.median(showers.em_barrel.sum(axis=(1, 2)), axis=0)[[1, 2]] > 1.0).all()


def test_later_showers_are_deeper(showers: deepcalo.Candidates) -> None:
    depth = showers.scalars[:, deepcalo.SCALARS.index("shower_depth")]
    middle = showers.scalars[:, deepcalo.SCALARS.index("fraction_middle")]
    assert np.corrcoef(depth, middle)[0, 1] > 0.3


def test_pixels_of_one_cell_are_equal(showers: deepcalo.Candidates) -> None:
    middle = showers.em_barrel[:20, :, :, 2].reshape(20, 7, 8, 11)
    np.testing.assert_array_equal(middle, np.broadcast_to(middle[:, :, :1], middle.shape))


def test_tracks_are_padded_with_zeros_and_electrons_have_one(showers: deepcalo.Candidates) -> None:
    present = showers.tracks[:, :, 0] > 0.0
    assert (np.diff(present.astype(int), axis=1) <= 0).all()
    assert not showers.tracks[~present].any()
    assert present[::2, 0].all()
    np.testing.assert_array_equal(present.sum(axis=1), showers.scalars[:, deepcalo.SCALARS.index("tracks")])


# ---- EmTrkMichelId -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patches() -> emtrk.Patches:
    return emtrk.generate(600, 7)


def test_patches_have_the_published_shape_and_all_kinds(patches: emtrk.Patches) -> None:
    assert patches.image.shape == (600, 48, 48, 1)
    assert patches.image.dtype == np.float32
    np.testing.assert_array_equal(np.bincount(patches.kind), [200, 250, 150])
    assert patches.michel.sum() == 100
    assert (patches.kind[patches.michel == 1.0] == emtrk.KINDS.index("em")).all()
    assert emtrk.gate_rows().shape == (12, 48 * 48)


def test_patches_of_nothing_are_darker_and_none_is_beyond_range(patches: emtrk.Patches) -> None:
    charge = patches.image.sum(axis=(1, 2, 3))
    empty = patches.kind == emtrk.KINDS.index("none")
    assert np.median(charge[~empty]) > 10 * abs(np.median(charge[empty]))
    assert -2.0 < patches.image.min() < patches.image.max() < 30.0


def test_a_track_is_long_and_thin(patches: emtrk.Patches) -> None:
    lit = (patches.image[:, :, :, 0] > 0.45).sum(axis=(1, 2))
    track, none = (lit[patches.kind == emtrk.KINDS.index(kind)] for kind in ("track", "none"))
    assert 20 < np.median(track) < 200
    assert np.median(none) < 8


def test_an_event_is_drawn_from_its_bank(patches: emtrk.Patches) -> None:
    event = emtrk.event(500, 7, bank=64)
    assert event.shape == (500, 48, 48, 1)
    bank = {image.tobytes() for image in emtrk.generate(64, 7).image}
    mirrored = {image[::-1].tobytes() for image in emtrk.generate(64, 7).image}
    assert {image.tobytes() for image in event} <= bank | mirrored
    assert len({image.tobytes() for image in event}) > 100


# ---- DeepMET -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collisions() -> deepmet.Events:
    return deepmet.generate(40, 7)


def test_events_have_the_published_shapes(collisions: deepmet.Events) -> None:
    assert collisions.features.shape == (40, 4500, 8)
    assert collisions.categories.shape == (40, 4500, 3)
    assert collisions.met.shape == (40, 2)
    assert deepmet.CATEGORIES == (3, 11, 4)
    for i, size in enumerate(deepmet.CATEGORIES):
        index = collisions.categories[:, :, i]
        np.testing.assert_array_equal(index, np.rint(index))
        assert (index.min(), index.max()) == (0, size - 1)


def test_what_escapes_balances_the_recoil_exactly() -> None:
    for seed in range(20):
        boson, recoil = deepmet.hard_collision(np.random.default_rng(seed))
        np.testing.assert_allclose(recoil[:, :2].sum(axis=0) + boson, 0.0, atol=1e-9)


def test_candidates_are_sorted_then_empty_and_momenta_agree(collisions: deepmet.Events) -> None:
    pt = collisions.features[:, :, deepmet.FEATURES.index("pt")]
    px, py = (collisions.features[:, :, deepmet.FEATURES.index(name)] for name in ("px", "py"))
    assert (np.diff(pt, axis=1) <= 0.0).all()
    np.testing.assert_allclose(np.hypot(px, py), pt, rtol=1e-5)
    assert not collisions.features[pt == 0.0].any()
    assert (collisions.categories[pt == 0.0] == (1.0, 3.0, 0.0)).all()
    assert 500 < (pt > 0.0).sum(axis=1).mean() < 4500


def test_charges_belong_to_the_particles(collisions: deepmet.Events) -> None:
    charge = np.array(deepmet.CHARGES)[collisions.categories[:, :, 0].astype(int)]
    pdg = np.array(deepmet.PDG_IDS)[collisions.categories[:, :, 1].astype(int)]
    for kind, expected in ((211, 1), (-211, -1), (11, -1), (-13, 1), (22, 0), (130, 0), (0, 0), (1, 0)):
        assert (charge[pdg == kind] == expected).all(), kind


def test_weighted_candidates_point_to_what_escaped(collisions: deepmet.Events) -> None:
    error = np.hypot(*(deepmet.puppi_met(collisions) - collisions.met).T)
    assert np.median(error) < 0.6 * np.median(np.hypot(*collisions.met.T))


# ---- DeepClean -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segments() -> deepclean.Segments:
    return deepclean.generate(4, 7)


def test_segments_have_the_published_shapes_and_unit_width(segments: deepclean.Segments) -> None:
    assert segments.witness.shape == (4, 8192, 21)
    assert segments.noise.shape == segments.strain.shape == (4, 8192, 1)
    np.testing.assert_allclose(segments.witness.std(axis=(0, 1)), 1.0, atol=0.3)
    assert 0.5 < segments.noise.std() < 2.0
    assert deepclean.gate_rows().shape == (2, 8192 * 21)


def test_the_noise_explains_most_of_the_strain(segments: deepclean.Segments) -> None:
    rest = segments.strain - segments.noise
    assert rest.std() < 0.5 * segments.strain.std()


def test_slow_signals_give_the_mains_sidebands(segments: deepclean.Segments) -> None:
    power = np.mean(np.abs(np.fft.rfft(segments.noise[:, :, 0], axis=1)) ** 2, axis=0)
    frequency = np.fft.rfftfreq(deepclean.SAMPLES, 1.0 / deepclean.RATE_HZ)
    beside = power[(np.abs(frequency - deepclean.MAINS_HZ) < 8.0) & (np.abs(frequency - deepclean.MAINS_HZ) > 1.0)].mean()
    away = power[(frequency > 300.0) & (frequency < 400.0)].mean()
    assert beside > 20 * away


def test_the_detector_is_the_same_in_every_data_set() -> None:
    witness = np.random.default_rng(1).normal(size=(deepclean.SAMPLES, deepclean.CHANNELS))
    np.testing.assert_array_equal(deepclean.coupled(witness), deepclean.coupled(witness))
    assert deepclean.coupled(0.0 * witness).any() == np.False_
