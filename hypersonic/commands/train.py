# SPDX-License-Identifier: Apache-2.0
"""`hypersonic train`: run the training of a zoo model in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

HELP = "train a zoo model with quantisation-aware training; needs the build extra"

ZOO = Path(__file__).resolve().parents[1] / "hls" / "zoo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    from hypersonic.hls.sources import source_files

    trained = sorted(file.parent.name for file in source_files(ZOO, "*/train.py"))
    parser.add_argument("model", choices=trained, metavar="MODEL", help=f"one of {', '.join(trained)}")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...",
        help="options of the model's training; `hypersonic train facile --help` lists those of facile",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train the model in a child process, which must load Keras 2 before anything else imports Keras. Return its exit code."""
    from hypersonic.extras import require
    from hypersonic.hls.bounded import tool
    from hypersonic.hls.child import keras_2_environment, python_argv

    require("tf_keras", "qkeras")
    argv = python_argv("-m", f"hypersonic.hls.zoo.{args.model}.train", *args.arguments)
    environment = {**keras_2_environment(), "TF_CPP_MIN_LOG_LEVEL": "2"}
    with tool.start(argv, f"the training of {args.model}", env=environment, stdin=subprocess.DEVNULL) as training:
        return training.process.wait()
