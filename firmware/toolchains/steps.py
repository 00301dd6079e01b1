# SPDX-License-Identifier: Apache-2.0
"""The steps of a build, each one call of a vendor's tool, run so that an interrupted build continues where it stopped.

A build has a directory of its own, named by the hash of everything that goes into it. Each step has a stamp there, written when
its products are in place; a step whose stamp matches its inputs is not run again. A tool writes its product under a temporary
name, and the product is renamed when the tool has succeeded, so that a partial product is never used.

::

    <build>/<step>.log     the tool's output
    <build>/<step>.json    the stamp: the hash of the inputs, and of each product
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hypersonic.firmware.toolchains.errors import StepError
from hypersonic.hls.bounded import tool
from hypersonic.hls.bounded.memory import limit_bytes
from hypersonic.hls.cache import content_hash

Progress = Callable[[str], None]

MAX_STAMP_BYTES = 1 << 20

#: the number of a tool's last lines that are kept for an error message, and the length to which each is cut
_KEPT_LINES, _LINE_BYTES = 400, 4096
_SHOWN_ERRORS, _SHOWN_LINES = 3, 8
_STOP_TIMEOUT_S = 20
#: polling interval, in seconds, at which a silent tool is checked for having ended
_LOOK_S = 2

#: v++ reports its stages as `[13:31:18] Starting bitstream generation..`
_STAGE = re.compile(r"\[\d\d:\d\d:\d\d\] (\S.*)")

#: the tools' messages when the fault is not in the kernel -> advice; source: the vendor's message ids
EXPLANATIONS = (
    (r"\[Common 17-34[58]\]|valid license was not found|[Ff]ailed to get the license",
     "there is no licence for this device: set XILINXD_LICENSE_FILE, or check it with the Vivado License Manager"),
    (r"\[v\+\+ 60-(1258|587)\]|No valid platform was found", "v++ does not take the platform: reinstall it"),
    (r"\[VPL 101-2\]|\[VPL-4\]|design did not meet timing",
     "a clock that cannot be lowered misses its timing: ask for fewer compute units or a lower --kernel-mhz"),
    (r"\[Place 30-640\]|\[DRC UTLZ-1\]|requires more .* than are available",
     "the design does not fit: ask for fewer compute units, or quantise or prune the model"),
    (r"[Nn]o space left on device", "the disk is full: make room and run the same command again"),
    (r"Cannot allocate memory|std::bad_alloc|[Oo]ut of memory",
     "the machine's memory is too small for place and route of this device: 64 GiB and more are usual"),
    (r"\[Coretcl 2-106\]|[Ss]pecified part could not be found|\[Project 1-\d+\].*part .*not",
     "this Vivado was installed without the device: add it with the installer"),
)  # fmt: skip


@dataclass(frozen=True)
class Product:
    """A file that a step makes. Both paths are relative to the build's directory."""

    made: str  # where the tool writes it
    kept: str  # where it is moved when the tool has succeeded


@dataclass(frozen=True)
class Step:
    """One call of a tool. All paths are relative to the build's directory, in which the tool runs.

    Attributes:
        argv: the command, beginning with the program's path.
        inputs: the files that determine the result; the stamp holds the hash of them, of the arguments and of `key`, which has
            the releases and anything else that determines the result.
        tee: the `made` of a product that consists of the tool's output.
        leaves: a directory that the tool leaves for a later step; the step does not count as done without it.
        clears: directories that are removed before the tool runs, so that nothing in them is from an earlier run.
    """

    name: str
    title: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    products: tuple[Product, ...]
    key: tuple[str, ...] = ()
    tee: str = ""
    leaves: str = ""
    clears: tuple[str, ...] = ()

    def log(self, build: Path) -> Path:
        """The file with the tool's output; a repeated step appends to it."""
        return build / f"{self.name}.log"

    def stamp(self, build: Path) -> Path:
        """The JSON file with the hash of the inputs, and of each product."""
        return build / f"{self.name}.json"


@contextmanager
def locked(build: Path) -> Iterator[None]:
    """Lock the build's directory for this process; it is created if it does not exist. Raises StepError when another process
    has locked it."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StepError(f"another build runs in {build}: wait for it, or stop it") from error
        yield


def run_steps(steps: Sequence[Step], build: Path, progress: Progress = lambda _: None) -> None:
    """Run the steps after the last one that is done, in order. The caller has locked the directory.

    When a step is done, those before it count as done too, because it was made from their products. Raises StepError for the
    first step that fails.
    """
    for step in pending(steps, build):
        run_step(step, build, progress)


def pending(steps: Sequence[Step], build: Path) -> Sequence[Step]:
    """The steps after the last one that is done, which run_steps runs."""
    done = [number for number, step in enumerate(steps) if is_done(step, build)]
    return steps[max(done, default=-1) + 1 :]


def is_done(step: Step, build: Path) -> bool:
    """True if the step's stamp matches its inputs, and each product is the one that was stamped."""
    if step.leaves and not (build / step.leaves).is_dir():
        return False
    with suppress(OSError, ValueError, AttributeError):
        with step.stamp(build).open("rb") as file:
            stamp: dict[str, Any] = json.loads(file.read(MAX_STAMP_BYTES))
        products = {product.kept: _digest(build / product.kept) for product in step.products}
        return bool(stamp.get("inputs") == _inputs_hash(step, build) and stamp.get("products") == products)
    return False


def run_step(step: Step, build: Path, progress: Progress = lambda _: None) -> None:
    """Run a tool to its end, move its products into place, and write the stamp. Raises StepError when the tool fails or a
    product is missing, and ToolMemoryError when it needs more memory than its limit."""
    progress(f"{step.title} (log: {step.log(build)})")
    inputs = _inputs_hash(step, build)
    for directory in step.clears:
        shutil.rmtree(build / directory, ignore_errors=True)
    for product in step.products:
        (build / product.made).parent.mkdir(parents=True, exist_ok=True)
        (build / product.made).unlink(missing_ok=True)
    code, lines = _call(step, build, progress)
    if code:
        raise StepError(_failure(step, build, _ending(code), lines))
    stamp = {"inputs": inputs, "products": _keep_products(step, build, lines)}
    write_whole(step.stamp(build), json.dumps(stamp, indent=1))


def _inputs_hash(step: Step, build: Path) -> str:
    parts: list[str | bytes | Path] = [*step.key, *step.argv[1:], *(build / name for name in step.inputs)]
    return content_hash(parts)


def _keep_products(step: Step, build: Path, lines: Sequence[str]) -> dict[str, str]:
    """Move each product into place, and return its hash. Raises StepError for a product that is missing or empty."""
    for product in step.products:
        file = build / product.made
        if not file.is_file() or not file.stat().st_size:
            raise StepError(_failure(step, build, f"succeeded, but wrote no {product.made}", lines))
    kept = {}
    for product in step.products:
        target = build / product.kept
        target.parent.mkdir(parents=True, exist_ok=True)
        (build / product.made).replace(target)
        kept[product.kept] = _digest(target)
    return kept


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file atomically: it is flushed to the disk under another name and then renamed."""
    scratch = file.with_name(f".{file.name}.partial")
    with scratch.open("wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def _call(step: Step, build: Path, progress: Progress) -> tuple[int, list[str]]:
    """Run the tool, and return its exit code and its last lines. If this process is interrupted, it stops the tool and the
    tool's children."""
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with ExitStack() as files:
        log = files.enter_context(step.log(build).open("ab"))
        log.write(f"\n# {' '.join(step.argv)}\n".encode())
        sinks = [log, *([files.enter_context((build / step.tee).open("wb"))] if step.tee else [])]
        try:
            process = subprocess.Popen(
                step.argv, cwd=build, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise StepError(f"{step.title}: {step.argv[0]} does not start: {error.strerror}") from error
        with tool.watching(process, f"{step.title}: {Path(step.argv[0]).name}", limit_bytes()):
            try:
                _follow(process, sinks, lines, progress)
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            except BaseException:  # such as Ctrl-C: the tool must not go on without this process
                _ask_to_end(process)
                raise
            finally:
                _end(process)
    return process.returncode, list(lines)


def _follow(process: subprocess.Popen[bytes], sinks: Sequence[IO[bytes]], lines: deque[str], progress: Progress) -> None:
    """Copy the tool's output to the sinks as it is written, report its stages to `progress`, and keep the last lines.

    Returns when the tool closes its output, or has ended while a silent child of it still holds the output open.
    """
    output, rest = process.stdout, b""
    while output:
        if not select.select([output], [], [], _LOOK_S)[0]:
            if _has_ended(process):
                break
            continue
        if not (data := os.read(output.fileno(), 1 << 16)):
            break
        for sink in sinks:
            sink.write(data)
            sink.flush()
        *whole, rest = (rest + data).split(b"\n")
        rest = rest[:_LINE_BYTES]
        for line in whole:
            _take(line, lines, progress)
    _take(rest, lines, progress)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _take(data: bytes, lines: deque[str], progress: Progress) -> None:
    line = data[:_LINE_BYTES].decode(errors="replace").rstrip()
    lines.append(line)
    if match := _STAGE.match(line):
        progress(_printable(match[1]))


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:200]


def _ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the tool and its children, and wait up to _STOP_TIMEOUT_S for them to close their output."""
    os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while process.stdout and select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(process.stdout.fileno(), 1 << 16):
            break


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the tool's process group: Vivado starts children that outlive it. The group's leader is reaped only
    afterwards, so that its number cannot have been given to another group.
    """
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


def _ending(code: int) -> str:
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "was killed, as the system does when memory runs out"
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _failure(step: Step, build: Path, how: str, lines: Sequence[str]) -> str:
    """The error text: what failed, the cause if known, the tool's first errors, the path of its log and how to continue."""
    text = "\n".join(lines)
    advice = [advice for pattern, advice in EXPLANATIONS if re.search(pattern, text)][:1]
    errors = [line for line in lines if line.startswith(("ERROR", "CRITICAL WARNING: [Common 17-34"))][:_SHOWN_ERRORS]
    message = " | ".join(_printable(line) for line in errors or [line for line in lines if line.strip()][-_SHOWN_LINES:])
    return (
        f"{step.title}: {Path(step.argv[0]).name} {how}{': ' + advice[0] if advice else ''}; it said: {message or 'nothing'}; "
        f"the whole log is {step.log(build)}; the same command continues from here, or from the start if {build} is removed"
    )
