# SPDX-License-Identifier: Apache-2.0
"""Writes metrics in Prometheus' text format 0.0.4.

prometheus_client is not used, because it renames every counter to `*_total`, and dashboards, autoscalers and rate limiters ask
for Triton's names. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
_Thing = TypeVar("_Thing")
#: a family with a series for each thing: name, type, text, and the value of a thing, None if it has none
Row = tuple[str, str, str, Callable[[_Thing], float | None]]


class Sample(NamedTuple):
    """One line.

    Attributes:
        suffix: follows the family's name.
        extra: the label `le` or `quantile` and its value, after the others.
    """

    labels: Labels
    value: float
    suffix: str = ""
    extra: tuple[str, str] | None = None


class Family(NamedTuple):
    """A metric with all its series.

    Attributes:
        kind: counter, gauge, histogram or summary.
        help: the text of its HELP line.
    """

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the family. As in Triton, a family without series has no lines."""
        if self.samples:
            yield f"# HELP {self.name} {_escape(self.help, quote=False)}"
            yield f"# TYPE {self.name} {self.kind}"
            labels, shown = None, ""
            for sample in self.samples:
                if sample.labels is not labels:  # the buckets of a histogram share one object
                    labels = sample.labels
                    shown = ",".join(f'{key}="{_escape(value)}"' for key, value in sorted(labels.items()))
                yield f"{self.name}{sample.suffix}{_braced(shown, sample.extra)} {_number(sample.value)}"


def _braced(labels: str, extra: tuple[str, str] | None) -> str:
    if extra is not None:
        name, value = extra
        labels = f'{labels},{name}="{value}"' if labels else f'{name}="{value}"'
    return f"{{{labels}}}" if labels else ""


def _escape(text: str, *, quote: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(float(value))


def render(families: Iterable[Family]) -> str:
    """Return the text of the metrics page."""
    return "".join(f"{line}\n" for family in families for line in family.lines())


def plain(name: str, kind: str, text: str, value: float) -> Family:
    """Return a family with one series without labels.

    Args:
        text: of its HELP line.
    """
    return Family(name, kind, text, (Sample({}, value),))


def families(rows: Iterable[Row[_Thing]], things: Sequence[_Thing], labels: Callable[[_Thing], Labels]) -> Iterator[Family]:
    """Yield a family for each row, with a series for each thing that has a value."""
    for name, kind, text, value in rows:
        told = ((thing, value(thing)) for thing in things)
        yield Family(name, kind, text, [Sample(labels(thing), float(number)) for thing, number in told if number is not None])


def histogram_samples(labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float) -> Iterator[Sample]:
    """Yield the lines of one histogram.

    Args:
        bounds: upper bounds of the buckets, ascending.
        counts: per bucket, one more than bounds.
        total: sum of all observations.
    """
    below = 0
    for bound, count in zip((*map(_number, bounds), "+Inf"), counts, strict=True):
        below += count
        yield Sample(labels, below, "_bucket", ("le", bound))
    yield Sample(labels, total, "_sum")
    yield Sample(labels, below, "_count")


def summary_samples(labels: Labels, quantiles: Mapping[float, float], count: int, total: float) -> Iterator[Sample]:
    """Yield the lines of one summary.

    Args:
        quantiles: quantile -> value, NaN = no recent observations.
    """
    yield Sample(labels, count, "_count")
    yield Sample(labels, total, "_sum")
    for quantile, value in quantiles.items():
        yield Sample(labels, value, extra=("quantile", repr(quantile)))
