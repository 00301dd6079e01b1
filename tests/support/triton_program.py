# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tritonserver with the fpga backend as a separate process, started by `hypersonic triton serve`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hypersonic.triton.errors import TritonServerNotFoundError
from hypersonic.triton.program import find_tritonserver
from tests.support.environments import skip_offline
from tests.support.ports import free_ports
from tests.support.server_program import Program

_REPOSITORY = "--model-repository="
#: another process may take a port between its choice and the server's start
_ATTEMPTS = 5


@contextmanager
def triton_program(*options: str, environment: Mapping[str, str] | None = None, given: Path | None = None) -> Iterator[Program]:
    """As server_program.program(), for options that both servers have. Skips the test where there is no tritonserver.

    given: the program, if not the default one.
    """
    try:
        find_tritonserver(given)
    except TritonServerNotFoundError as error:
        skip_offline(str(error))
        raise
    for attempt in range(_ATTEMPTS):
        with _started(options, environment or {}, given) as running:
            if len(running.ports) == 3 or attempt == _ATTEMPTS - 1 or "already in use" not in running.log:
                assert len(running.ports) == 3, running.log
                yield running
                return


@contextmanager
def _started(options: tuple[str, ...], environment: Mapping[str, str], given: Path | None) -> Iterator[Program]:
    (repository,) = (option.removeprefix(_REPOSITORY) for option in options if option.startswith(_REPOSITORY))
    argv = [sys.executable, "-m", "hypersonic.cli", "triton", "serve", "--quiet", "--model-repository", repository]
    argv += [*(["--tritonserver", str(given)] if given else []), "--"]
    argv += [option for option in options if not option.startswith(_REPOSITORY)]
    for name, port in zip(("grpc", "http", "metrics"), free_ports(3), strict=True):
        argv += [f"--{name}-port={port}", f"--{name}-address=127.0.0.1"]
    argv += ["--exit-timeout-secs=10", "--allow-gpu-metrics=false"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}) as process:
        running = Program(process)
        reader = threading.Thread(target=running.read)
        reader.start()
        try:
            running.wait_for(lambda: len(running.ports) == 3 or process.poll() is not None)
            yield running
        finally:
            process.kill()
            reader.join()
