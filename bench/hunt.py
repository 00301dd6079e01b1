# SPDX-License-Identifier: Apache-2.0
"""Compares random networks with hls4ml's C++ as integers, for a given time, and prints the result for each seed.

    python -m bench.hunt [--minutes 10] [--first SEED] [--families dense residual softmax ...]

Each seed draws a network of every family (tests/hls/rf/families.py: a layer type each, with types, strategies and reuse
factors) and networks of random topology (tests/hls/da/random_models.py). Every network is converted to an rf core, and in
io_parallel to a da core too if that supports it. Random rows are computed by the rf core's RTL in Verilator, by the da core's
adders and by the network in Python's integers (hls/network/evaluate.py), and all are compared with the C++. Odd seeds are in
io_stream, even ones in io_parallel. A seed draws the same networks each time: --first SEED --minutes 0 repeats it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: networks of random topology per seed, and rows per network
TOPOLOGIES = 3
ROWS = 60

TOPOLOGY = "topology"
FAMILIES = (
    "beats", "several", "residual", "wiring", "dense", "chain", "curve", "convolution", "depthwise", "pool", "softmax",
    "recurrent", "bidirectional", "layernorm", "binary", "einsum", "steps",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Return 1 if a network was different, or a process failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="after that no seed is begun (default: 10)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, TOPOLOGY], default=[*FAMILIES, TOPOLOGY])
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.only is not None:
        return _seed(asked.only, asked.families)
    until, seed, bad = time.time() + 60 * asked.minutes, asked.first, []
    while seed == asked.first or time.time() < until:
        argv = [sys.executable, "-m", "bench.hunt", "--only", str(seed), "--families", *asked.families]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
        if done.returncode not in (0, 1) or not lines:
            lines.append(f"seed {seed}: the process ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        print(*lines, sep="\n", flush=True)
        bad += [seed] if done.returncode else []
        seed += 1
    print(seeds_line(asked.first, seed, bad))
    return int(bool(bad))


def seeds_line(first: int, end: int, bad: Sequence[int]) -> str:
    """Return the last line that is printed. bad: the seeds that were different, or whose process failed."""
    found = f"different or ended: {', '.join(map(str, bad))}" if bad else "none different"
    return f"{end - first} seeds from {first}; {found}"


def _seed(seed: int, families: Sequence[str]) -> int:
    """Draw, convert and compare the networks of one seed; print a line. Return 1 if one is different."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        _draw(seed, families, directory)
        compared, different = _compare(seed, directory)
        refused = [f"{file.stem}: {file.read_text()}" for file in sorted(directory.glob("*.refused"))]
    found = f"different: {', '.join(different)}" if different else "none different"
    print(f"seed {seed}: {compared} cores, {found}; {len(refused)} networks refused")
    return int(bool(different))


def _draw(seed: int, families: Sequence[str], directory: Path) -> None:
    """Write the projects of a seed."""
    import numpy as np

    from hypersonic.hls.frontend.keras.model import use_keras_2
    from tests.hls.da.random_models import Modes, model
    from tests.hls.rf import families as drawn
    from tests.hls.rf.rf_models import convert

    use_keras_2()
    io_type = "io_stream" if seed % 2 else "io_parallel"
    for family in families:
        rng = np.random.default_rng([seed, *family.encode()])
        if family != TOPOLOGY:
            convert(*drawn.FAMILIES[family](rng), f"{family}_{seed}", directory, io_type)
            continue
        for each in range(TOPOLOGIES):
            modes = Modes(rng)
            network, names = model(rng, modes)
            names |= {name: {"Precision": {"result": modes.precision(3, 16, (1, 8))}} for name in network.input_names}
            convert(network, names, f"{family}_{seed}_{each}", directory, io_type)


def _compare(seed: int, directory: Path) -> tuple[int, list[str]]:
    """Return how many cores were compared with the C++, and the names of those that differ."""
    import pickle

    import numpy as np

    from hypersonic.hls.core import Core
    from hypersonic.hls.network.evaluate import evaluate
    from hypersonic.hls.rtl.simulate import RtlCore
    from tests.hls.rf.golden import golden, random_rows

    wanted, cores, adders, different = [], [], 0, []
    for project in sorted(file.parent for file in directory.glob("*/network.pickle")):
        network = pickle.loads((project / "network.pickle").read_bytes())
        x = random_rows(network, ROWS, seed)
        y = golden(project, x)
        if not np.array_equal(evaluate(network, x).astype(np.int64), y):
            different.append(f"integers {project.name}")
        cores.append(Core.load(project / "core"))
        wanted.append((x, y))
        if (project / "da" / "adders.pickle").is_file():
            adders += 1
            if not np.array_equal(pickle.loads((project / "da" / "adders.pickle").read_bytes()).evaluate(x), y):
                different.append(f"da {project.name}")
    for core, (x, y) in zip(cores, wanted, strict=True):
        with RtlCore(core, beside=cores, optimisation="-O0") as rtl:
            if not np.array_equal(rtl.predict_raw(x), y):
                different.append(f"rf {core.name}")
    return len(cores) + adders, different


if __name__ == "__main__":
    sys.exit(main())
