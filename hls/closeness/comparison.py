# SPDX-License-Identifier: Apache-2.0
"""Compares a fixed-point network with the trained model on the same rows, in the numbers that the user sends and gets.

The total difference is the one that a user sees: the trained model computes the rows as they are given, the network computes
what its inputs' types keep of them, and its answers are rounded to the datatype on the wire. The quantised difference is the
network's own: both compute what the types keep, and nothing is rounded afterwards. What is left of the total comes from the
inputs' types and the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.closeness.difference import NUMBERS, Difference, Judged, Kind, difference, percent
from hypersonic.hls.fixed import FixedPoint

Arrays = Sequence[NDArray[np.float64]]


@dataclass(frozen=True)
class InputLoss:
    """Numbers of the rows that an input's type does not keep.

    Attributes:
        values: how many there are.
        beyond: how many are beyond the ends of the type.
        zeroed: how many are not 0 and become 0.
        least, greatest: of the numbers.
    """

    name: str
    fixed: FixedPoint
    values: int
    beyond: int
    zeroed: int
    least: float
    greatest: float

    @property
    def text(self) -> str:
        """A sentence about what is lost; "" if nothing is."""
        said = [
            f"{count:,} of {self.values:,} numbers {what}"
            for count, what in ((self.beyond, "lie beyond its type"), (self.zeroed, "become 0"))
            if count
        ]
        runs = f"they run from {self.least:.4g} to {self.greatest:.4g}"
        return f"input {self.name!r}, {self.fixed}: {' and '.join(said)}; {runs}" if said else ""


@dataclass(frozen=True)
class OutputDifference:
    """An output's differences.

    Attributes:
        judged: how its answers are judged.
        exact: the share of answers that equal the trained model's, rounded to the output's type, when both compute what the
            inputs' types keep.
        least, greatest: of the trained model's answers.
    """

    name: str
    judged: Judged
    total: Difference
    quantised: Difference
    exact: float
    least: float
    greatest: float

    @property
    def far_because(self) -> str:
        """Why the answers are far from the trained model's, as a clause; "" if they are not."""
        return self.total.far_because(self.judged)

    @property
    def rounding_text(self) -> str:
        """The result of the function of the same name for the worst differences."""
        return rounding_text(self.total.worst, self.quantised.worst)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a network with the trained model.

    Attributes:
        rows: how many.
        source: what gave them, or "random".
    """

    rows: int
    source: str
    inputs: tuple[InputLoss, ...]
    outputs: tuple[OutputDifference, ...]

    @property
    def worst(self) -> OutputDifference:
        """The output with the largest total difference."""
        return max(self.outputs, key=lambda output: np.nan_to_num(output.total.worst, nan=np.inf))

    @property
    def far(self) -> tuple[OutputDifference, ...]:
        """The outputs that are far from the trained model's."""
        return tuple(output for output in self.outputs if output.far_because)

    def lines(self) -> list[str]:
        """The figures as lines: of all outputs together, and of each input whose type loses numbers."""
        worst = self.worst
        part = f"; {worst.rounding_text}" if worst.rounding_text else ""
        exact = min(output.exact for output in self.outputs)
        head = (
            f"{self.rows:,} rows ({self.source}): worst difference against the trained model {worst.total.worst:.3g}{part}; "
            f"{percent(worst.total.share)} of the answers' spread as rms; {exact:.2%} of the outputs exact"
        )
        return [head, *(loss.text for loss in self.inputs if loss.text)]

    def to_json(self) -> dict[str, Any]:
        """The figures for a report. Those at the top are the worst over all outputs."""
        outputs = {output.name: _json(output) for output in self.outputs}
        worst = ("max_abs_difference", "mean_abs_difference", "quantised_max_abs_difference", "rms_share", "rows_off")
        return {
            "rows": self.rows,
            "source": self.source,
            **{name: max(figures[name] for figures in outputs.values()) for name in worst},
            "fraction_exact": min(output.exact for output in self.outputs),
            "inputs": {
                loss.name: {key: value for key, value in asdict(loss).items() if key not in ("name", "fixed")}
                for loss in self.inputs
            },
            "outputs": outputs,
        }  # fmt: skip


def rounding_text(total: float, quantised: float) -> str:
    """Return a clause on how much of a total difference the inputs' types and the wire add to the quantised one; "" if none."""
    return f"of that from the inputs' types and the wire {total - quantised:.3g}" if total > quantised else ""


def _json(output: OutputDifference) -> dict[str, Any]:
    return {
        "max_abs_difference": output.total.worst,
        "mean_abs_difference": output.total.mean,
        "quantised_max_abs_difference": output.quantised.worst,
        "rms_share": output.total.share,
        "rows_off": output.total.off,
        "other_class": output.total.other_class,
        "fraction_exact": output.exact,
        "least": output.least,
        "greatest": output.greatest,
        "judged": asdict(output.judged),
    }


def judged_of(report: Mapping[str, Any], outputs: Sequence[str]) -> tuple[Judged, ...]:
    """Return how the outputs' answers are judged, from a project's report with a gate; as numbers where it does not say."""
    known = report.get("gate", {}).get("outputs", {})
    kept = [known.get(name, {}).get("judged") for name in outputs]
    return tuple(judged_from_json(each) if each else NUMBERS for each in kept)


def judged_from_json(value: Mapping[str, Any]) -> Judged:
    """Return a Judged from the value of asdict."""
    return Judged(Kind(value["kind"]), value["table_error"], value["classes"])


@dataclass(frozen=True)
class Answers:
    """The network's answers to the rows, (rows, elements) for each output.

    Attributes:
        kept: what its types keep of the rows.
        computed: in the output's type.
        served: as the client gets them.
    """

    kept: Arrays
    computed: Arrays
    served: Arrays


@dataclass(frozen=True)
class Named:
    """An input or output.

    Attributes:
        fixed: its type.
        exponents: the network's numbers are those compared times 2**exponents.
    """

    name: str
    fixed: FixedPoint
    exponents: NDArray[np.int32] | int = 0
    judged: Judged = NUMBERS


def compared(
    source: str,
    inputs: Sequence[Named],
    outputs: Sequence[Named],
    given: Arrays,
    answers: Answers,
    predict: Callable[[Arrays], Arrays],
) -> Comparison:
    """Compare what a network answers with what the trained model does.

    All numbers of `given`, `answers` and `predict` are the network's; differences are in the units of the wire.

    Args:
        given: the rows as the user has them, (rows, elements) for each input.
        predict: the trained model, on the network's numbers.
    """
    wanted = predict(given)
    same = all(np.array_equal(*pair) for pair in zip(given, answers.kept, strict=True))
    of_kept = wanted if same else predict(answers.kept)
    found = tuple(
        _output(*each) for each in zip(outputs, answers.served, answers.computed, wanted, of_kept, strict=True)
    )  # fmt: skip
    losses = tuple(_loss(*each) for each in zip(inputs, given, answers.kept, strict=True))
    return Comparison(len(given[0]), source, losses, found)


def _output(
    output: Named,
    served: NDArray[np.float64],
    computed: NDArray[np.float64],
    wanted: NDArray[np.float64],
    of_kept: NDArray[np.float64],
) -> OutputDifference:
    def scaled(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.ldexp(np.asarray(numbers, np.float64), -np.asarray(output.exponents)))

    classes, fraction, in_wire = output.judged.classes, output.fixed.fraction, scaled(wanted)
    return OutputDifference(
        output.name, output.judged, difference(scaled(served), in_wire, classes),
        difference(scaled(computed), scaled(of_kept), classes),
        float(np.mean(np.rint(np.ldexp(of_kept, fraction)) == np.ldexp(computed, fraction))),
        float(in_wire.min()), float(in_wire.max()),
    )  # fmt: skip


def _loss(spec: Named, given: NDArray[np.float64], kept: NDArray[np.float64]) -> InputLoss:
    fixed = spec.fixed
    low, high = (float(raw) * 2.0**-fixed.fraction for raw in (fixed.min_raw, fixed.max_raw))
    step = 2.0**-fixed.fraction
    beyond = (given <= low - step) | (given >= high + step)
    in_wire = np.ldexp(given, -np.asarray(spec.exponents))
    return InputLoss(
        spec.name, fixed, given.size, int(beyond.sum()), int(((given != 0) & (kept == 0) & ~beyond).sum()),
        float(in_wire.min()), float(in_wire.max()),
    )  # fmt: skip
