# SPDX-License-Identifier: Apache-2.0
"""The two servers that serve a repository of fpga models: hypersonic's own, and NVIDIA's tritonserver with the fpga backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.support.server_program import Program, program
from tests.support.triton_program import triton_program

#: start(*options, environment={}): a running server
Start = Callable[..., AbstractContextManager[Program]]
STARTS: dict[str, Start] = {"hypersonic": program, "tritonserver": triton_program}
