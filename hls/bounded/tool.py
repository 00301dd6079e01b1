# SPDX-License-Identifier: Apache-2.0
"""Starts an external tool under a memory limit. Every tool that a build starts is started here.

A thread measures every tenth of a second what the tool and all of its descendants hold together, so that the compilers of a
`make -j` share the limit, and ends all of them when they exceed it. The kernel would enforce an address space limit (RLIMIT_AS)
only for each process separately, and TensorFlow and WebAssembly reserve many times what they use.

Tools have a process group of their own. Ctrl-C reaches this process, which then ends the group and those below it. Time has no
limit, because some builds take hours.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from hypersonic.hls.bounded.memory import VARIABLE, in_words, limit_bytes
from hypersonic.hls.bounded.processes import NOTHING, Held, Process, end, family, find, held, kill
from hypersonic.hls.disk import full_place
from hypersonic.hls.errors import DiskFullError, ToolMemoryError

#: what to do about a tool that needs too much memory
WAY_OUT = (
    "let the network compute in pieces: hls4ml's io_type io_stream, or Strategy Resource with a ReuseFactor (--core rf); or "
    "run its C++ with --target sw_emu; or allow more with --memory"
)

#: options of `start` for output that is read as it comes
PIPED: dict[str, Any] = {
    "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"
}  # fmt: skip

#: seconds between measurements, and the smallest ratio of this pause to the duration of a measurement
_PERIOD_S, _RARER = 0.1, 20

#: If memory runs out, the kernel kills a tool rather than this process, which can then report it (/proc/PID/oom_score_adj).
_FIRST_TO_GO = "500"

#: what tools print when they, or a child of theirs, got no memory
_STARVED = re.compile(
    r"Killed signal terminated program|\bKilled\b.*\bcc1plus|std::bad_alloc|[Oo]ut of memory|virtual memory exhausted|"
    r"Cannot allocate memory|^MemoryError",
    re.MULTILINE,
)


@dataclass
class Watched:
    """A tool that runs.

    Attributes:
        limit: bytes, None without a limit.
        peak: the most that was measured.
        over: what broke the limit.
    """

    process: subprocess.Popen[Any]
    limit: int | None
    peak: Held = NOTHING
    over: Held | None = None


@dataclass(frozen=True)
class Done:
    """A tool that ended.

    Attributes:
        code: its exit code, or minus a signal.
        output, errors: what it printed.
        peak_bytes: see Watched.
    """

    code: int
    output: str
    errors: str
    peak_bytes: int


def run(
    argv: Sequence[str], what: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, apart: bool = False
) -> Done:
    """Run a tool until it ends, and return its exit code and output.

    Args:
        what: the tool and its work, for messages.
        apart: keep standard error apart from the output.

    Raises:
        ToolMemoryError: When it needs more memory than its limit, or when the system had none left.
        DiskFullError: When it found no space on a disk.
    """
    with start(argv, what, cwd=cwd, env=env, **PIPED | ({"stderr": subprocess.PIPE} if apart else {})) as tool:
        output, errors = tool.process.communicate()
    check(tool, what, f"{output}\n{errors or ''}", cwd or Path())
    return Done(tool.process.returncode, output, errors or "", tool.peak.size_bytes)


@contextmanager
def start(argv: Sequence[str], what: str, **options: Any) -> Iterator[Watched]:
    """Start a tool, and wait for its end at the end of the context.

    When the body raises, Ctrl-C included, the tool and its descendants are ended.

    Args:
        options: those of subprocess.Popen.

    Raises:
        ToolMemoryError: When the tool needs more memory than its limit; the limit is computed now, from what is available now.
    """
    limit = limit_bytes()
    process = subprocess.Popen(argv, process_group=0, **options)
    root = find(process.pid)
    with watching(process, what, limit) as tool:
        try:
            yield tool
            process.wait()
        except BaseException:
            if root:
                end(root)
            process.wait()
            raise
        finally:
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                with suppress(OSError):  # such as a pipe that nobody reads
                    stream.close()


@contextmanager
def watching(process: subprocess.Popen[Any], what: str, limit: int | None) -> Iterator[Watched]:
    """Watch a tool that the caller has started as the leader of a process group, and that ends in the context.

    Raises ToolMemoryError, instead of the body's error if there is one, when the tool needed more memory than the limit.
    """
    tool, ended, root = Watched(process, limit), threading.Event(), find(process.pid)
    watcher = threading.Thread(target=_watch, args=(tool, root, ended), name="hypersonic-memory", daemon=True)
    watcher.start()
    try:
        yield tool
    except Exception as error:
        if tool.over:
            raise ToolMemoryError(_over(tool, what)) from error
        raise
    finally:
        ended.set()
        watcher.join()
    if tool.over:
        raise ToolMemoryError(_over(tool, what))


def _watch(tool: Watched, root: Process | None, ended: threading.Event) -> None:
    if root is None:  # it has ended, or the system has no /proc
        return
    with suppress(OSError):
        Path(f"/proc/{root.pid}/oom_score_adj").write_text(_FIRST_TO_GO)
    pause, seconds = _PERIOD_S, 0.0
    while not ended.wait(pause):
        begin = time.monotonic()
        now = held(family(root))
        # A child that is being started shares its parent's memory for a moment, so a second measurement decides.
        if tool.limit is not None and now.size_bytes > tool.limit and held(family(root)).size_bytes > tool.limit:
            tool.over = now
            kill(root)
            return
        if now.size_bytes > tool.peak.size_bytes:
            tool.peak = now
        seconds = time.monotonic() - begin
        pause = max(_PERIOD_S, _RARER * seconds)


def _over(tool: Watched, what: str) -> str:
    assert tool.over
    assert tool.limit is not None
    of = f", of which {tool.over.largest} held {in_words(tool.over.largest_bytes)}" if tool.over.largest else ""
    return (
        f"{what} needs more memory than its limit: it was ended at {in_words(tool.over.size_bytes)}{of}; the limit is "
        f"{in_words(tool.limit)} ({VARIABLE} or --memory); {WAY_OUT}"
    )


def check(tool: Watched, what: str, output: str, directory: Path) -> None:
    """Check whether a tool that failed, or a child of it, got no memory or no space.

    Args:
        output: what it printed.
        directory: where it wrote.

    Raises:
        ToolMemoryError: If it was killed without our limit, or got no memory.
        DiskFullError: If it found no space on a disk.
    """
    code = tool.process.returncode
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    if code and (killed or _STARVED.search(output)):
        raise ToolMemoryError(
            f"{what} was killed by the system, which had no memory left; it held {in_words(tool.peak.size_bytes)} or more; "
            f"{WAY_OUT.partition('; or allow')[0]}; or build on a machine with more memory"
        )
    if code and (place := full_place(output, directory, Path(gettempdir()))):
        raise DiskFullError(
            f"{what} found no space left on the disk of {place}; free some, or choose directories with more: HYPERSONIC_CACHE "
            "for builds, TMPDIR for temporary files"
        )
