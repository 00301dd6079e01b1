# SPDX-License-Identifier: Apache-2.0
"""A model of your own: train a small network, build it, serve it, and ask it. Needs the extra `build`.

    python examples/own_model.py DIRECTORY [sw_emu|hw_emu]

sw_emu runs the network's C++ and is built in seconds; hw_emu simulates the kernel clock by clock.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from hypersonic import Client, build, start_server

PULSE = np.array([0, 0.3, 1, 0.7, 0.4, 0.2, 0.1, 0.05], np.float32)  # the shape of a pulse of amplitude 1

TRAINING = """
import sys
import numpy as np
import tf_keras as keras

rows, labels = np.load("rows.npy"), np.load("labels.npy")
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
model.fit(rows, labels, batch_size=64, epochs=5, verbose=0)
model.save("pulse.keras")
"""


def main(directory: Path, target: str = "sw_emu") -> None:
    """Leave the model, its YAML and a model repository in the directory."""
    generator = np.random.default_rng(1)
    amplitudes = generator.uniform(0, 8, (4000, 1)).astype(np.float32)
    rows = amplitudes * PULSE + generator.normal(0, 0.1, (4000, 8)).astype(np.float32)
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / "rows.npy", rows)
    np.save(directory / "labels.npy", amplitudes)
    subprocess.run([sys.executable, "-c", TRAINING], cwd=directory, check=True)  # Keras 2 needs a process of its own

    model = directory / "pulse.keras"
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "hypersonic",
        "new",
        model,
        "--rows",
        directory / "rows.npy",
        "--force",
        "--quiet",
    ]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)  # pulse.yaml: the types of all numbers
    build(str(model), target, repository=directory / "models")
    with start_server(directory / "models") as server, Client(server.grpc) as client:
        answers = client.model("pulse").infer(rows)
    print(f"{len(answers)} answers, off by {np.std(answers - amplitudes):.2f} of amplitudes from 0 to 8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
