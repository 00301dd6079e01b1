# SPDX-License-Identifier: Apache-2.0
"""Removes what must not leave the machine from texts: values of environment variables, names of hosts and users, keys."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

REMOVED = "[removed]"

#: directories of the system, whose names in a variable tell nothing
_SYSTEM = ("/opt/", "/usr/", "/lib/", "/lib64/", "/etc/", "/bin", "/sbin")
#: a shorter value, such as 1 or C, would remove words that have nothing to do with it
_SHORTEST = 6

_KEYS = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_NAME = re.compile(r"password|passwd|secret|token|api[_-]?key|access[_-]?key|authorization", re.IGNORECASE)
_NAMED = re.compile(rf"(\b[\w-]*(?:{_NAME.pattern})[\w-]*\"?\s*[:=]\s*)\S.*", re.IGNORECASE)
_HOMES = re.compile(r"/(?:home|users)/[^/\s\"':]+", re.IGNORECASE)


def secrets_of(environment: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """The values that are removed wherever they are, and the names that are removed where they are a whole word."""
    values = {value for value in environment.values() if len(value) >= _SHORTEST and not value.startswith(_SYSTEM)}
    names = {socket.gethostname(), socket.getfqdn()}
    names |= {environment[name] for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "SUDO_USER") if environment.get(name)}
    with suppress(OSError, KeyError):  # a container's user may have no name
        names.add(getpass.getuser())
    names |= {name.partition(".")[0] for name in names}
    values |= {str(Path.cwd()), str(Path.home())}
    return frozenset(value for value in values if len(value) > 1), frozenset(
        name for name in names if name and name != "localhost"
    )


def cleaner(environment: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Return a function that removes secrets from a text."""
    values, names = secrets_of(environment)
    patterns = [re.escape(value) for value in sorted(values, key=len, reverse=True)]
    patterns += [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(names, key=len, reverse=True)]
    known = re.compile("|".join(patterns) or r"(?!)")

    def clean(text: str) -> str:
        text = _NAMED.sub(rf"\1{REMOVED}", _KEYS.sub(REMOVED, text))
        return _HOMES.sub(f"/home/{REMOVED}", known.sub(REMOVED, text))

    return clean


def clean_data(value: Any, clean: Callable[[str], str]) -> Any:
    """Remove secrets from the texts of a value for JSON."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        pairs = ((str(key), item) for key, item in value.items())
        return {clean(key): REMOVED if _NAME.search(key) else clean_data(item, clean) for key, item in pairs}
    return [clean_data(item, clean) for item in value] if isinstance(value, list | tuple) else value
