# SPDX-License-Identifier: Apache-2.0
"""The names, the order and the results of hls4ml's test cases."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

#: words in a case's name or values that name backends other than Vivado and Vitis
_OTHERS = re.compile(r"quartus|oneapi|catapult|libero|vivadoaccelerator|symbolicexpression", re.IGNORECASE)

#: files that are not counted at all, and why
_FILES = {
    "test_extensions.py": "of the Extensions API",
    "test_extensions_pytorch.py": "of the Extensions API",
    "test_sr.py": "of the backend SymbolicExpression",
    "test_fifo_depth.py": "Vivado's cosimulation measures the FIFOs",
    "test_report.py": "reads reports of Vivado",
    "test_weight_writer.py": "reads files, asks for no answers",
    "test_types.py": "asks for no answers",
    "test_qinterval.py": "asks for no answers",
    "test_fetch_example.py": "downloads its model",
    "test_plot_model.py": "draws a picture",
}
#: files for Keras 3, which hls4ml's CI tests in a separate environment; the others are for Keras 2
KERAS_3 = (
    "test_keras_v3_api.py", "test_hgq2_mha.py", "test_einsum_dense.py", "test_qeinsum.py", "test_multiout_onnx.py",
    "test_keras_v3_profiling.py",
)  # fmt: skip

_FOLDERS = {"test_optimization": "of the optimisation API"}


class Kind(Enum):
    """How a case ended. THEIRS: hls4ml's own backend fails too. UNASKED: no model or no answers.
    SLOW: ended at the time limit."""

    EQUAL = "equal"
    REFUSED = "refused"
    CRASHED = "crashed"
    DIFFERENT = "different"
    THEIRS = "theirs"
    UNASKED = "unasked"
    SLOW = "slow"


@dataclass(frozen=True)
class Result:
    """The result of one case. rows: compared. seconds: wall time. cpu_seconds: of all its processes."""

    case: str
    kind: Kind
    words: str
    rows: int
    seconds: float
    cpu_seconds: float

    def to_line(self) -> str:
        """Return the result as a line of JSON."""
        return json.dumps({**asdict(self), "kind": self.kind.value}) + "\n"


def read_results(file: Path) -> list[Result]:
    """Return the results in a file of JSON lines; none if it does not exist. The last one of each case counts."""
    lines = file.read_text().splitlines() if file.is_file() else []
    values = [json.loads(line) for line in lines]
    return list({value["case"]: Result(**{**value, "kind": Kind(value["kind"])}) for value in values}.values())


def words_of(failure: BaseException) -> str:
    """Return an exception's type and message, at most 600 characters. Paths of installed files begin with their package."""
    message = re.sub(r"(?:/[^/\n\"']+)*/site-packages/", "", str(failure))
    return f"{type(failure).__name__}: {' '.join(message.split())}"[:600]


def key_of(nodeid: str) -> str:
    """Return a case's name without its folder, and with one name for both of the backends that ours replaces.

    A case for Vivado and the same case for Vitis are one case here: they differ in nothing else.
    """
    name = nodeid.rpartition("test/pytest/")[2] or nodeid
    return re.sub(r"vivado|vitis", "Vitis", name, flags=re.IGNORECASE)


def file_of(case: str) -> str:
    """Return the name of a case's file."""
    return case.partition("::")[0]


def keras_of(case: str) -> int:
    """Return the version of Keras that a case is for, 2 or 3."""
    return 3 if file_of(case) in KERAS_3 else 2


def place_of(case: str) -> str:
    """Return the key of a fixed pseudo-random order."""
    return hashlib.sha256(case.encode()).hexdigest()


def uncounted(nodeid: str, values: Sequence[str]) -> str:
    """Return why a case is not counted, or "". values: of its parameters, as text."""
    path = file_of(key_of(nodeid))
    if (folder := path.partition("/")[0]) in _FOLDERS:
        return _FOLDERS[folder]
    if path in _FILES:
        return _FILES[path]
    if any(_OTHERS.search(word) for word in (nodeid, *values)):
        return "of another backend"
    return ""
