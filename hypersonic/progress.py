# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of long work on standard error, a line per step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

Step = Callable[[str], None]
#: called with a name, how much of it is done, and all of it; None if that is not known
Advance = Callable[[str, int, int | None], None]


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Step]:
    """Yield a function step(text) that shows what is being done now; with `quiet`, it shows nothing.

    On a terminal, a spinner marks the current step, and finished steps remain with their duration. Elsewhere each step is a
    plain line when it begins. Any thread may call it: the estimate of a build runs beside its simulator.
    """
    console = Console(stderr=True)
    if quiet:
        yield lambda _text: None
    elif not console.is_terminal:
        yield lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True)
    else:
        with Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
        ) as bars:
            running: list[int] = []
            lock = threading.Lock()

            def step(text: str) -> None:
                with lock:
                    for task in running:
                        bars.update(task, total=1, completed=1)  # type: ignore[arg-type]
                    running[:] = [bars.add_task(text, total=None)]

            yield step
            for task in running:
                bars.update(task, total=1, completed=1)  # type: ignore[arg-type]


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Advance]:
    """Yield a function show(name, done, total) that shows a bar for each name; with `quiet`, it shows nothing.

    Where standard error is not a terminal, each name is a line when it begins.
    """
    console = Console(stderr=True)
    tasks: dict[str, TaskID] = {}
    if quiet:
        yield lambda _name, _done, _total: None
        return
    if not console.is_terminal:

        def line(name: str, _done: int, _total: int | None) -> None:
            if name not in tasks:
                tasks[name] = TaskID(0)
                console.print(name, highlight=False, markup=False, soft_wrap=True)

        yield line
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield show
