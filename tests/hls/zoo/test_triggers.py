# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks for triggers: anomaly, showers and toptag in Keras 2, jets_hgq and jets_transformer in HGQ2.

Their shapes, what the shipped weights are worth, and a few steps of their trainings, in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hypersonic.hls.frontend.hgq import environment
from hypersonic.hls.zoo.anomaly import events as anomaly
from hypersonic.hls.zoo.jets import constituents, shower
from hypersonic.hls.zoo.showers import events as showers
from hypersonic.hls.zoo.toptag import events as toptag

KERAS_2 = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.zoo import anomaly, keras_2, showers, toptag, training
from hypersonic.hls.zoo.anomaly import network, task, train
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.showers import network as showers_network, task as showers_task, train as showers_train
from hypersonic.hls.zoo.toptag import network as toptag_network, task as toptag_task, train as toptag_train

def load(name):
    return keras_2.keras()[1].models.load_model(ZOO / name / f"{name}.h5", compile=False)

def merit(name, its_network, its_task):
    sample = its_task.TASK.sample(1500, 3)
    return its_task.TASK.measured((its_network.predict(load(name), sample.inputs[0]),), sample.truth)

assert [tuple(x.shape[1:]) for x in load("anomaly").inputs] == [(57,)]
assert toptag_network.network().count_params() == toptag_network.PARAMETERS == 3_569
assert len(showers_network.PAIRS) == 56
assert merit("anomaly", network, task) > 0.7
assert merit("showers", showers_network, showers_task) > 0.98
assert merit("toptag", toptag_network, toptag_task) > 0.93

once = Schedule(1, 1e-3, 64)
for name, its in (("anomaly", train), ("showers", showers_train), ("toptag", toptag_train)):
    shapes = [w.shape for w in training.train(replace(its.RECIPE, count=128, schedule=once)).get_weights()]
    assert shapes == [w.shape for w in load(name).get_weights()], name
# the score is the squared distance from what the network makes of an event
keras = keras_2.keras()[1]
model, x = load("anomaly"), np.random.default_rng(1).normal(size=(5, 57)).astype(np.float32)
again = keras.Model(model.input, model.get_layer("seen_again").output).predict(x, verbose=0)
np.testing.assert_allclose(model.predict(x, verbose=0)[:, 0], ((x - again) ** 2).sum(axis=1), rtol=1e-4)
"""

HGQ_2 = """
import sys
from dataclasses import replace
from pathlib import Path
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.frontend.keras.hgq import load_hgq
from hypersonic.hls.zoo import hgq_2
from hypersonic.hls.zoo.hgq_2 import Schedule
from hypersonic.hls.zoo.jets_hgq.train import train
from hypersonic.hls.zoo.jets_transformer.train import RECIPE

model, cost = train(replace(RECIPE, count=64, schedule=Schedule(2, 1e-3, 32, (1e-7, 1e-6), trial=1)))
assert model.output_shape == (None, 5) and cost > 0, cost
hgq_2.save(model, Path(sys.argv[1]) / "jets_transformer.keras")
parameters = {name: load_hgq(ZOO / name / f"{name}.keras").parameters for name in ("jets_hgq", "jets_transformer")}
assert parameters == {"jets_hgq": 4389, "jets_transformer": 1861}, parameters
"""


def run(code: str, output: Path, variables: dict[str, str]) -> None:
    argv = [sys.executable, "-c", code, str(output)]
    ran = subprocess.run(argv, env={**variables, "OMP_NUM_THREADS": "2"}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]


@pytest.mark.whole
def test_networks_have_their_published_shapes_worthwhile_weights_and_a_training(tmp_path: Path) -> None:
    run(KERAS_2, tmp_path, {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"})


@pytest.mark.whole
def test_the_training_with_hgq2_writes_a_keras_file(tmp_path: Path) -> None:
    run(HGQ_2, tmp_path, environment())
    assert (tmp_path / "jets_transformer.keras").read_bytes().startswith(b"PK")


def test_an_ordinary_events_momenta_and_places() -> None:
    rows = anomaly.ordinary(300, 4).rows.reshape(300, anomaly.OBJECTS, 3)
    pt = rows[:, 1:, 0]
    assert rows.shape[1:] == (19, 3)
    assert (rows[:, 0, 0] > 0).all()
    for first, places in ((0, 4), (4, 4), (8, 10)):
        kind = pt[:, first : first + places]
        np.testing.assert_array_equal(kind, -np.sort(-kind, axis=1))
    assert (rows[:, 1:][pt == 0.0] == 0.0).all()


def test_every_second_event_of_a_mixture_is_a_signal() -> None:
    kind = anomaly.mixture(24, 1).kind
    assert (kind[::2] == 0).all()
    assert np.bincount(kind[1::2]).tolist() == [0, 4, 4, 4]


@pytest.mark.parametrize(("count", "features"), [(8, constituents.SET_FEATURES), (20, constituents.SEQUENCE_FEATURES)])
def test_constituents_are_the_hardest_and_empty_places_are_zero(count: int, features: tuple[str, ...]) -> None:
    jets = shower.generate(50, 3)
    jets.pt[0, 2:] = 0.0
    rows = (constituents.particle_sets if len(features) == 3 else constituents.sequences)(jets, count)
    assert rows.shape == (50, count, len(features))
    assert rows.dtype == np.float32
    assert (rows[0, 2:] == 0.0).all()
    assert (rows[1:, 0] != 0.0).any(axis=1).all()


def test_a_third_of_the_top_taggers_jets_are_top_quarks() -> None:
    assert toptag.jets(300, 2).top.mean() == pytest.approx(1 / 3, abs=0.02)


def test_a_showers_hits_are_sorted_by_energy_and_electrons_are_narrower() -> None:
    made = showers.showers(300, 5)
    share = made.rows[:, :, 3]
    np.testing.assert_array_equal(share, -np.sort(-share, axis=1))
    assert (share.sum(axis=1) <= 1.0 + 1e-5).all()
    width = (share * np.hypot(made.rows[:, :, 0], made.rows[:, :, 1])).sum(axis=1)
    assert width[made.electron == 1].mean() < width[made.electron == 0].mean()
