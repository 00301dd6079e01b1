# SPDX-License-Identifier: Apache-2.0
"""The server's log on standard error, one line a record, laid out as Triton's.

    I1121 09:28:00.054 7695 app] Started GRPCInferenceService at 0.0.0.0:8001

What came from a client cannot forge a line: control characters are escaped.
"""

from __future__ import annotations

import logging
import sys

_FORMAT = "%(levelname).1s%(asctime)s.%(msecs)03d %(process)d %(module)s] %(message)s"


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def configure(*, verbose: int, info: bool, warning: bool, error: bool) -> None:
    """Attach standard error to this package's loggers; a level that is off takes those below it along."""
    levels = ((verbose > 0, logging.DEBUG), (info, logging.INFO), (warning, logging.WARNING), (error, logging.ERROR))
    level = next((level for on, level in levels if on), logging.CRITICAL)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(_FORMAT, datefmt="%m%d %H:%M:%S"))
    logger = logging.getLogger("hypersonic")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
