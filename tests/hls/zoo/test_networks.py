# SPDX-License-Identifier: Apache-2.0
"""The networks of the zoo have the published layers: counted by Keras 2, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

CHECK = """
import numpy as np
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.deepcalo import network as deepcalo
from hypersonic.hls.zoo.deepclean import network as deepclean
from hypersonic.hls.zoo.deepmet import events, network as deepmet
from hypersonic.hls.zoo.emtrk import network as emtrk

def shapes(model):
    return [tuple(x.shape[1:]) for x in model.inputs], [tuple(y.shape[1:]) for y in model.outputs], model.count_params()

for quantised in (False, True):
    assert shapes(deepcalo.network(quantised=quantised)) == ([(56, 11, 4)], [(1,)], deepcalo.IMAGE_PARAMETERS)
    film = deepcalo.film_network(quantised=quantised)
    assert shapes(film) == ([(15,), (57, 6), (56, 11, 4)], [(1,)], deepcalo.FILM_PARAMETERS)
    assert shapes(deepclean.network(quantised=quantised)) == ([(8192, 21)], [(8192, 1)], deepclean.PARAMETERS)
image = deepcalo.network()
assert image.get_layer("flatten").output.shape[1] == 2304
assert image.get_layer("finer_phi").output.shape[1:] == (56, 55, 4)
assert emtrk.PARAMETERS == 11_900_420
large = emtrk.network()
assert shapes(large) == ([(48, 48, 1)], [(3,), (1,)], emtrk.PARAMETERS)
assert large.get_layer("conv").output.shape[1:] == (44, 44, 48)
assert large.output_names == ["em_trk_none_netout", "michel_netout"]
assert emtrk.small_network().count_params() == emtrk.SMALL_PARAMETERS == 500_212
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
again = [np.concatenate([x, x], axis=1) for x in deepmet.inputs(made, 1024)]
np.testing.assert_allclose(
    twice.predict(again, verbose=0), 2 * small.predict(deepmet.inputs(made, 1024), verbose=0), rtol=1e-3, atol=1e-3
)
print("counted")
"""


def test_networks_have_the_published_layers() -> None:
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert "counted" in run.stdout
