# SPDX-License-Identifier: Apache-2.0
"""`hypersonic serve`: run the server, with tritonserver's options."""

from __future__ import annotations

import argparse

HELP = "serve a model repository over Triton's protocol"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the server's options to the parser."""
    from hypersonic.server.arguments import add_arguments

    add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends the server; return the exit code."""
    from hypersonic.server.app import serve

    return serve(args)
