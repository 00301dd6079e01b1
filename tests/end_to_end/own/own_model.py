# SPDX-License-Identifier: Apache-2.0
"""A stranger's classifier with default names: python tests/end_to_end/own/own_model.py DIRECTORY

DIRECTORY gets mine.keras, rows.npy (float64), and labels.npy (one-hot). One column has numbers a hundred times the others'.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROWS, COLUMNS, CLASSES = 600, 6, 3


def main(directory: Path) -> None:
    import tf_keras as keras

    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(1)
    labels = generator.integers(0, CLASSES, ROWS)
    centres = 2.0 * generator.normal(size=(CLASSES, COLUMNS))
    rows = (centres[labels] + generator.normal(size=(ROWS, COLUMNS))) * [1, 1, 1, 1, 1, 100]
    model = keras.Sequential(
        [
            keras.layers.Input((COLUMNS,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(6, activation="relu"),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.layers[0].set_weights([np.ones(6), np.zeros(6), rows.mean(axis=0), rows.var(axis=0)])
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    model.fit(rows, labels, epochs=8, batch_size=50, verbose=0)
    model.save(directory / "mine.keras")
    np.save(directory / "rows.npy", rows)
    np.save(directory / "labels.npy", np.eye(CLASSES)[labels])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
