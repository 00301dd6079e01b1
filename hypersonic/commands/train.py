# SPDX-License-Identifier: Apache-2.0
"""`hypersonic train`: a zoo model's own training, in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

HELP = "train a zoo model, quantisation-aware; needs the build extra"

ZOO = Path(__file__).resolve().parents[1] / "hls" / "zoo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from hypersonic.hls.sources import source_files

    trained = sorted(file.parent.name for file in source_files(ZOO, "*/train.py"))
    parser.add_argument("model", choices=trained, metavar="MODEL", help=", ".join(trained))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on; `hypersonic train facile --help` lists them")


def run(args: argparse.Namespace) -> int:
    """Train; Keras 2 has to come before anything else imports Keras, hence the process."""
    from hypersonic.hls.child import keras_2_environment, python_argv

    argv = python_argv("-m", f"hypersonic.hls.zoo.{args.model}.train", *args.arguments)
    return subprocess.run(argv, env={**keras_2_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}, check=False).returncode
