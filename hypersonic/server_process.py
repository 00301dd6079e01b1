# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: build, serve in a process of its own, infer, stop."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hypersonic.hls.child import python_argv, python_environment
from hypersonic.progress import Step, progress

#: what the server prints once each port answers; Triton's own words for gRPC and HTTP
_STARTED = re.compile(r"Started (GRPCInferenceService|HTTPService|Metrics Service) at (\S+)")


class ServerError(RuntimeError):
    """The server process did not start, or did not stop as it should: its exit code and its last lines."""

    exit_code = 1


@dataclass(frozen=True)
class Served:
    """A running server: where it answers."""

    grpc: str
    metrics: str


def build_as_asked(
    args: argparse.Namespace, step: Step, on_resources: Callable[[list[str]], None] | None = None,
    on_gate: Callable[[str], None] = lambda _: None, name: str = "",
) -> Path:  # fmt: skip
    """Build by the options that `hypersonic build` and `hypersonic run` share; returns the published version's directory.

    name: of the model in the repository, "" = its own.
    """
    from hypersonic.building.fit import FitOptions
    from hypersonic.building.model import CardOptions, build

    return build(
        args.model,
        target=args.target,
        platform=args.platform,
        core=args.core,
        repository=args.model_repository,
        name=name,
        compute_units=args.compute_units,
        datatypes=(args.input_datatype, args.output_datatype),
        directory=args.build_directory,
        options=CardOptions(args.kernel_mhz, args.lower_clock, args.afi_bucket),
        fit=FitOptions(args.fit, args.fill, args.network_gbps),
        progress=step,
        on_resources=on_resources,
        on_gate=on_gate,
    )


def run(args: argparse.Namespace) -> int:
    """Build args.model, serve it on free ports of this host, send events, show what came back. Returns the exit code."""
    from hypersonic.events.infer import OnCard, infer

    with progress(quiet=args.quiet) as step:
        name = build_as_asked(args, step).parent.name
        # this model alone: what else the repository holds must not keep the server from starting
        options = ("--model-control-mode=explicit", f"--load-model={name}")
        step(f"server: hypersonic serve --model-repository {args.model_repository} {' '.join(options)}")
        with served(args.model_repository, *options) as server:
            outcome = infer(
                args.model,
                url=server.grpc,
                metrics_url=f"http://{server.metrics}/metrics",
                events=args.events,
                event_rows=args.event_rows,
                clients=args.clients,
                seed=args.seed,
                check=True,
                progress=step,
                on=OnCard(args.platform, args.network_gbps, args.kernel_mhz),
            )
            step("server: SIGTERM, drain")
    from hypersonic.events.picture import show

    show(outcome, args.output)
    return 0


@contextmanager
def served(repository: Path, *options: str, start_timeout_s: float = 300.0, stop_timeout_s: float = 40.0) -> Iterator[Served]:
    """A server on free ports of the loopback interface; SIGTERM on leaving. Raises ServerError."""
    argv = python_argv("-m", "hypersonic.cli", "serve", "--model-repository", str(repository))
    for port in ("grpc", "http", "metrics"):
        argv += [f"--{port}-port", "0", f"--{port}-address", "127.0.0.1"]
    process = subprocess.Popen(
        [*argv, *options], env=python_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    ports: dict[str, str] = {}
    ready = threading.Event()
    reader = threading.Thread(target=_read_log, args=(process.stderr, lines, ports, ready), daemon=True)
    reader.start()
    try:
        if not ready.wait(start_timeout_s) or len(ports) < 3:
            process.kill()
            raise ServerError(f"the server did not start within {start_timeout_s:.0f} s; it said:\n{_tail(lines)}")
        yield Served(ports["GRPCInferenceService"], ports["Metrics Service"])
        process.send_signal(signal.SIGTERM)
        code = process.wait(stop_timeout_s)
        if code:
            raise ServerError(f"the server ended with {code} after SIGTERM, expected 0; it said:\n{_tail(lines)}")
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"the server did not stop within {stop_timeout_s:.0f} s of SIGTERM; it said:\n{_tail(lines)}"
        ) from error
    finally:
        process.kill()
        process.wait()
        reader.join()


def _read_log(stream: IO[str] | None, lines: list[str], ports: dict[str, str], ready: threading.Event) -> None:
    for line in stream or ():
        lines.append(line.rstrip())
        if match := _STARTED.search(line):
            ports[match[1]] = match[2]
        if len(ports) == 3:
            ready.set()
    ready.set()


def _tail(lines: list[str]) -> str:
    return "\n".join(lines[-20:])
