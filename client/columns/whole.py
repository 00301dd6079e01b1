# SPDX-License-Identifier: Apache-2.0
"""Files that appear only when they are complete."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypersonic.client.columns.errors import OutputError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`. It becomes `path` when the block ends, and is removed if the block raises.

    A process that is killed leaves the temporary file, .NAME.part, which the next one for the same path writes again. Two
    processes cannot write the same path: the second one raises OutputError.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        lock = _locked(part, path)
    except OSError as error:
        raise OutputError(f"the output {path} cannot be written: {error.strerror}") from error
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(f"the output {path} cannot be written: {error.strerror or error}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)


def _locked(part: Path, path: Path) -> int:
    """Return a descriptor of the temporary file, which is locked. Raises OSError, OutputError."""
    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
            if part.exists() and os.path.samestat(part.stat(), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise OutputError(f"another process is writing the output {path}") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the other process has just renamed or removed the file: try again


def _lock(descriptor: int) -> None:
    """Lock a file, where its file system has locks. Raises BlockingIOError if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems have no locks
        return
