# SPDX-License-Identifier: Apache-2.0
"""The limit of file descriptors: each connection takes one, and a thousand clients may connect at once."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

_LOG = logging.getLogger(__name__)
#: more descriptors only cost memory for their table
_ENOUGH = 1 << 20
#: fewer descriptors are worth a warning
_FEW = 4096


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open; about a million if the number is unlimited."""
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _ENOUGH if now == resource.RLIM_INFINITY else now


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit to the hard one, which every program may do. Returns the new limit.

    Logs a warning for fewer than 4096: beyond the limit, new connections wait until others are closed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    now = descriptor_limit()
    if now < _FEW:
        _LOG.warning(
            "this process may have only %d open files, and each connection takes one: raise the hard limit with 'ulimit -Hn', "
            "LimitNOFILE= of systemd or --ulimit nofile= of docker",
            now,
        )
    return now
