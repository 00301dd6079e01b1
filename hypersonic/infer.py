# SPDX-License-Identifier: Apache-2.0
"""Events through a running server: every answer compared with csim as integers, and the figures a physicist asks for."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.client.load import InferError, LoadResult, describe_model, send_events
from hypersonic.hls.cache import cached
from hypersonic.hls.csim import Csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.zoo.facile.events import Events, log_flat_events
from hypersonic.hls.zoo.facile.geometry import CHANNELS
from hypersonic.hls.zoo.facile.report import (
    EmptyChannels,
    Resolution,
    baselines,
    empty_channels,
    float_predict,
    resolution_table,
)
from hypersonic.progress import Step

#: the kernel clock of a U250's shell; no card has shown that this kernel reaches it
KERNEL_CLOCK_HZ = 300e6

#: the served model's name in the table of methods
SERVED = "served"


class WrongAnswerError(RuntimeError):
    """The server's answers are not csim's integers: how many differ and the first that does."""

    exit_code = 1


class NoEventsError(ValueError):
    """There is no event generator for this model."""


@dataclass(frozen=True)
class Outcome:
    """What a load of events gave. compared: integers equal to csim's (0: not checked). cycles: kernel clocks of all events."""

    model: str
    load: LoadResult
    clients: int
    cycles: int
    compared: int
    resolution: tuple[Resolution, ...]
    empty: tuple[EmptyChannels, ...]

    @property
    def cycles_per_event(self) -> float:
        return self.cycles / len(self.load.outputs)

    def figures(self) -> dict[str, float]:
        """The numbers of the table, by name with units; no clocks where the card counted none (sw_emu has no clock)."""
        clocks = (
            {
                "clocks_per_event": self.cycles_per_event,
                "events_per_s_at_300_mhz": KERNEL_CLOCK_HZ / self.cycles_per_event,
            }
            if self.cycles
            else {}
        )
        return {
            "events": len(self.load.outputs),
            "clients": self.clients,
            "integers_equal_to_csim": self.compared,
            "events_per_s": self.load.events_per_s,
            "latency_p50_ms": self.load.latency_ms(0.5),
            "latency_p99_ms": self.load.latency_ms(0.99),
            **clocks,
        }

    def show(self, directory: Path) -> int:
        """Print the table; write figures.json and result.png into `directory`. Returns the exit code 0."""
        from hypersonic.picture import draw, print_table

        directory.mkdir(parents=True, exist_ok=True)
        (directory / "figures.json").write_text(json.dumps(self.figures(), indent=2) + "\n")
        draw(self, directory / "result.png")
        print_table(self, directory / "result.png")
        return 0


def infer(
    model: str,
    *,
    url: str,
    metrics_url: str,
    events: int,
    clients: int,
    seed: int,
    check: bool,
    progress: Step,
) -> Outcome:
    """Send `events` generated events to the model at `url`; with `check`, compare each answer with csim as integers.

    Raises NoEventsError, client.load.InferError, WrongAnswerError.
    """
    if model != "facile":
        raise NoEventsError(f"no event generator for model {model!r}; the zoo has one for: facile")
    if events < 1 or clients < 1:
        raise NoEventsError(f"--events is {events} and --clients is {clients}, expected 1 or more of each")
    progress(f"events: {events} of {CHANNELS} channels, seed {seed}")
    sample = log_flat_events(events, seed)
    requests = np.split(sample.rows, events)
    served = describe_model(url, model)
    progress(f"infer: {events} events from {clients} clients")
    before = kernel_cycles(metrics_url, model)
    load = send_events(url, served, requests, clients=clients)
    cycles = kernel_cycles(metrics_url, model) - before
    compared = 0
    if check:
        progress(f"check: {events * CHANNELS} answers against csim as integers")
        compared = check_against_csim(model, sample.rows, np.concatenate(load.outputs))
    progress("figures: resolution per energy bin")
    resolution, empty = quality(sample, np.concatenate(load.outputs).reshape(-1))
    return Outcome(model, load, clients, cycles, compared, tuple(resolution), tuple(empty))


def quality(sample: Events, served: NDArray[np.float32]) -> tuple[list[Resolution], list[EmptyChannels]]:
    """The served energies beside the float network's and the simple methods', on the same channels."""
    predictions: dict[str, ArrayLike] = {
        **baselines(sample.rows),
        "float network": float_predict(sample.rows),
        SERVED: served,
    }
    return resolution_table(predictions, sample.energy), empty_channels(predictions, sample.energy)


def check_against_csim(model: str, rows: NDArray[np.float32], served: NDArray[np.float32]) -> int:
    """Served FP32 (rows, n_out) against csim, both as the fabric's integers. Returns how many were equal: all, or an error."""
    from hypersonic.build import build_csim

    project, library = build_csim(model)
    raw = served_integers(project, served)
    golden = golden_integers(project, library, rows)
    wrong = np.argwhere(raw != golden)
    if len(wrong):
        at = tuple(wrong[0])
        raise WrongAnswerError(
            f"{len(wrong)} of {raw.size} answers of model {model!r} differ from csim, first in row {at[0]}, output {at[1]}: "
            f"got {raw[at]}, csim says {golden[at]}; is the served version the one built from these sources?"
        )
    return int(raw.size)


def served_integers(project: HlsProject, served: NDArray[np.float32]) -> NDArray[np.int64]:
    """FP32 answers -> the integers they stand for. Raises WrongAnswerError for a number that is no such integer."""
    scaled = np.ldexp(project.output.to_network(served), project.output.fixed.fraction)
    if not np.array_equal(scaled, np.rint(scaled)):
        raise WrongAnswerError(f"an answer of model {project.name!r} is not on the grid of {project.output.fixed}")
    return scaled.astype(np.int64)


def golden_integers(project: HlsProject, library: Path, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """csim's integers (rows, n_out) for wire rows, on two threads; kept by the hash of the library and the rows."""

    def compute(directory: Path) -> None:
        csim = Csim(library, project)
        parts: Sequence[NDArray[np.float32]] = np.array_split(rows, max(1, len(rows) // CHANNELS))
        with ThreadPoolExecutor(2) as pool:
            raw = list(pool.map(lambda part: csim.predict_raw(project.input.to_raw(part)), parts))
        np.save(directory / "raw.npy", np.concatenate(raw))

    place = cached("golden", [library, rows.tobytes()], compute)
    golden: NDArray[np.int64] = np.load(place / "raw.npy")
    return golden


def kernel_cycles(metrics_url: str, model: str) -> int:
    """Clocks in which the model's compute units had a run in flight, summed over them; raises InferError."""
    try:
        with urllib.request.urlopen(metrics_url, timeout=10) as answer:  # noqa: S310 - the operator's own address
            text = answer.read().decode()
    except (OSError, ValueError) as error:
        raise InferError(f"no metrics from {metrics_url}: {error}; give the server's address as --metrics-url") from error
    name, label = "fpga_compute_unit_busy_cycles_total{", f'model="{model}"'
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines() if line.startswith(name) and label in line)
