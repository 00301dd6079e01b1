# SPDX-License-Identifier: Apache-2.0
"""The commands of the command line, one file each: HELP, add_arguments(parser) and run(args).

A command's own file imports nothing heavy at its top: all of them are read for any command.
"""

#: in the order of `hypersonic --help`
NAMES = ("run", "build", "serve", "infer", "report", "train", "inspect", "devices", "bench")
