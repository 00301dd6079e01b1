# SPDX-License-Identifier: Apache-2.0
"""The interfaces of readers and writers, and what they have in common."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from hypersonic.client.columns.chunk import Chunk
from hypersonic.client.columns.errors import DataError, MappingError

#: the name of the metadata in a file: a key of an Arrow schema, an object of a ROOT file, an array of an .npz file
METADATA_KEY = "hypersonic"

#: the default size of a chunk in bytes
CHUNK_BYTES = 64 << 20

#: how many bytes at each end of a file belong to its identity
_END_BYTES = 1 << 16


class Source(Protocol):
    """An input.

    Attributes:
        name: for messages.
        kind: "ttree", "rntuple", "parquet", "arrow", "stream", "npz" or "memory".
        columns: the names as the file has them; a field of a collection of structs is DigiHB_fc0.
        events: None if not known before reading.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    events: int | None

    def chunks(self, columns: Sequence[str], chunk_bytes: int) -> Iterator[Chunk]:
        """Yield all events in their order, about chunk_bytes of them at a time. Raises DataError.

        Args:
            columns: names that find_columns() finds; a chunk's columns have the same names.
        """

    def identity(self) -> str:
        """Return a text that identifies the contents."""

    def close(self) -> None:
        """Close the file."""


class MemorySource:
    """A source in memory: its identity, and nothing to close."""

    kind = "memory"

    def identity(self) -> str:
        """Return the same text for everything in memory, which is not distinguished."""
        return "memory"

    def close(self) -> None:
        """Do nothing."""


class FileSource:
    """A source that is a local file: its identity."""

    _path: Path

    def identity(self) -> str:
        """Return the file's size and a hash of its two ends."""
        return file_identity(self._path)


class Sink(Protocol):
    """An output. Every chunk has the same columns."""

    def write(self, chunk: Chunk) -> None:
        """Append the events of a chunk."""

    def close(self) -> None:
        """Complete the file."""

    def abort(self) -> None:
        """Release what is open; the file is not used."""


def file_identity(path: Path) -> str:
    """Return a file's size and the SHA-256 of its two ends: they hold a ROOT file's UUID and a Parquet file's index.

    A change that keeps the size and both ends is not detected. With the formats that are read here, it only occurs if somebody
    patches a file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(_END_BYTES)
        file.seek(max(0, size - _END_BYTES), os.SEEK_SET)
        ends += file.read(_END_BYTES)
    return f"{size} bytes, sha256 of the ends {hashlib.sha256(ends).hexdigest()}"


def events_per_chunk(events: int, total_bytes: int, chunk_bytes: int) -> int:
    """Return how many events have about chunk_bytes, if all of them have total_bytes."""
    return max(1, min(events, int(chunk_bytes * events / max(total_bytes, 1))))


def plain_name(name: str) -> str:
    """Return the name with an underscore for each character that is not a letter, a digit or an underscore."""
    return re.sub(r"\W", "_", name)


def own_name(name: str) -> str:
    """Return a branch's own name: MCParticles.PDG for MCParticles/MCParticles.PDG."""
    return name.rpartition("/")[2]


def find_columns(names: Sequence[str], columns: Collection[str], file: str) -> dict[str, str]:
    """Return the names that a source has, with the source's columns that they mean.

    A name means the column of exactly this name; otherwise that of this own_name(); otherwise the one whose name, and then
    whose own name, has the same plain_name().

    Raises MappingError for a name that means several columns.

    Args:
        file: for messages.
    """
    found: dict[str, str] = {}
    for spelt, asked in _SPELLINGS:
        if len(found) == len(names):
            break
        alike: dict[str, list[str]] = {}
        for column in columns:
            alike.setdefault(spelt(column), []).append(column)
        for name in names:
            several = alike.get(asked(name), [])
            several = [column for column in several if column[:1] != "n" or column[1:] not in several]  # no counters of them
            if name not in found and len(several) > 1:
                raise MappingError(
                    f"{file} has the columns {' and '.join(several[:3])} for the name {name}; name one of them exactly"
                )
            if several:
                found.setdefault(name, several[0])
    return found


#: how a column is spelt, and how a name is, in the order in which they are compared
_SPELLINGS: tuple[tuple[Callable[[str], str], Callable[[str], str]], ...] = (
    (str, str), (own_name, str), (plain_name, plain_name), (lambda column: plain_name(own_name(column)), plain_name),
)  # fmt: skip


@contextmanager
def reading(where: Callable[[], str], errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise DataError for what a library raises while it reads a file.

    Args:
        where: names the file, and the place in it.
    """
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{where()}: there is no such file") from error
    except errors as error:
        raise _unreadable(where(), error) from error


def _unreadable(name: str, error: Exception) -> DataError:
    words = " ".join(str(error).split())
    short = words if len(words) <= 300 else f"{words[:300]}..."
    return DataError(
        f"{name} cannot be read: {type(error).__name__}: {short}; is it complete, and of the kind that its name says?"
    )
