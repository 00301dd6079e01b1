# SPDX-License-Identifier: Apache-2.0
"""The exceptions of columnar data. All are ClientErrors, and each message is one sentence that names the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hypersonic.client.errors import ClientError
from hypersonic.installing import pip_install


class MappingError(ClientError, ValueError):
    """A column mapping is not valid, or does not fit the model or the file."""


class DataError(ClientError, ValueError):
    """An input cannot be read, or its data cannot be sent. The message names the file, the column and the event."""


class OutputError(ClientError):
    """An output cannot be written, or would replace a file that is something else."""


class EventsError(ClientError):
    """The servers did not answer for some events. The message names the file, the events and the server."""


def needs(what: str, error: ModuleNotFoundError) -> str:
    """Return the message for a package of the extra `columnar` that is not installed.

    Args:
        what: what needs it.
    """
    return (
        f"{what} needs the package {error.name}, which is not installed: {pip_install('columnar')}, then run the command again"
    )


def suggest(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return the end of a message about an unknown name: the known names that are near it, or some of them."""
    known = list(known)
    if near := difflib.get_close_matches(name, known, most, 0.6):
        return f"did you mean {' or '.join(near)}?"
    if not known:
        return "it has none"
    shown = ", ".join(known[:12])
    return f"it has {shown}" + (f" and {len(known) - 12} more" if len(known) > 12 else "")
