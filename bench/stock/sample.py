# SPDX-License-Identifier: Apache-2.0
"""Prints the sample of the cases that the test suite runs, chosen from the results of bench.stock.run.

    python -m bench.stock.sample [--results FILE] > tests/hls/plugin/stock_sample.txt

It takes one case from each file in turn: the next one for Keras 2 in the fixed order whose answers are equal and that took less
than five seconds of processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from bench.stock.cases import Kind, Result, file_of, keras_of, place_of, read_results

SIZE, MOST_CPU_S = 60, 5


def sample(results: Iterable[Result], size: int = SIZE) -> list[str]:
    """Return the names of the cases."""
    files: dict[str, list[str]] = defaultdict(list)
    for result in sorted(results, key=lambda result: place_of(result.case)):
        if result.kind is Kind.EQUAL and result.cpu_seconds < MOST_CPU_S and keras_of(result.case) == 2:
            files[file_of(result.case)].append(result.case)
    rounds = zip_longest(*(files[name] for name in sorted(files)))
    return list(islice((case for case in chain.from_iterable(rounds) if case), size))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the sample, a case in each line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("build/stock_cases.jsonl"), help="file of JSON lines")
    print("\n".join(sample(read_results(parser.parse_args(argv).results))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
