# SPDX-License-Identifier: Apache-2.0
"""A model on emulated cards, requests to it, and the metrics of its compute units."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.repository import publish
from tests.faults.site import Site, infer
from tests.host.conftest import Build

X = np.random.default_rng(0).normal(size=(100, 18)).astype(np.float32)


def write_model(repository: Path, build: Build, gpus: str = "", name: str = "facile", **parameters: str) -> Path:
    """gpus: the cards by name; else the first that is free."""
    xclbin, manifest = build
    text = config_pbtxt(manifest, parameters={"retry_ms": "50", "timeout_ms": "20000", "slot_rows": "128", **parameters})
    publish(repository, xclbin.read_bytes(), manifest, text)
    config = repository / "facile" / "config.pbtxt"
    if gpus:
        config.write_text(config.read_text().replace("kind: KIND_CPU", f"kind: KIND_GPU\n    gpus: [ {gpus} ]"))
    if name != "facile":
        config.write_text(config.read_text().replace('name: "facile"', f'name: "{name}"'))
        (repository / "facile").rename(repository / name)
    return repository


def ask(client: triton.InferenceServerClient, n: int, model: str = "facile") -> None:
    """One request, its answer checked."""
    x = X + np.float32(n)
    np.testing.assert_array_equal(infer(client, model, x), (2 * x[:, :1] + x[:, 1:2]).astype(np.float32))


def units(running: Site, figure: str) -> dict[str, float]:
    """fpga_compute_unit_<figure> by compute unit."""
    pattern = re.compile(rf'fpga_compute_unit_{figure}\{{compute_unit="([^"]+)"')
    return {match[1]: value for name, value in running.metrics().items() if (match := pattern.match(name))}


def runs(running: Site, *names: str) -> float:
    return sum(units(running, "runs_total")[name] for name in names)
