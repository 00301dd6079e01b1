# SPDX-License-Identifier: Apache-2.0
"""The networks of the zoo have the published layers, and weights worth shipping: by Keras 2, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole

CHECK = """
import numpy as np
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepcalo import network as deepcalo
from hypersonic.hls.zoo.deepclean import network as deepclean
from hypersonic.hls.zoo.deepmet import events, network as deepmet
from hypersonic.hls.zoo.emtrk import network as emtrk

def shapes(model):
    return [tuple(x.shape[1:]) for x in model.inputs], [tuple(y.shape[1:]) for y in model.outputs], model.count_params()

image = deepcalo.network()
assert shapes(image) == ([(56, 11, 4)], [(1,)], deepcalo.IMAGE_PARAMETERS)
assert shapes(deepcalo.film_network()) == ([(15,), (57, 6), (56, 11, 4)], [(1,)], deepcalo.FILM_PARAMETERS)
assert shapes(deepclean.network()) == ([(8192, 21)], [(8192, 1)], deepclean.PARAMETERS)
assert image.get_layer("flatten").output.shape[1] == 2304
assert image.get_layer("finer_phi").output.shape[1:] == (56, 55, 4)
assert emtrk.PARAMETERS == 11_900_420
large = emtrk.network()
assert shapes(large) == ([(48, 48, 1)], [(3,), (1,)], emtrk.PARAMETERS)
assert large.get_layer("conv").output.shape[1:] == (44, 44, 48)
assert large.output_names == ["em_trk_none_netout", "michel_netout"]
inputs, outputs, parameters = shapes(deepmet.network())
assert inputs == [(4500,), (4500,), (4500,), (4500, 8)] and outputs == [(2,)]
assert parameters - deepmet.SELECT_PARAMETERS == deepmet.PARAMETERS == 5_373
one, other = (deepmet.network(16, seed=2).get_weights() for _ in range(2))
assert [a.tobytes() for a in one] == [a.tobytes() for a in other]

made = events.generate(2, 1)
small = deepmet.network(1024)
for name in ("weight_norm", "norm0"):
    layer = small.get_layer(name)
    layer.set_weights([w + 0.1 for w in layer.get_weights()])
twice = deepmet.resized(small, 2048)
again = [np.concatenate([x, x], axis=1) for x in events.network_inputs(made, 1024)]
np.testing.assert_allclose(
    twice.predict(again, verbose=0), 2 * small.predict(events.network_inputs(made, 1024), verbose=0), rtol=1e-3, atol=1e-3
)
print("counted")
"""

SHIPPED = """
from pathlib import Path
import numpy as np
from hypersonic.hls.frontend.description import ZOO
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepclean import events as clean_events, report as clean_report, train as clean_train
from hypersonic.hls.zoo.deepmet import events, network, report as met_report, train as met_train
from hypersonic.hls.zoo.keras_2 import Schedule

def load(name):
    return keras_2.keras()[1].models.load_model(ZOO / name / f"{name}.h5", compile=False)

made = events.generate(24, 9100)
met = load("deepmet").predict(events.network_inputs(made), batch_size=8)
everything, puppi, found = met_report.resolutions(made, {"it": met})
assert found.rms < 0.9 * min(everything.rms, puppi.rms), found
assert 0.9 < found.response < 1.1, found

segments = clean_events.generate(2, 9100)
witness = np.ldexp(segments.witness, clean_events.EXPONENT)
noise = np.ldexp(load("deepclean").predict(witness, batch_size=2), -clean_events.EXPONENT)
nothing, truth, cleaned = clean_report.cleaned(segments, {"DeepClean": noise})
assert cleaned.explained > 0.98 and truth.left < cleaned.left < 1.1 * truth.left < nothing.left, cleaned

model = met_train.train(met_train.Settings(events=4, candidates=32, schedule=Schedule(1, 1e-3, 2)))
assert model.get_layer("features").output.shape[1:] == (events.CANDIDATES, 8)
assert np.abs(model.get_layer("offset").get_weights()[0]).max() <= network.MAX_OFFSET
assert clean_train.train(clean_train.Settings(segments=1, schedule=Schedule(1, 1e-3, 4))).input_shape == (None, 8192, 21)
print("kept")
"""


def run(code: str) -> str:
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_networks_have_the_published_layers() -> None:
    assert "counted" in run(CHECK)


@pytest.mark.whole
def test_weights_that_ship_do_better_than_no_network_and_their_training_runs() -> None:
    assert "kept" in run(SHIPPED)
