# SPDX-License-Identifier: Apache-2.0
"""Twenty models of three xclbins on two emulated cards, asked by 16 clients: which requests wait for a card, and how long.

The models are sw_emu kernels of a few lines of C, so that the bench measures turns and not arithmetic. The mix is skewed: model
n is asked in proportion to n ** -2, so the first xclbin gets 95 % of the requests, the second 4 % and the third less than 2 %.
Each client sends its next request when it has an answer, so it waits while the model that it asks for is on no card. A card
takes HYPERSONIC_EMU_LOAD_MS (2 s, assumed) to load another xclbin.
"""

from __future__ import annotations

import os
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from bench.sharing.figure import Figure, Progress
from hypersonic.firmware.platform import find_platform
from hypersonic.firmware.publish.config_pbtxt import config_pbtxt
from hypersonic.firmware.publish.manifest import Manifest
from hypersonic.firmware.publish.repository import publish
from hypersonic.firmware.target import Target
from hypersonic.firmware.xclbin.assemble import LinkedKernel, assemble_kernels
from hypersonic.firmware.xclbin.images import pack_images
from hypersonic.hls import verilator
from hypersonic.hls.fixed import FixedPoint
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
from hypersonic.server_process import start_server

TITLE = "20 models of 3 xclbins take turns on 2 emulated cards, 16 clients (sw_emu)"
CARDS, CLIENTS, SECONDS, ROWS = 2, 16, 40.0, 200
#: the models of each xclbin, by their number from 1
XCLBINS = (tuple(range(1, 8)), tuple(range(8, 14)), tuple(range(14, 21)))
RESIDENCY_MS, SKEW = 5000, 2.0
_ROOT = Path(__file__).parents[3]


class Served(NamedTuple):
    """The requests of one client. wrong: answered with other integers than the model's. errors: texts of failed requests."""

    requests: int
    wrong: int
    errors: tuple[str, ...]
    longest_s: float


def measure(progress: Progress, seconds: float = SECONDS, xclbins: Sequence[Sequence[int]] = XCLBINS) -> list[Figure]:
    """Serve the models, ask them, and read the server's metrics."""
    with tempfile.TemporaryDirectory() as place:
        repository = Path(place) / "models"
        for numbers in xclbins:
            progress(f"turns: linking models {numbers[0]} to {numbers[-1]}")
            _publish(repository, numbers, Path(place))
        with patch.dict(os.environ, {"HYPERSONIC_EMU_DEVICES": str(CARDS)}), start_server(repository) as server:
            progress(f"turns: {CLIENTS} clients ask for {seconds:g} s")
            models = [number for numbers in xclbins for number in numbers]
            with ThreadPoolExecutor(CLIENTS) as pool:
                served = list(pool.map(lambda seed: _client(server.grpc, models, seed, seconds), range(CLIENTS)))
            return _figures(served, _metrics(server.metrics))


def _figures(served: Sequence[Served], metrics: Mapping[str, float]) -> list[Figure]:
    requests, wrong = sum(one.requests for one in served), sum(one.wrong for one in served)
    errors = [error for one in served for error in one.errors]
    waits, loads = metrics["fpga_model_card_waits_total"], metrics["fpga_card_xclbin_reloads_total"]
    at_once = 1 - waits / max(1, requests)
    longest_s = max(one.longest_s for one in served)
    return [
        Figure("requests", requests, f"{requests:,}", "", requests > 0),
        Figure("failed requests", len(errors), f"{len(errors)}{f': {errors[0]:.60}' if errors else ''}", "0", not errors),
        Figure("wrong integers", wrong, str(wrong), "0", wrong == 0),
        Figure("served without waiting for a swap", at_once, f"{at_once:.1%}", "90 % or more", at_once >= 0.9),
        Figure("loads of a card after its first", loads, f"{loads:.0f}", "1 or more", loads >= 1),
        Figure("longest wait of a request", longest_s, f"{longest_s:.1f} s", "", True),
    ]


def _client(url: str, models: Sequence[int], seed: int, seconds: float) -> Served:
    """Ask one request after another, each of ROWS rows, and compare every answer."""
    random = np.random.default_rng(seed)
    shares = np.arange(1, len(models) + 1) ** -SKEW
    requests = wrong = 0
    errors: list[str] = []
    longest_s, end_s = 0.0, time.monotonic() + seconds
    with triton.InferenceServerClient(url) as client:
        while time.monotonic() < end_s:
            number = int(random.choice(models, p=shares / shares.sum()))
            rows = random.integers(-1000, 1000, (ROWS, 18)).astype(np.float32)
            tensor = triton.InferInput("x", list(rows.shape), "FP32")
            tensor.set_data_from_numpy(rows)
            begin_s = time.monotonic()
            requests += 1
            try:
                got = client.infer(f"model_{number}", [tensor], client_timeout=300).as_numpy("y")
            except InferenceServerException as error:
                errors.append(str(error))
                continue
            longest_s = max(longest_s, time.monotonic() - begin_s)
            wrong += int(np.count_nonzero(got[:, 0] != 2 * rows[:, 0] + rows[:, 1] + number))
    return Served(requests, wrong, tuple(errors), longest_s)


def _metrics(address: str) -> dict[str, float]:
    """The sum of each metric over its series."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line and not line.startswith("#")]
    sums: dict[str, float] = {}
    for line in lines:
        name, value = line.partition("{")[0].partition(" ")[0], float(line.rsplit(" ", 1)[1])
        sums[name] = sums.get(name, 0.0) + value
    return sums


def _publish(repository: Path, numbers: Sequence[int], place: Path) -> None:
    """Link an xclbin with the kernels of these models, and publish each. Model n answers 2 * x[0] + x[1] + n."""
    images = {f"model_{number}": _image(number, place) for number in numbers}
    linked = [LinkedKernel(name, digest=f"{name.removeprefix('model_'):0>64}") for name in images]
    platform, fixed = find_platform("u55c"), FixedPoint(32, 16)
    xclbin = assemble_kernels(linked, Target.SW_EMU, platform, pack_images(images))
    for name in images:
        manifest = Manifest.of(
            xclbin, model=name, kernel=name, platform=platform.name, core="csim", ii=1, latency_cycles=1, max_batch_size=16_000,
            inputs=Row((TensorSpec("x", (18,), fixed),)), outputs=Row((TensorSpec("y", (1,), fixed),)),
        )  # fmt: skip
        parameters = {"card_policy": "on_demand", "card_residency_ms": str(RESIDENCY_MS), "slot_rows": str(ROWS)}
        publish(repository, xclbin, manifest, config_pbtxt(manifest, parameters=parameters))


def _image(number: int, place: Path) -> bytes:
    """The simulator of one model's kernel."""
    image = place / f"model_{number}.so"
    flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{_ROOT / 'sim' / 'emu'}"]
    source = _ROOT / "tests" / "host" / "model.c"
    verilator.run(["gcc", *flags, f"-DKERNEL=model_{number}", f"-DPLUS={number}", "-o", image, source], place)
    return image.read_bytes()
