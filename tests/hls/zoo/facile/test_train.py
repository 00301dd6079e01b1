# SPDX-License-Identifier: Apache-2.0
"""The training, a few steps of it, in a process with Keras 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SMOKE = """
import sys
from pathlib import Path
import numpy as np
import qkeras
import tf_keras
from hypersonic.hls.zoo.facile import events, network, recipe, scales, train
from hypersonic.hls.zoo.keras_2 import Schedule

once = Schedule(1, 1e-3, 4096)
settings = train.Settings(log_flat_events=1, physics_events=1, starts=2, scout=once, floating=once, quantised=once, biases=once)
begin, starts = recipe.initial_network, []

def first_start_is_dead(sample, seed):
    starts.append(seed)
    network = begin(sample, seed)
    if seed != settings.seed:
        return network
    third = network[2]
    return (*network[:2], scales.Dense(-np.abs(third.kernel), third.bias - 1e3, third.scale, 0 * third.shift), network[3])

recipe.initial_network = first_start_is_dead
trained = train.train(settings)
assert trained.losses[0] == float("inf") and np.isfinite(trained.losses[1]), trained.losses
assert starts == [1, 2, 2], starts

recipe.initial_network = lambda sample, seed: first_start_is_dead(sample, settings.seed)
try:
    train.train(settings)
except train.DeadNetworkError as error:
    assert "2 starts" in str(error)
else:
    raise SystemExit("two dead starts went unnoticed")

train.write(trained, Path(sys.argv[1]))
custom = {}
qkeras.utils._add_supported_quantized_objects(custom)
loaded = tf_keras.models.load_model(Path(sys.argv[1]) / "facile.h5", custom_objects=custom, compile=False)
rows = events.gate_rows()
np.testing.assert_array_equal(network.predict(loaded, rows), network.predict(trained.quantised, rows))
np.testing.assert_allclose(
    scales.predict(scales.load(Path(sys.argv[1]) / "facile_float.npz"), rows), scales.predict(trained.floating, rows)
)
assert np.ptp(network.predict(loaded, rows)) > 100.0
assert "in-time sum" in train.quality(trained, events.log_flat_events(1, 9))
"""


@pytest.mark.whole
def test_training_leaves_a_dead_start_behind_and_writes_what_it_trained(tmp_path: Path) -> None:
    output = tmp_path / "zoo"
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", SMOKE, str(output)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert sorted(file.name for file in output.iterdir()) == ["facile.h5", "facile.yaml", "facile_float.npz"]
