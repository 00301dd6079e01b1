# SPDX-License-Identifier: Apache-2.0
"""The expected answers of a served model: the integers of its csim, cached by content."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.client.specs import ModelSpec
from hypersonic.events.sending import Tensors
from hypersonic.hls.cache import cached
from hypersonic.hls.csim.compiled import Csim
from hypersonic.hls.project import HlsProject
from hypersonic.hls.row import Row
from hypersonic.hls.spec import SpecMismatchError, TensorSpec

#: rows per call of csim in a thread
_CHUNK_ROWS = 1024


class WrongAnswerError(RuntimeError):
    """The server's answers are not csim's integers. The message says how many differ, and which is the first."""

    exit_code = 1


@dataclass(frozen=True)
class Golden:
    """A model's compiled C++.

    Attributes:
        inputs, outputs: with the server's datatypes, which may differ from the YAML's.
    """

    project: HlsProject
    library: Path
    inputs: Row
    outputs: Row

    def travelling(self, inputs: Sequence[NDArray[Any]]) -> Tensors:
        """Convert rows from the YAML's datatypes to the server's: (rows, size) for each input."""
        own = zip(self.project.inputs.tensors, self.inputs.tensors, inputs, strict=True)
        return tuple(
            travels.decode(travels.encode(x)) if travels.datatype == described.datatype else travels.quantise(described.real(x))
            for described, travels, x in own
        )

    def real(self, answers: Tensors) -> tuple[NDArray[np.float64], ...]:
        """Convert answers from the server's datatypes to numbers: (rows, size) float64 for each output."""
        pairs = zip(self.outputs.tensors, answers, strict=True)
        return tuple(np.asarray(tensor.real(y), np.float64).reshape(-1, tensor.size) for tensor, y in pairs)

    def compare(self, inputs: Tensors, answers: Tensors) -> int:
        """Compare the server's answers with csim's, bit for bit; return the number of equal answers, which is all of them.

        Args:
            inputs, answers: wire numbers, one array for each input and each output.

        Raises:
            WrongAnswerError: If any differs.
        """
        expected = self.outputs.from_raw(golden_integers(self.project, self.library, self.inputs.to_raw(inputs)))
        for tensor, got, wanted in zip(self.outputs.tensors, answers, expected, strict=True):
            self._compare(tensor, got.reshape(-1, tensor.size), wanted)
        return sum(part.size for part in expected)

    def _compare(self, tensor: TensorSpec, got: NDArray[Any], expected: NDArray[Any]) -> None:
        if got.shape != expected.shape:
            raise WrongAnswerError(f"output {tensor.name!r} has shape {got.shape}, expected {expected.shape}")
        wrong = np.argwhere((_bits(tensor, got) != _bits(tensor, expected)).reshape(expected.shape))
        if len(wrong):
            at = tuple(wrong[0])
            raise WrongAnswerError(
                f"{len(wrong)} of {expected.size} answers of model {self.project.name!r} differ from csim, first in row "
                f"{at[0]}, output {at[1]} of {tensor.name!r}: got {got[at]!r}, csim says {expected[at]!r}; "
                "is the served version the one built from these sources?"
            )


def load_golden(model: str, served: ModelSpec) -> Golden:
    """Build the csim of a zoo model that a server has. Raises SpecMismatchError if the server's tensors have other names, and
    what build_csim raises."""
    from hypersonic.building.csim import build_csim
    from hypersonic.building.datatypes import set_datatypes

    project, library = build_csim(model)
    datatypes = [{tensor.datatype for tensor in side} for side in (served.inputs, served.outputs)]
    own = [tensor.name for row in (project.inputs, project.outputs) for tensor in row.tensors]
    if own != [tensor.name for tensor in (*served.inputs, *served.outputs)]:
        raise SpecMismatchError(f"model {model!r} has the tensors {', '.join(own)}, the server has others")
    x, y = (kinds.pop() if len(kinds) == 1 else "" for kinds in datatypes)
    return Golden(project, library, *set_datatypes((project.inputs, project.outputs), (x, y)))


def check_against_csim(model: str, served: ModelSpec, inputs: Tensors, answers: Tensors) -> int:
    """Load the golden reference and compare once (see Golden.compare)."""
    return load_golden(model, served).compare(inputs, answers)


def _bits(spec: TensorSpec, numbers: NDArray[Any]) -> NDArray[Any]:
    return spec.encode(numbers).view(f"<u{spec.element.bytes}")


def golden_integers(project: HlsProject, library: Path, x_raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return csim's integers (rows, n_out) for raw inputs (rows, n_in), computed in two threads and cached by content."""

    def compute(directory: Path) -> None:
        csim = Csim(library, project)
        parts: Sequence[NDArray[np.int64]] = np.array_split(x_raw, max(1, len(x_raw) // _CHUNK_ROWS))
        with ThreadPoolExecutor(2) as pool:
            raw = list(pool.map(csim.predict_raw, parts))
        np.save(directory / "raw.npy", np.concatenate(raw))

    place = cached("golden", [library, x_raw.tobytes()], compute)
    golden: NDArray[np.int64] = np.load(place / "raw.npy")
    return golden
