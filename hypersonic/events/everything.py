# SPDX-License-Identifier: Apache-2.0
"""Sends events to each zoo model that a server has, and prints one table: answers equal to csim, rate, figure of merit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hypersonic import Client
from hypersonic.building.host_models import HostModel, find_host_model
from hypersonic.client.describe import describe
from hypersonic.client.errors import ClientError, UnknownModelError
from hypersonic.client.load.errors import LoadError
from hypersonic.client.specs import ModelSpec
from hypersonic.events.golden import WrongAnswerError
from hypersonic.events.outcome import Outcome
from hypersonic.events.sending import ANSWER_TIMEOUT_S, Answers, NoEventsError, closed_loop, send
from hypersonic.hls.frontend.description import read_zoo_yaml, zoo_models
from hypersonic.progress import Step

#: rows in a request to a model on the host
_HOST_ROWS = 4


class NoModelsError(ValueError):
    """The server has none of the zoo's models."""


class FailedModelsError(RuntimeError):
    """Some models gave wrong answers or none. The message names them; the table has the reasons."""

    exit_code = 1


@dataclass(frozen=True)
class Line:
    """The answers of one model, in figures.

    Attributes:
        compared: the number of integers equal to csim's; 0: the model has no csim, or the answers were not checked.
        merit, before: the figure of merit of the answers and of the float network; None where there is none.
        problem: why there are no figures; empty if there are.
    """

    model: str
    events: int = 0
    rows: int = 0
    compared: int = 0
    events_per_s: float = 0.0
    merit: float | None = None
    before: float | None = None
    figure: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Asked:
    """The settings for asking each model.

    Attributes:
        infer: hypersonic.events.infer.infer. The other fields are its arguments.
    """

    infer: Callable[..., Outcome]
    url: str
    metrics_url: str
    events: int
    event_rows: int
    clients: int
    seed: int
    check: bool


def infer_all(asked: Asked, progress: Step) -> tuple[list[Line], list[str]]:
    """Send events to each zoo model that the server has; return a line for each, and the names of the others.

    If a model fails, its line has the reason, and the next one is asked. Raises NoModelsError if the server has none of them,
    NoEventsError, and ClientError if no server answers.
    """
    if min(asked.events, asked.clients) < 1 or asked.event_rows < 0:
        got = f"--events is {asked.events}, --clients is {asked.clients} and --event-rows is {asked.event_rows}"
        raise NoEventsError(f"{got}, expected 1 or more of each")
    names = list(models := _served_models())
    specs, failed = _describe_all(asked.url, names)
    if not specs and failed:
        raise next(iter(failed.values()))
    if not specs:
        raise NoModelsError(
            f"the server at {asked.url} has none of the zoo's models ({', '.join(names)}): build them with "
            "`hypersonic build --all --target sw_emu`, and start the server on that model repository"
        )
    lines = [Line(name, problem=str(error)) for name, error in failed.items()]
    for number, (name, spec) in enumerate(specs.items(), 1):
        step = partial(_numbered, progress, f"{number} of {len(specs)}, {name}")
        step("events")
        lines.append(_ask(name, models[name], spec, asked, step))
    order = {name: place for place, name in enumerate(names)}
    return sorted(lines, key=lambda line: order[line.model]), [name for name in names if name not in {*specs, *failed}]


def _describe_all(url: str, names: Sequence[str]) -> tuple[dict[str, ModelSpec], dict[str, ClientError]]:
    """Return the descriptions of the models that the server has, and the errors of those that it has but does not describe."""
    specs: dict[str, ModelSpec] = {}
    failed: dict[str, ClientError] = {}
    with Client(url, closed_loop(1, ANSWER_TIMEOUT_S)) as client:
        for name in names:
            try:
                specs[name] = describe(client, name)
            except UnknownModelError:
                continue
            except ClientError as error:
                failed[name] = error
    return specs, failed


def _numbered(progress: Step, prefix: str, text: str) -> None:
    progress(f"{prefix}: {text}")


def _served_models() -> dict[str, HostModel | None]:
    """Return the names under which a server has the zoo's models; each with its HostModel if it runs on the host, else None."""
    found = {model: find_host_model(model, read_zoo_yaml(model)) for model in zoo_models()}
    return {host.name if host else model: host for model, host in found.items()}


def _ask(name: str, host: HostModel | None, spec: ModelSpec, asked: Asked, step: Step) -> Line:
    try:
        return _on_host(host, spec, asked) if host else _judged(name, asked, step)
    except (ClientError, LoadError, WrongAnswerError, ValueError) as error:
        return Line(name, problem=str(error))


def _judged(name: str, asked: Asked, step: Step) -> Line:
    outcome = asked.infer(
        name, url=asked.url, metrics_url=asked.metrics_url, events=asked.events, event_rows=asked.event_rows,
        clients=asked.clients, seed=asked.seed, check=asked.check, progress=step,
    )  # fmt: skip
    line = _line(name, outcome.load, outcome.rows)
    merit = outcome.merit
    return replace(line, compared=outcome.compared, merit=merit.served, before=merit.before, figure=merit.name)


def _on_host(model: HostModel, spec: ModelSpec, asked: Asked) -> Line:
    """Ask a model that another backend runs on the server's host."""
    rows = min(asked.event_rows or _HOST_ROWS, spec.max_batch_size or _HOST_ROWS)
    module, _, function = model.events.partition(":")
    events = [getattr(import_module(module), function)(rows, asked.seed + k) for k in range(asked.events)]
    with Client(asked.url, closed_loop(asked.clients, ANSWER_TIMEOUT_S)) as client:
        load = send(client, model.name, [tuple(event[tensor.name] for tensor in spec.inputs) for event in events])
    return replace(_line(model.name, load, rows), figure="none: on the host, there is no csim")


def _line(name: str, load: Answers, rows: int) -> Line:
    return Line(name, len(load.outputs), rows, events_per_s=load.events_per_s)


def show_all(lines: Sequence[Line], missing: Sequence[str], directory: Path) -> None:
    """Print the table, and write figures.json into `directory`. Raises FailedModelsError if a model failed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "figures.json").write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    console = Console(width=None if Console().is_terminal else 120)
    table = Table(title=f"{len(lines)} models", title_justify="left")
    for heading in ("model", "events", "rows", "equal to csim", "events/s", "served", "float"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    table.add_column("figure of merit")
    for line in lines:
        table.add_row(*_cells(line))
    console.print(table)
    console.print("events/s are those of the emulation on this machine", highlight=False)
    if missing:
        console.print(f"not on the server: {', '.join(missing)}", highlight=False)
    if failed := [line.model for line in lines if line.problem]:
        raise FailedModelsError(f"{len(failed)} of {len(lines)} models failed: {', '.join(failed)}; the table has the reasons")


def _cells(line: Line) -> tuple[str, ...]:
    if line.problem:
        return line.model, *["-"] * 6, line.problem
    merits = ("-" if value is None else f"{value:.4f}" for value in (line.merit, line.before))
    equal = f"{line.compared:,}" if line.compared else "-"
    return line.model, str(line.events), f"{line.rows:,}", equal, f"{line.events_per_s:.1f}", *merits, line.figure
