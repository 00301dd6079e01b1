# SPDX-License-Identifier: Apache-2.0
"""`hypersonic triton`: the backend "fpga" for NVIDIA's tritonserver."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "install the fpga backend into NVIDIA's tritonserver, or start tritonserver with it"

_EPILOG = """\
examples:
  hypersonic triton install                                    into /opt/tritonserver/backends
  hypersonic triton serve --model-repository models            ports 8000, 8001 and 8002
  hypersonic triton serve -- --grpc-port=9001 --log-verbose=1  after `--`, options of tritonserver
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.epilog = _EPILOG
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="compile the backend and put it where tritonserver looks for it")
    install.add_argument(
        "--backend-directory", type=Path, default=Path("/opt/tritonserver/backends"), metavar="DIR",
        help="tritonserver's directory of backends (default: %(default)s, as in NVIDIA's images)",
    )  # fmt: skip
    install.add_argument("--quiet", action="store_true", help="do not show progress")
    serve = actions.add_parser("serve", help="start tritonserver with the backend, and with emulated cards if models need them")
    serve.add_argument(
        "--model-repository", type=Path, default=Path("models"), metavar="DIR", help="model repository (default: %(default)s)"
    )
    serve.add_argument(
        "--tritonserver", type=Path, metavar="FILE",
        help="the program (default: tritonserver on PATH or in /opt/tritonserver, otherwise that of the wheel nvidia-pytriton, "
        "which is downloaded once)",
    )  # fmt: skip
    serve.add_argument("options", nargs="*", metavar="OPTION", help="options of tritonserver, after `--`")
    serve.add_argument("--quiet", action="store_true", help="do not show progress")
    for action in (install, serve):
        action.set_defaults(parser=action)


def run(args: argparse.Namespace) -> int:
    """Install the backend and print its path, or become tritonserver."""
    from hypersonic.progress import progress

    if args.action == "install":
        from hypersonic.triton.install import install

        with progress(quiet=args.quiet) as step:
            path = install(args.backend_directory, step)
        print(path)
        return 0
    return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    import os

    from hypersonic.progress import progress
    from hypersonic.triton.program import find_tritonserver
    from hypersonic.triton.serve import arguments

    with progress(quiet=args.quiet) as step:
        server = find_tritonserver(args.tritonserver, step)
        argv = arguments(server, args.model_repository, args.options, step)
    os.execve(server.path, argv, {**os.environ, **server.env})  # noqa: S606 - signals go to tritonserver itself
