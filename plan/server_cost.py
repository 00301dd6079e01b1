# SPDX-License-Identifier: Apache-2.0
"""The processor time that a server takes for a request, as measured, for both servers that serve a repository.

A request costs more with its bytes, and not in proportion: between two measured sizes the time follows a straight line.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random

from hypersonic.plan.farm.service import Sampler

#: prints the figures
COMMAND = "python -m bench.triton_cost"


@dataclass(frozen=True)
class Measured:
    """A line of COMMAND, with 16 requests in flight.

    Attributes:
        request_bytes: of the inputs.
        python_us: its column `hypersonic`.
        triton_us: its column `fpga`.
    """

    request_bytes: int
    python_us: float
    triton_us: float


#: by rising bytes. To measure again, write the new figures here; the examples in docs/plan.md follow from them
MEASURED = (
    Measured(64, 554.0, 105.0),
    Measured(176_000, 1038.0, 289.0),
    Measured(1_152_000, 1652.0, 850.0),
    Measured(2_176_000, 2235.0, 1496.0),
)

#: `hypersonic serve`, and NVIDIA's tritonserver with the fpga backend
PYTHON, TRITON = "python", "triton"
SERVERS = (PYTHON, TRITON)
#: time for which a request of `hypersonic serve` holds the interpreter's lock at least, one request at a time; assumed
LOCK_S = 130e-6


@dataclass(frozen=True)
class RequestCpu:
    """The time for which a core works on a request, as a service time.

    Attributes:
        server: one of SERVERS.
        row_bytes: of a row's inputs.
    """

    server: str
    row_bytes: int

    def mean_s(self, rows: int) -> float:
        """Return the time for a request of so many rows."""
        size = rows * self.row_bytes
        sizes = [line.request_bytes for line in MEASURED]
        after = min(max(1, bisect_right(sizes, size)), len(sizes) - 1)
        (low, low_us), (high, high_us) = ((sizes[at], self._us(MEASURED[at])) for at in (after - 1, after))
        return 1e-6 * (low_us + (high_us - low_us) * (max(size, sizes[0]) - low) / (high - low))

    def _us(self, line: Measured) -> float:
        return line.python_us if self.server == PYTHON else line.triton_us

    @property
    def cv2(self) -> float:
        """No variation."""
        return 0.0

    def sampler(self, random: Random) -> Sampler:  # noqa: ARG002 - the protocol's
        """Return a function that computes the time."""
        return self.mean_s
