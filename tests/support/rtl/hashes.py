# SPDX-License-Identifier: Apache-2.0
"""Prints the hash of the RTL of a fixed set of networks, one line for each core, to check that a change to the compiler does
not change its output:

    python -m tests.support.rtl.hashes > before.txt       # on the commit before the change
    python -m tests.support.rtl.hashes | diff before.txt -

The networks are those of bench/hunt.py for the first seeds, and small ones of the zoo. A hash covers the SystemVerilog without
comments, the memory files and the weights file. Nothing is compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypersonic.hls.child import keras_2_environment
from hypersonic.hls.frontend.description import find_model, read_description
from hypersonic.hls.frontend.hgq import environment_of

ROOT = Path(__file__).resolve().parents[3]

SEEDS = 12
#: models of the zoo that are converted in seconds, with each kind of core
ZOO = (
    "anomaly", "deepcalo", "facile", "facile_adc", "facile_v2", "facile_v2_da", "jets", "jets_hgq", "jets_logits",
    "jets_transformer", "resnet8", "toptag",
)  # fmt: skip
SUFFIXES = (".sv", ".mem", ".bin")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the hashes; return 1 if a process failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds of bench/hunt.py (default: {SEEDS})")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.only:
        return _print(asked.only)
    codes = [_run(each) for each in [*map(str, range(1, asked.seeds + 1)), *ZOO]]
    return int(any(codes))


def _run(only: str) -> int:
    """Hash a seed's networks, or a model of the zoo, in a process of its own."""
    environment = keras_2_environment() if only.isdigit() else environment_of(find_model(only))
    argv = [sys.executable, "-m", "tests.support.rtl.hashes", "--only", only]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False)
    sys.stdout.write("".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("core ")))
    sys.stdout.flush()
    if done.returncode:
        sys.stderr.write(f"{only}: the process ended with {done.returncode}: {done.stderr[-2000:]}\n")
    return done.returncode


def _print(only: str) -> int:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if only.isdigit():
            from bench import hunt

            hunt._draw(int(only), [*hunt.FAMILIES, hunt.TOPOLOGY], directory)
        else:
            _zoo(only, directory)
        for line in _lines(directory):
            sys.stdout.write(f"{line}\n")
    return 0


def _zoo(name: str, directory: Path) -> None:
    from hypersonic.hls.convert import write_converted
    from hypersonic.hls.core_kind import CoreKind
    from hypersonic.hls.errors import ConversionError
    from hypersonic.hls.frontend.load import load_trained

    file = find_model(name)
    for kind in (CoreKind.DA, CoreKind.RF):
        try:
            write_converted(load_trained(file), read_description(file), directory / f"{name}_{kind.value}", kind)
        except ConversionError as error:
            sys.stderr.write(f"{name}, {kind.value}: {error}\n")


def _lines(directory: Path) -> Iterator[str]:
    """Yield "core PATH HASH" for each core below the directory."""
    for file in sorted(directory.rglob("core.json")):
        core = file.parent
        digest = hashlib.sha256()
        for each in sorted(path for path in core.iterdir() if path.suffix in SUFFIXES):
            digest.update(f"{each.name}\n".encode())
            digest.update(_content(each))
        yield f"core {core.relative_to(directory)} {digest.hexdigest()[:16]}"


def _content(file: Path) -> bytes:
    """Return the bytes of a file; of SystemVerilog without lines that are comments."""
    if file.suffix != ".sv":
        return file.read_bytes()
    return b"\n".join(line for line in file.read_bytes().splitlines() if not line.lstrip().startswith(b"//"))


if __name__ == "__main__":
    sys.exit(main())
