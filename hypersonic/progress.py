# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of long work on standard error, a line per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Step = Callable[[str], None]


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Step]:
    """Yield a function step(text) that shows what is being done now; with `quiet`, it shows nothing.

    On a terminal, a spinner marks the current step, and finished steps remain with their duration. Elsewhere each step is a
    plain line when it begins.
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

            def step(text: str) -> None:
                for task in running:
                    bars.update(task, total=1, completed=1)  # type: ignore[arg-type]
                running[:] = [bars.add_task(text, total=None)]

            yield step
            for task in running:
                bars.update(task, total=1, completed=1)  # type: ignore[arg-type]
