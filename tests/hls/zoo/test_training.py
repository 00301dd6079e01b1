# SPDX-License-Identifier: Apache-2.0
"""The trainings of the zoo, a few steps of each, in a process with Keras 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

JETS = """
import sys
from pathlib import Path
import numpy as np
from hypersonic.hls.zoo import keras_2
from hypersonic.hls.zoo.jets import events, network, report, train
from hypersonic.hls.zoo.keras_2 import Schedule

once = Schedule(1, 1e-3, 256)
trained = train.train(train.Settings(jets=600, floating=once, quantised=once))
train.write(trained, Path(sys.argv[1]))
rows = events.jets(200, 77).rows
probability = network.predict(trained.quantised, rows)
np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-5)
for i in range(4):
    kernel = trained.quantised.get_layer(f"dense{i}").get_weights()[0]
    steps = np.ldexp(kernel, network.WEIGHT_BITS - 1 - network.WEIGHT_INTEGER)
    np.testing.assert_array_equal(steps, np.rint(steps))

mean, first = network.mean_of(rows), network.float_model()
x = events.network_inputs(rows)
expected = first.predict(x - mean, verbose=0)
network.absorb_mean(first, mean)
np.testing.assert_allclose(first.predict(x, verbose=0), expected, atol=1e-5)
assert "accuracy" in train.quality(trained, events.jets(100, 78))
"""

FACILE_V2 = """
import sys
from pathlib import Path
import numpy as np
from hypersonic.hls.zoo.facile import events as facile_events
from hypersonic.hls.zoo.keras_2 import Schedule
from hypersonic.hls.zoo.facile.train import DeadNetworkError
from hypersonic.hls.zoo.facile_v2 import events, network, recipe, train
from hypersonic.hls.zoo.facile import scales

once = Schedule(1, 1e-4, 4096)
settings = train.Settings(log_flat_events=1, physics_events=1, floating=once, biases=once, unrolled=once)
trained = train.train(settings)
train.write(trained, Path(sys.argv[1]))
rows = events.gate_rows()
stored = scales.load(Path(sys.argv[1]) / "facile_v2_float.npz")
np.testing.assert_allclose(recipe.predict(stored, rows), recipe.predict(trained.floating, rows), rtol=1e-3, atol=1e-2)
for quantised in (trained.quantised, trained.unrolled):
    difference = network.predict(quantised, rows) - recipe.predict(trained.floating, rows)
    assert np.median(np.abs(difference)) < 10.0, np.median(np.abs(difference))  # hardly trained: its weights are not balanced
assert "in-time sum" in train.quality(trained, facile_events.log_flat_events(1, 9))

begin = recipe.initial_network
def dead(sample, seed):
    *first, last = begin(sample, seed)
    return (*first, scales.Dense(0.0 * last.kernel, last.bias, last.scale, last.shift))
recipe.initial_network = dead
train.facile_network.fit = lambda *_, **__: 0.0
try:
    train.train(settings)
except DeadNetworkError as error:
    assert "seed 1" in str(error)
else:
    raise SystemExit("a dead network went unnoticed")
"""


def run(code: str, output: Path) -> list[str]:
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(output)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return sorted(file.name for file in output.iterdir())


def test_jet_training_writes_what_it_trained(tmp_path: Path) -> None:
    assert run(JETS, tmp_path / "jets") == ["jets.h5", "jets_float.npz", "jets_logits.h5"]


@pytest.mark.whole
def test_facile_v2_training_writes_what_it_trained_and_sees_a_dead_network(tmp_path: Path) -> None:
    assert run(FACILE_V2, tmp_path / "facile_v2") == ["facile_v2.h5", "facile_v2_da.h5", "facile_v2_float.npz"]
