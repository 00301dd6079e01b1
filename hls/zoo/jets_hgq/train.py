# SPDX-License-Identifier: Apache-2.0
"""Train the jet tagger with HGQ2 and write the file that the zoo ships.

`python -m hypersonic.hls.zoo.jets_hgq.train --output DIRECTORY`. HGQ2 is installed into the cache first if it is not there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersonic.hls.zoo import hgq_2
from hypersonic.hls.zoo.hgq_2 import Schedule
from hypersonic.hls.zoo.jets import events, report
from hypersonic.hls.zoo.jets_hgq import network

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Seed, sample size and schedule of the training. The defaults gave the shipped weights; they take a few minutes."""

    seed: int = 1
    jets: int = 100_000
    schedule: Schedule = field(default_factory=lambda: Schedule(80, 3e-3, 512, (1e-7, 3e-6), trial=15))


def train(settings: Settings, progress: Progress = lambda _: None) -> tuple[Any, float]:
    """Return the trained Keras 3 model and its cost in EBOPs. progress: receives one line per epoch."""
    hgq_2.keras().utils.set_random_seed(settings.seed)
    jets = events.jets(settings.jets, settings.seed)
    model = network.network()
    return model, hgq_2.fit(model, events.network_inputs(jets.rows), jets.label, settings.schedule, progress)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (argv: without the program name; None: sys.argv) and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hypersonic.hls.zoo.jets_hgq.train", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="directory for jets_hgq.keras")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_args(argv)
    code = hgq_2.run_in_environment("hypersonic.hls.zoo.jets_hgq.train", sys.argv[1:] if argv is None else argv)
    if code is not None:
        return code
    model, cost = train(Settings(seed=arguments.seed), (lambda _: None) if arguments.quiet else _say)
    arguments.output.mkdir(parents=True, exist_ok=True)
    hgq_2.save(model, arguments.output / "jets_hgq.keras")
    held_out = events.jets(20_000, events.HELD_OUT_SEED)
    logits = hgq_2.predict(model, events.network_inputs(held_out.rows))
    table = report.tagging({"float": report.float_predict(held_out.rows), "HGQ2": report.softmax(logits)}, held_out.label)
    sys.stdout.write(f"{report.render(table)}\n{cost:,.0f} EBOPs\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
