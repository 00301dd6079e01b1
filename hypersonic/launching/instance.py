# SPDX-License-Identifier: Apache-2.0
"""A server that outlives the program which started it: its process id is kept in its temporary directory."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from hypersonic.hls.child import python_argv, python_environment
from hypersonic.launching.options import Options

_STATE = "server.json"
#: the server's --exit-timeout-secs, and how long after SIGTERM it gets SIGKILL
EXIT_TIMEOUT_S, KILL_S = 30, 40.0
#: polling interval in seconds for the end of a process
_POLL_S = 0.05


def command(opts: Options) -> list[str]:
    """Return the command that starts the server, in a container if one is asked for."""
    words = [f"--model-repository={path}" for path in opts.repositories]
    for offset, front_end in enumerate(("http", "grpc", "metrics")):
        words += [f"--{front_end}-port={opts.port + offset if opts.port else 0}", f"--{front_end}-address=127.0.0.1"]
    # clients on this host send their tensors through shared memory, as CMSSW does with its fallback server
    words += ["--allow-client-shm=true", f"--exit-timeout-secs={EXIT_TIMEOUT_S}"]
    if not opts.load_all:
        words.append("--model-control-mode=explicit")
    if opts.verbose:
        words.append("--log-verbose=1")
    words += shlex.split(os.environ.get("HYPERSONIC_OPTIONS", ""))
    if not opts.container:
        return [*python_argv("-m", "hypersonic.server.app"), *words]
    if opts.container == "apptainer":
        binds = [word for path in opts.repositories for word in ("--bind", f"{path}:{path}:ro")]
        return ["apptainer", "exec", *binds, opts.image, "/opt/tritonserver/bin/tritonserver", *words]
    volumes = [word for path in opts.repositories for word in ("--volume", f"{path}:{path}:ro")]
    run = [opts.container, "run", "--rm", "--name", opts.name, "--network", "host", "--ipc", "host", "--ulimit", "memlock=-1"]
    return [*run, *volumes, opts.image, "tritonserver", *words]


def start(opts: Options) -> subprocess.Popen[bytes]:
    """Start the server in a session of its own, so that it does not end with this program's terminal.

    Its log is a file, because a parent that reads this program's output would otherwise wait for the server's end.
    """
    with opts.log.open("wb") as log:
        process = subprocess.Popen(
            command(opts), env=python_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    state = {"pid": process.pid, "started": start_time(process.pid)}
    (opts.directory / _STATE).write_text(json.dumps(state))
    return process


def watch(opts: Options) -> None:
    """Start the program that stops the server when process opts.watched has ended."""
    words = [str(opts.watched), str(start_time(opts.watched)), str(opts.directory), str(int(opts.keep))]
    with (opts.directory / f"log_stop_{opts.name}.log").open("wb") as log:
        subprocess.Popen(
            python_argv("-m", "hypersonic.launching.watch", *words),
            env=python_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def stop(directory: Path) -> None:
    """Stop the server of this temporary directory: SIGTERM, and SIGKILL if it takes too long."""
    process = process_of(directory)
    if process is None:
        return
    _signal(process[0], signal.SIGTERM)
    deadline = time.monotonic() + KILL_S
    while running(*process):
        if time.monotonic() > deadline:
            _signal(process[0], signal.SIGKILL)
            deadline = time.monotonic() + KILL_S
        time.sleep(_POLL_S)


def clean(directory: Path, log: Path | None, *, keep: bool) -> None:
    """Copy the log into the working directory, if it is given, and remove the temporary directory unless `keep`."""
    if log is not None and log.is_file():
        shutil.copy(log, Path.cwd())
    (directory / _STATE).unlink(missing_ok=True)
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)


def process_of(directory: Path) -> tuple[int, str] | None:
    """Return the process id and start time of the directory's server; None if it does not run."""
    try:
        state = json.loads((directory / _STATE).read_text())
        found = int(state["pid"]), str(state["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if running(*found) else None


def running(pid: int, started: str) -> bool:
    """Return whether the process still runs. Another process with the same id began at another time."""
    return start_time(pid) == started != ""


def start_time(pid: int) -> str:
    """Return when a process began, in clock ticks since the boot; "" if it has ended, even as a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
