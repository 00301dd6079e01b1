# SPDX-License-Identifier: Apache-2.0
"""The event generator: 16 000 channels, the same bytes for the same seed, and the physics it claims."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.hls.zoo.facile import events
from hypersonic.hls.zoo.facile.geometry import CHANNELS, DETECTOR_CHANNELS, geometry


@pytest.fixture(scope="module")
def flat() -> events.Events:
    return events.log_flat_events(2, 3)


@pytest.fixture(scope="module")
def physics() -> events.Events:
    return events.physics_events(2, 3)


def test_phase_1_geometry_has_the_published_channel_counts() -> None:
    place = geometry()
    barrel = (np.abs(place.ieta) <= 15) | ((np.abs(place.ieta) == 16) & (place.depth <= 3))
    assert len(place.ieta) == CHANNELS == 16_000
    assert place.connected.sum() == DETECTOR_CHANNELS == 15_696
    assert (barrel & place.connected).sum() == 9_072
    assert len(set(zip(place.ieta, place.iphi, place.depth, strict=True)) - {(0, i, 0) for i in range(73)}) == DETECTOR_CHANNELS


def test_an_event_is_16000_rows_of_18_float32(flat: events.Events) -> None:
    assert flat.rows.shape == (2 * 16_000, 18)
    assert flat.rows.dtype == np.float32
    assert flat.energy.shape == (2 * 16_000,)
    assert flat.energy.dtype == np.float32
    assert len(flat) == 2
    assert len(events.FEATURES) == 18


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(flat: events.Events) -> None:
    again, other = events.log_flat_events(2, 3), events.log_flat_events(2, 4)
    assert again.rows.tobytes() == flat.rows.tobytes()
    assert again.energy.tobytes() == flat.energy.tobytes()
    assert other.rows.tobytes() != flat.rows.tobytes()


def test_a_longer_run_begins_with_the_events_of_a_shorter_one(physics: events.Events) -> None:
    np.testing.assert_array_equal(events.physics_events(1, 3).rows, physics.rows[:CHANNELS])


def test_columns_are_what_their_names_say(flat: events.Events) -> None:
    column = dict(zip(events.FEATURES, flat.rows.T, strict=True))
    place = geometry()
    np.testing.assert_array_equal(column["ieta"][:CHANNELS], place.ieta)
    np.testing.assert_array_equal(column["iphi"][:CHANNELS], place.iphi)
    one_hot = flat.rows[:CHANNELS, events.FIRST_DEPTH :]
    np.testing.assert_array_equal(one_hot @ np.arange(1, 8), place.depth)
    np.testing.assert_array_equal(one_hot.sum(axis=1), place.connected)
    deviation = np.log(column["gain"] / events.NOMINAL_GAIN)
    assert abs(deviation.std() / events.GAIN_SPREAD - 1) < 0.02
    assert abs(deviation.mean()) < 0.002


@given(st.floats(-60.0, 60.0))
def test_a_pulse_is_collected_once(arrival_ns: float) -> None:
    fractions = events.slice_fractions(np.array([arrival_ns]))[0]
    assert (fractions >= 0.0).all()
    assert fractions.sum() <= 1.0 + 1e-12
    if -50.0 < arrival_ns < 25.0:
        assert fractions.sum() > 0.999


def test_a_pulse_on_time_has_the_published_slice_fractions() -> None:
    fractions = events.slice_fractions(np.zeros(1))[0]
    np.testing.assert_allclose(fractions[3:7], [0.450, 0.472, 0.070, 0.008], atol=0.012)
    assert fractions[:3].sum() == 0.0


def test_a_later_pulse_is_the_same_pulse_some_slices_on() -> None:
    early, late = events.slice_fractions(np.array([-25.0, 25.0]))
    np.testing.assert_allclose(early[:6], late[2:], atol=1e-12)


@given(st.lists(st.floats(-1e3, 1e6), min_size=1, max_size=50))
def test_qie_codes_are_monotonic_and_within_half_a_bin(charge: list[float]) -> None:
    values = np.sort(np.array(charge))
    coded = events.qie(values)
    edges = events.qie_edges()
    assert (np.diff(coded) >= 0.0).all()
    inside = (values >= 0.0) & (values < edges[-1])
    width = np.diff(edges)[np.searchsorted(edges, values[inside], side="right") - 1]
    assert (np.abs(coded[inside] - values[inside]) <= width / 2 + 1e-9).all()


def test_qie_full_scale_is_355_picocoulomb() -> None:
    edges = events.qie_edges()
    assert len(edges) == 257
    assert 350e3 < edges[-1] < 360e3
    assert np.diff(edges)[0] == pytest.approx(3.1)


def test_photo_electrons_are_poisson() -> None:
    """Far above noise and digitisation the spread of a fixed energy is 1/sqrt(photo-electrons)."""
    energy_gev = 20.0
    samples = events.log_flat_events(1, 8, low_gev=energy_gev, high_gev=energy_gev * 1.0001)
    hit = samples.energy > energy_gev * 0.999
    charge = samples.rows[hit, 3:11].sum(axis=1) - 8 * events.PEDESTAL_FC
    ratio = charge * samples.rows[hit, 2] / samples.energy[hit]
    half68 = float(np.diff(np.quantile(ratio, [0.16, 0.84]))[0]) / 2
    assert half68 == pytest.approx(1.0 / np.sqrt(energy_gev * events.PE_PER_GEV), rel=0.15)


def test_log_flat_energies_fill_every_decade_alike(flat: events.Events) -> None:
    counts = [((flat.energy >= low) & (flat.energy < 10 * low)).sum() for low in (0.5, 5.0, 50.0)]
    assert min(counts) > 0.9 * max(counts)
    assert flat.energy.max() < 600.0
    assert (flat.energy == 0.0).mean() > 0.05


def test_physics_events_are_mostly_empty_and_have_jets(physics: events.Events) -> None:
    assert 0.7 < (physics.energy == 0.0).mean() < 0.95
    assert (physics.energy > 10.0).sum() > 5
    assert (physics.energy >= 0.0).all()
    assert np.isfinite(physics.rows).all()


def test_calibration_channels_never_hold_energy(flat: events.Events, physics: events.Events) -> None:
    for sample in (flat, physics):
        assert not sample.energy.reshape(-1, CHANNELS)[:, DETECTOR_CHANNELS:].any()


def test_empty_channels_sit_on_the_pedestal(physics: events.Events) -> None:
    dark = physics.rows.reshape(-1, CHANNELS, 18)[:, DETECTOR_CHANNELS:, 3:11]
    assert dark.mean() == pytest.approx(events.PEDESTAL_FC, abs=2.0)
    assert dark.std() == pytest.approx(np.hypot(events.NOISE_FC, events.CHARGE_PER_PE_FC * np.sqrt(events.DARK_PE)), rel=0.1)


def test_gate_rows_hold_both_kinds_of_events() -> None:
    rows = events.gate_rows()
    assert rows.shape == (4_000, 18)
    assert rows.dtype == np.float32
    assert rows[:2_000, 3:11].max() > 100e3
