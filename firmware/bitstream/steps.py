# SPDX-License-Identifier: Apache-2.0
"""One call of a vendor's tool, and running a row of them so that an interrupted build goes on where it stopped.

A build has a directory of its own, named by the hash of all that goes into it. In it each step has a stamp, written when its
products are in place; a step whose stamp fits its inputs is not run again. A tool writes its product under a name that
nobody looks for, and the product is renamed when the tool ended well, so half a product is never taken for one.

    <build>/<step>.log     what the tool said
    <build>/<step>.json    the stamp: the hash of the inputs, and of each product
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hypersonic.firmware.bitstream.errors import StepError
from hypersonic.hls.cache import content_hash

Progress = Callable[[str], None]

MAX_STAMP_BYTES = 1 << 20

#: lines of a tool that are kept for the message of its failure, and how long one may be
_KEPT_LINES, _LINE_BYTES = 400, 4096
_SHOWN_ERRORS, _SHOWN_LINES = 3, 8
_STOP_TIMEOUT_S = 20
#: how often a silent tool is looked at
_LOOK_S = 2

#: v++ tells its stages as `[13:31:18] Starting bitstream generation..`
_STAGE = re.compile(r"\[\d\d:\d\d:\d\d\] (\S.*)")

#: what the tools say when the fault is not in the kernel -> what to do; sources: the vendor's message ids
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
    """A file the step makes: where the tool leaves it, where it belongs. Both relative to the build's directory."""

    made: str
    kept: str


@dataclass(frozen=True)
class Step:
    """One call of a tool. All paths are relative to the build's directory, which is also where the tool runs.

    argv: what is run, the program's path first. inputs: the files that decide the result; with `key` (releases, and whatever
    else decides) and the arguments they are what the stamp holds. tee: a product's `made` that is what the tool prints.
    leaves: a directory the tool keeps for a later step; without it the step is not done.
    """

    name: str
    title: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    products: tuple[Product, ...]
    key: tuple[str, ...] = ()
    tee: str = ""
    leaves: str = ""

    def log(self, build: Path) -> Path:
        return build / f"{self.name}.log"

    def stamp(self, build: Path) -> Path:
        return build / f"{self.name}.json"


@contextmanager
def locked(build: Path) -> Iterator[None]:
    """The build's directory (made when it is not there) for this process alone. Raises StepError when another one has it."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StepError(f"another build runs in {build}: wait for it, or stop it") from error
        yield


def run_steps(steps: Sequence[Step], build: Path, progress: Progress = lambda _: None) -> None:
    """Run what follows the last step that is done, in order. The caller holds the directory (locked).

    A step that is done stands for those before it, whose products it was made of. Raises StepError for the first that fails.
    """
    for step in pending(steps, build):
        run_step(step, build, progress)


def pending(steps: Sequence[Step], build: Path) -> Sequence[Step]:
    """What run_steps has to run."""
    done = [number for number, step in enumerate(steps) if is_done(step, build)]
    return steps[max(done, default=-1) + 1 :]


def is_done(step: Step, build: Path) -> bool:
    """Whether the stamp is of these inputs and each product is the one that was stamped."""
    if step.leaves and not (build / step.leaves).is_dir():
        return False
    with suppress(OSError, ValueError, AttributeError):
        with step.stamp(build).open("rb") as file:
            stamp: dict[str, Any] = json.loads(file.read(MAX_STAMP_BYTES))
        products = {product.kept: _digest(build / product.kept) for product in step.products}
        return bool(stamp.get("inputs") == _inputs_hash(step, build) and stamp.get("products") == products)
    return False


def run_step(step: Step, build: Path, progress: Progress = lambda _: None) -> None:
    """Run the tool to its end, put its products in place, and stamp them. Raises StepError."""
    progress(f"{step.title} (log: {step.log(build)})")
    inputs = _inputs_hash(step, build)
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
    """Each product renamed to where it belongs, with its hash. Raises StepError for one that is missing or empty."""
    for product in step.products:
        file = build / product.made
        if not file.is_file() or not file.stat().st_size:
            raise StepError(_failure(step, build, f"ended well, but left no {product.made}", lines))
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


def write_whole(file: Path, text: str) -> None:
    """Write a file so that nobody ever sees a part of it."""
    scratch = file.with_name(f".{file.name}.partial")
    with scratch.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def _call(step: Step, build: Path, progress: Progress) -> tuple[int, list[str]]:
    """The exit code and the last lines. The tool and its children are ended when this process is interrupted."""
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
        try:
            _follow(process, sinks, lines, progress)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        except BaseException:  # Ctrl-C: nobody would read what it goes on to write
            _ask_to_end(process)
            raise
        finally:
            _end(process)
    return process.returncode, list(lines)


def _follow(process: subprocess.Popen[bytes], sinks: Sequence[IO[bytes]], lines: deque[str], progress: Progress) -> None:
    """Every byte to the sinks as it comes; stages to `progress`; the last lines are kept, cut to _LINE_BYTES.

    Ends when the tool closes its output, or has ended itself and left it to a child that is silent.
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
    """SIGTERM to the tool and its children, and until _STOP_TIMEOUT_S for them to close the pipe they write to."""
    os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while process.stdout and select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(process.stdout.fileno(), 1 << 16):
            break


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the tool's group: Vivado starts children that outlive it. Its leader is reaped only then, so that
    the number cannot have become another group's.
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
    """One paragraph: what failed, why as far as is known, the tool's first errors, where the rest is, how to go on."""
    text = "\n".join(lines)
    advice = [advice for pattern, advice in EXPLANATIONS if re.search(pattern, text)][:1]
    errors = [line for line in lines if line.startswith(("ERROR", "CRITICAL WARNING: [Common 17-34"))][:_SHOWN_ERRORS]
    message = " | ".join(_printable(line) for line in errors or [line for line in lines if line.strip()][-_SHOWN_LINES:])
    return (
        f"{step.title}: {Path(step.argv[0]).name} {how}{': ' + advice[0] if advice else ''}; it said: {message or 'nothing'}; "
        f"the whole log is {step.log(build)}; the same command goes on from here, and afresh when {build} is removed"
    )
