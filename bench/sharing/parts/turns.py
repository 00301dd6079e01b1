# SPDX-License-Identifier: Apache-2.0
"""Models that take turns on emulated cards: which requests wait for a card, and how long.

First, twenty models of three xclbins on two cards are asked by 16 clients.

The models are sw_emu kernels of a few lines of C, so that the bench measures turns and not arithmetic. The mix is skewed: model
n is asked in proportion to n ** -2, so the first xclbin gets 95 % of the requests, the second 4 % and the third less than 2 %.
Each client sends its next request when it has an answer, so it waits while the model that it asks for is on no card. A card
takes HYPERSONIC_EMU_LOAD_MS (2 s, assumed) to load another xclbin.

Then one model gets a single request now and then, while clients of all other models send requests without a pause. Each model
has an xclbin of its own. The longest wait is compared with the bound in docs/many-models.md, on emulated cards with a short
residency, and in simulated time with the default residency.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from bench.sharing.figure import Figure, Progress
from bench.sharing.simulated_turns import wait_beside_floods
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
from hypersonic.server.backends.fpga.on_demand import RESIDENCY_MS as DEFAULT_RESIDENCY_MS
from hypersonic.server.backends.fpga.turn_rule import longest_wait_ns
from hypersonic.server_process import start_server

TITLE = "20 models of 3 xclbins take turns on 2 emulated cards, 16 clients (sw_emu)"
CARDS, CLIENTS, SECONDS, ROWS = 2, 16, 40.0, 200
#: the models of each xclbin, by their number from 1
XCLBINS = (tuple(range(1, 8)), tuple(range(8, 14)), tuple(range(14, 21)))
RESIDENCY_MS, SKEW = 5000, 2.0
#: (models, cards) of the floods; the clients of each flooding model, and the single requests beside them
FLOODS, FLOODERS, SINGLES = ((3, 1), (10, 2)), 2, 4
#: of the floods, in ms: the residency, the load of an xclbin, and the most that a change takes with the runs that end before it
FLOOD_RESIDENCY_MS, FLOOD_LOAD_MS, FLOOD_CHANGE_MS = 1000, 500, 1000
#: in simulated time, in ms: the load that HYPERSONIC_EMU_LOAD_MS assumes, and the step; and the runs, of one request each
SIMULATED_LOAD_MS, STEP_MS, PHASES = 2000, 200, 100
_ROOT = Path(__file__).parents[3]


class Served(NamedTuple):
    """The requests of one client. wrong: answered with other integers than the model's. errors: texts of failed requests."""

    requests: int
    wrong: int
    errors: tuple[str, ...]
    longest_s: float


def measure(
    progress: Progress,
    seconds: float = SECONDS,
    xclbins: Sequence[Sequence[int]] = XCLBINS,
    floods: Sequence[tuple[int, int]] = FLOODS,
) -> list[Figure]:
    """Serve the models, ask them, and read the server's metrics."""
    figures = _mixed(progress, seconds, xclbins)
    figures += [_beside_floods(progress, models, cards) for models, cards in floods]
    return figures + [_simulated(models, cards) for models, cards in floods]


def _mixed(progress: Progress, seconds: float, xclbins: Sequence[Sequence[int]]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as place:
        repository = Path(place) / "models"
        for numbers in xclbins:
            progress(f"turns: linking models {numbers[0]} to {numbers[-1]}")
            _publish(repository, numbers, Path(place), RESIDENCY_MS)
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


def _beside_floods(progress: Progress, models: int, cards: int) -> Figure:
    """Measure the longest wait of single requests to model 1 while clients send requests to all others without a pause."""
    emulation = {"HYPERSONIC_EMU_DEVICES": str(cards), "HYPERSONIC_EMU_LOAD_MS": str(FLOOD_LOAD_MS)}
    with tempfile.TemporaryDirectory() as place:
        repository = Path(place) / "models"
        progress(f"turns: linking {models} models with an xclbin each")
        for number in range(1, models + 1):
            _publish(repository, (number,), Path(place), FLOOD_RESIDENCY_MS)
        with (
            patch.dict(os.environ, emulation),
            start_server(repository) as server,
            ThreadPoolExecutor(FLOODERS * models) as pool,
            triton.InferenceServerClient(server.grpc) as client,
        ):
            stop = threading.Event()
            floods = [pool.submit(_flood, server.grpc, 2 + n % (models - 1), stop) for n in range(FLOODERS * (models - 1))]
            try:
                progress(f"turns: {SINGLES} requests to one of {models} models on {cards} cards, beside floods")
                waits_s = [_single(client, number) for number in range(SINGLES)]
            finally:
                stop.set()
            for flood in floods:
                flood.result()
    return _within("longest wait of one request", max(waits_s), FLOOD_RESIDENCY_MS, FLOOD_CHANGE_MS, models, cards)


def _simulated(models: int, cards: int) -> Figure:
    """The same with the default residency, in simulated time: the longest wait of requests at all phases of the turns."""
    times = DEFAULT_RESIDENCY_MS, SIMULATED_LOAD_MS
    round_ms = models * sum(times)
    asked_ms = range(round_ms, 2 * round_ms, round_ms // PHASES)
    longest_ms = max(wait_beside_floods(models, cards, *times, asked, STEP_MS) for asked in asked_ms)
    return _within("the same in simulated time", longest_ms / 1000, *times, models, cards)


def _within(name: str, longest_s: float, residency_ms: int, change_ms: int, models: int, cards: int) -> Figure:
    bound_s = longest_wait_ns(residency_ms, change_ms, models, cards) / 1000
    name += f", {models} models on {cards} card{'s' * (cards > 1)}"
    return Figure(name, longest_s, f"{longest_s:.1f} s", f"{bound_s:.1f} s or less", longest_s <= bound_s)


def _single(client: triton.InferenceServerClient, number: int) -> float:
    """Send one row to model 1 at another phase of the turns than the last one, and return how long the answer took."""
    time.sleep((FLOODERS * FLOOD_RESIDENCY_MS + number * FLOOD_RESIDENCY_MS / SINGLES) / 1000)  # the model is idle meanwhile
    begin_s = time.monotonic()
    _ask(client, 1, np.zeros((1, 18), np.float32))
    return time.monotonic() - begin_s


def _flood(url: str, number: int, stop: threading.Event) -> None:
    """Send requests to a model without a pause."""
    rows = np.zeros((ROWS, 18), np.float32)
    with triton.InferenceServerClient(url) as client:
        while not stop.is_set():
            _ask(client, number, rows)


def _ask(client: triton.InferenceServerClient, number: int, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    tensor = triton.InferInput("x", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    answer: NDArray[np.float32] = client.infer(f"model_{number}", [tensor], client_timeout=300).as_numpy("y")
    return answer


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
            begin_s = time.monotonic()
            requests += 1
            try:
                got = _ask(client, number, rows)
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


def _publish(repository: Path, numbers: Sequence[int], place: Path, residency_ms: int) -> None:
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
        parameters = {"card_policy": "on_demand", "card_residency_ms": str(residency_ms), "slot_rows": str(ROWS)}
        publish(repository, xclbin, manifest, config_pbtxt(manifest, parameters=parameters))


def _image(number: int, place: Path) -> bytes:
    """The simulator of one model's kernel."""
    image = place / f"model_{number}.so"
    flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{_ROOT / 'sim' / 'emu'}"]
    source = _ROOT / "tests" / "host" / "model.c"
    verilator.run(["gcc", *flags, f"-DKERNEL=model_{number}", f"-DPLUS={number}", "-o", image, source], place)
    return image.read_bytes()
