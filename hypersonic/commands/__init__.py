# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line. Each has a module with HELP, add_arguments(parser) and run(args).

These modules import heavy packages only inside functions, because all of them are loaded for any command.
"""

#: the commands, in the order of `hypersonic --help`
NAMES = (
    "new", "tune", "run", "build", "serve", "triton", "infer", "load", "plan", "events", "report", "train", "inspect",
    "devices", "bench",
)  # fmt: skip
