# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line. Each has a module with HELP, add_arguments(parser) and run(args).

A command is called as its module is, with - for _.

These modules import heavy packages only inside functions, because all of them are loaded for any command.
"""

#: the commands, in the order of `hypersonic --help`
NAMES = (
    "new", "tune", "run", "build", "serve", "triton", "infer", "load", "plan", "events", "report", "train", "inspect",
    "devices", "first_day", "bench",
)  # fmt: skip
