# SPDX-License-Identifier: Apache-2.0
"""hls4ml's numerical profiling of a model with backend="Hypersonic": python tests/hls/plugin/profiling_session.py DIRECTORY"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

from tests.hls.plugin.tutorial_session import classifier, jets


def main(directory: Path) -> None:
    """Write the names in each of the four pictures: the weights, then the activations, each before and after."""
    import hls4ml
    from hls4ml.model.profiling import numerical

    model, x = classifier(), jets()
    config = hls4ml.utils.config_from_keras_model(model, granularity="name", backend="Hypersonic")
    config["Model"]["softmax"] = "exact"
    for settings in config["LayerName"].values():
        settings["Trace"] = True
    converted = hls4ml.converters.convert_from_keras_model(
        model, hls_config=config, backend="Hypersonic", output_dir=str(directory / "prj")
    )
    pictures = numerical(model=model, hls_model=converted, X=x[:20])
    names = [[label.get_text() for label in picture.axes[0].get_yticklabels()] for picture in pictures]
    (directory / "names.json").write_text(json.dumps(names))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
