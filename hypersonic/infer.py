# SPDX-License-Identifier: Apache-2.0
"""Events through a running server: every answer compared with csim as integers, and the figures a physicist asks for."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hypersonic.client.load import InferError, LoadResult, Model, describe_model, send_events
from hypersonic.hls.cache import cached
from hypersonic.hls.csim import Csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import TensorSpec
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
    served = describe_model(url, model)
    golden = None if served.travels_as_float32 and not check else golden_of(model, served)
    rows = golden.input.quantise(sample.rows) if golden else sample.rows
    requests = np.split(rows, events)
    progress(f"infer: {events} events from {clients} clients")
    before = kernel_cycles(metrics_url, model)
    load = send_events(url, served, requests, clients=clients)
    cycles = kernel_cycles(metrics_url, model) - before
    answers, compared = np.concatenate(load.outputs), 0
    if check and golden:
        progress(f"check: {events * CHANNELS} answers against csim as integers")
        compared = golden.compare(rows, answers)
    progress("figures: resolution per energy bin")
    resolution, empty = quality(sample, (golden.output.real(answers) if golden else answers).reshape(-1))
    return Outcome(model, load, clients, cycles, compared, tuple(resolution), tuple(empty))


def quality(sample: Events, served: NDArray[np.float64]) -> tuple[list[Resolution], list[EmptyChannels]]:
    """The served energies beside the float network's and the simple methods', on the same channels."""
    predictions: dict[str, ArrayLike] = {
        **baselines(sample.rows),
        "float network": float_predict(sample.rows),
        SERVED: served,
    }
    return resolution_table(predictions, sample.energy), empty_channels(predictions, sample.energy)


@dataclass(frozen=True)
class Golden:
    """The model's C++, converted and compiled once. inputs, outputs: as the server has them, maybe other than the YAML's."""

    project: HlsProject
    library: Path
    inputs: Row
    outputs: Row

    @property
    def input(self) -> TensorSpec:
        """The only one: a generated event is one tensor."""
        return self.inputs.tensors[0]

    @property
    def output(self) -> TensorSpec:
        return self.outputs.tensors[0]

    def compare(self, rows: NDArray[Any], answers: NDArray[Any]) -> int:
        """Served wire numbers (rows, n_out) against csim's, bit by bit: how many, all equal. Raises WrongAnswerError."""
        y, model = self.output, self.project.name
        expected = y.from_raw(golden_integers(self.project, self.library, self.input.to_raw(rows)))
        wrong = np.argwhere((_bits(y, answers) != _bits(y, expected)).reshape(expected.shape))
        if len(wrong):
            at = tuple(wrong[0])
            raise WrongAnswerError(
                f"{len(wrong)} of {expected.size} answers of model {model!r} differ from csim, first in row {at[0]}, "
                f"output {at[1]}: got {answers[at]!r}, csim says {expected[at]!r}; "
                "is the served version the one built from these sources?"
            )
        return int(expected.size)


def golden_of(model: str, served: Model) -> Golden:
    """What `served` has to answer. Raises what a build raises."""
    from hypersonic.build import build_csim, travelling

    project, library = build_csim(model)
    datatypes = served.input_datatype, served.output_datatype
    return Golden(project, library, *travelling((project.inputs, project.outputs), datatypes))


def check_against_csim(model: str, served: Model, rows: NDArray[Any], answers: NDArray[Any]) -> int:
    """As Golden.compare, for one comparison."""
    return golden_of(model, served).compare(rows, answers)


def _bits(spec: TensorSpec, numbers: NDArray[Any]) -> NDArray[Any]:
    return spec.encode(numbers).view(f"<u{spec.element.bytes}")


def golden_integers(project: HlsProject, library: Path, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """csim's integers (rows, n_out) for the input's integers, on two threads; kept by the hash of the library and the rows."""

    def compute(directory: Path) -> None:
        csim = Csim(library, project)
        parts: Sequence[NDArray[np.int64]] = np.array_split(x_raw, max(1, len(x_raw) // CHANNELS))
        with ThreadPoolExecutor(2) as pool:
            raw = list(pool.map(csim.predict_raw, parts))
        np.save(directory / "raw.npy", np.concatenate(raw))

    place = cached("golden", [library, x_raw.tobytes()], compute)
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
