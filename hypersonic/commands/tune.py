# SPDX-License-Identifier: Apache-2.0
"""`hypersonic tune`: search the types and reuse factors of a user's model."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from hypersonic.arguments import add_memory_option, parse_count, parse_loss, parse_percent

HELP = "search the types and reuse factors of a model of your own that cost least on a card, and write its YAML"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("model", metavar="MODEL", help="a .keras, .h5 or .onnx file, or file.py:function, a PyTorch module")
    parser.add_argument(
        "--rows", type=Path, required=True, metavar="FILE",
        help="rows as the model takes them, 20 or more: a .npy with an array (rows, ...), or for several inputs a .npz with an "
        "array for each by its name; three quarters are for the search, the others judge its result",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="true outputs of the rows, as for `hypersonic run`; the loss is then that of accuracy, or of the rms difference "
        "(default: the loss is the difference from the trained model's answers)",
    )  # fmt: skip
    parser.add_argument("--fit", default="u250", metavar="CARD", help="card that an rf core fills, and whose share is counted")
    parser.add_argument(
        "--fill", type=parse_percent, default=80, metavar="PERCENT", help="most of the card, in per cent, that may be filled"
    )
    parser.add_argument("--loss", type=parse_loss, default="1%", metavar="PERCENT", help="largest loss, such as 1%%")
    parser.add_argument("--trials", type=parse_count, default=40, metavar="N", help="candidates to try, at most")
    parser.add_argument(
        "--minutes", type=float, default=0, metavar="N", help="begin no more candidates after this time; 0 (default): no limit"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the YAML to write (default: MODEL with the suffix .yaml)")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="the picture to write (default: MODEL with the suffix .tune.png)"
    )
    parser.add_argument("--force", action="store_true", help="replace a YAML that exists")
    add_memory_option(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(args: argparse.Namespace) -> int:
    """Search; print the table, and the paths of the YAML and the picture, on standard output. Return 0."""
    from hypersonic.building.fit.card import FitOptions
    from hypersonic.building.tune_picture import draw_tuned, tune_lines
    from hypersonic.building.tuning import tune
    from hypersonic.extras import require
    from hypersonic.hls.tune.run import TuneOptions
    from hypersonic.own.task import check_files, trained_file
    from hypersonic.progress import progress

    require("tf_keras", "qkeras")
    check_files(args.rows, args.labels)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which ends the search with the best so far
    options, fit = TuneOptions(args.rows, args.labels, args.loss, args.trials, args.minutes), FitOptions(args.fit, args.fill)
    with progress(quiet=args.quiet) as step:
        model = Path(trained_file(args.model, step))
        tuned = tune(model, options, fit, args.output, step, force=args.force)
    picture = args.plot or model.with_suffix(".tune.png")
    draw_tuned(tuned, picture)
    print("\n".join([*tune_lines(tuned), f"picture: {picture}", str(tuned.file)]))
    return 0
