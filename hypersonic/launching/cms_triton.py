# SPDX-License-Identifier: Apache-2.0
"""`hypersonic-cmsTriton`: a server for the jobs of one host, started and stopped as CMSSW's cmsTriton does it.

CMSSW's TritonService starts it as its fallback server, and reads two lines of its output::

    CMS_TRITON_GRPC_PORT: 40001
    CMS_TRITON_CHOSEN_DEVICE: cpu          gpu would mean CUDA memory, so it is cpu even if a card computes
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from hypersonic.extras import explain_missing
from hypersonic.launching import instance
from hypersonic.launching.options import USAGE, Options, UsageError, parse

OK, FAILED, USAGE_ERROR, INTERRUPTED = 0, 1, 2, 130
#: the line that the server logs once all models are loaded, with Triton's text
_STARTED = re.compile(rb"Started GRPCInferenceService at \S+:(\d+)\s*$", re.MULTILINE)
_POLL_S = 0.05
#: lines of the log that are shown if the server does not start
_TAIL = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher and return its exit code: 0, 1 if the operation failed, 2 for a command line that cannot be used."""
    try:
        opts = parse(sys.argv[1:] if argv is None else argv)
        if opts is None:
            _say(USAGE.rstrip())
            return OK
        for note in opts.notes if opts.operation == "start" else ():
            _say(f"note: {note}")
        return {"start": start, "stop": stop, "check": check}[opts.operation](opts)
    except UsageError as error:
        _say(f"Error: {error}; -h lists the options")
        return USAGE_ERROR
    except OSError as error:
        _say(f"Error: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def check(opts: Options) -> int:
    """Return 0 if a server can run here, otherwise 1, and print why not."""
    if opts.container:
        if shutil.which(opts.container):
            return OK
        _say(f"Error: {opts.container} is not on PATH")
        return FAILED
    try:
        import hypersonic.server.app  # noqa: F401
        from hypersonic.host.release import release_warning
    except ModuleNotFoundError as error:
        _say(f"Error: {explain_missing(error.name or '') or error}")
        return FAILED
    if warning := release_warning():
        _say(f"Warning: {warning}")
    return OK


def start(opts: Options) -> int:
    """Start the server and wait until it is ready."""
    if not opts.repositories:
        raise UsageError("no model was given, expected -m DIRECTORY or -M REPOSITORY")
    if opts.dry_run:
        _say(shlex.join(instance.command(opts)))
        return OK
    if opts.force:
        stop(opts)
    if opts.directory.exists():
        _say(f"Error: {opts.directory} exists: a server of this name may run; stop it, override with -f, or choose another -n")
        return FAILED
    if code := check(opts):
        return code
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _start(opts)
    except BaseException:
        instance.stop(opts.directory)
        instance.clean(opts.directory, None, keep=opts.keep)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def stop(opts: Options) -> int:
    """Stop the server and remove its temporary directory."""
    if opts.dry_run:
        _say(f"stop the server of {opts.directory}")
        return OK
    if not opts.directory.is_dir():
        if opts.force:
            return OK
        _say(f"Error: {opts.directory} does not exist: no server {opts.name!r} runs there; give -n and -t as for start, or -f")
        return FAILED
    instance.stop(opts.directory)
    instance.clean(opts.directory, opts.log if opts.verbose else None, keep=opts.keep)
    return OK


def _start(opts: Options) -> int:
    opts.directory.mkdir(parents=True)
    if opts.watched:
        instance.watch(opts)
    for left in reversed(range(opts.tries if opts.container else 1)):
        process = instance.start(opts)
        port = _wait(opts, process)
        if port is not None:
            _say("server is ready!")
            _say(f"CMS_TRITON_GRPC_PORT: {port}")
            _say("CMS_TRITON_CHOSEN_DEVICE: cpu")
            return OK
        ended = process.poll()
        instance.stop(opts.directory)
        if ended is None:
            _say(f"timed out waiting for server to start ({opts.wait_s} s; -w allows more)")
            break
        _say(f"Error: the server ended with {ended}; its last lines:\n{_tail(opts)}")
        if left:
            _say("Retrying after container issue...")
    instance.clean(opts.directory, opts.log, keep=opts.keep)
    return FAILED


def _wait(opts: Options, process: subprocess.Popen[bytes]) -> int | None:
    """Return the gRPC port once the server is ready; None if it ends or takes too long."""
    deadline = time.monotonic() + opts.wait_s
    while process.poll() is None and time.monotonic() < deadline:
        if match := _STARTED.search(opts.log.read_bytes()):
            return int(match[1])
        time.sleep(_POLL_S)
    return None


def _tail(opts: Options) -> str:
    with suppress(OSError):
        return "\n".join(opts.log.read_text(errors="replace").splitlines()[-_TAIL:])
    return ""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
