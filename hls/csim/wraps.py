# SPDX-License-Identifier: Apache-2.0
"""Refuses a conversion in which numbers wrap on the user's rows, by what the counting C++ finds (overflow/)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import isfinite
from typing import Any

from hypersonic.hls.csim.compiled import CsimError
from hypersonic.hls.csim.overflow.figures import Overflows, VariableCounts
from hypersonic.hls.csim.overflow.patch import UnknownTypesError
from hypersonic.hls.csim.overflow.run import Counting, compile_for_counts, find_overflows
from hypersonic.hls.csim.rows import GivenRows
from hypersonic.hls.errors import ConversionError, ToolError
from hypersonic.hls.project import HlsProject

#: the most multiplications that are counted: about ten seconds
_MOST_MULTIPLICATIONS = 1_000_000_000

#: one row in so many is counted, because a row takes five times as long as in csim; and the rows that are counted in any case
_SHARE, _FEW_ROWS = 5, 500

#: the most variables that a message names
_MOST_NAMED = 5


class WrapError(ConversionError):
    """Numbers wrap on the user's rows. The message names layer, variable, share of rows, range and the type to write."""


@contextmanager
def compiling(project: HlsProject, *, wanted: bool) -> Iterator[Callable[[], Counting]]:
    """Compile a project's counting C++ in the background, if it is wanted; yield a function that awaits or compiles it."""
    with ThreadPoolExecutor(1) as beside:
        made = beside.submit(compile_for_counts, project) if wanted else None
        yield lambda: made.result() if made else compile_for_counts(project)


def count_wraps(project: HlsProject, rows: GivenRows, compiled: Callable[[], Counting]) -> Overflows | str:
    """Return the counts for the first rows, or a note that says why there are none.

    Args:
        compiled: as `compiling` yields it.
    """
    multiplications = max(1, int(project.report["multiplications"]))
    most = min(_MOST_MULTIPLICATIONS // multiplications, max(_FEW_ROWS, len(rows.raw) // _SHARE))
    if not most:
        return (
            f"overflows are not counted: a row has {multiplications:,} multiplications (hypersonic.hls.overflows counts them)"
        )
    try:
        return find_overflows(project, rows.raw[:most], compiled())
    except (ToolError, UnknownTypesError, CsimError) as error:  # the conversion is right without the counts
        return f"overflows are not counted: {' '.join(str(error).split())[:300]}"


def refuse_wraps(found: Overflows, rows: GivenRows, settings: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """Refuse wraps on the user's rows; return warnings of those on random rows.

    Raises WrapError.

    Args:
        settings: the YAML's hls4ml, in which AP_WRAP for a variable accepts that it wraps.
        names: hls4ml's layer name -> the model's.
    """
    wrong = [each for each in found.too_narrow if not _is_asked_for(each, settings, names)]
    if not any(each.wrong_rows for each in wrong):
        return []
    said = [f"{found.fault(each)}{_where(each, names)}" for each in wrong[:_MOST_NAMED]]
    more = f"; and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    text = f"model {found.model!r}: numbers wrap on {rows.source} rows: {'; '.join(said)}{more}"
    if rows.is_random:
        return [f"{text}; on random rows this refuses nothing: give the model a gate with rows of your own"]
    raise WrapError(f"{text}; a type that says AP_WRAP accepts it")


def wraps_json(found: Overflows) -> list[dict[str, Any]]:
    """Return the variables that wrapped or saturated, for the report. least, greatest: None where infinite."""
    return [
        {
            "layer": each.layer, "variable": each.variable, "type": str(each.type), "rows": found.rows,
            "wrong_rows": each.wrong_rows, "saturated_rows": each.saturated_rows, "least": _finite(each.least),
            "greatest": _finite(each.greatest), "needed": str(each.needed),
        }
        for each in found.variables
        if each.wrong_rows or each.saturated_rows
    ]  # fmt: skip


def _finite(number: float) -> float | None:
    """Return the number, or None for infinity, which JSON does not have."""
    return number if isfinite(number) else None


def _is_asked_for(each: VariableCounts, settings: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    layers = settings.get("LayerName") or {}
    precision = (layers.get(names.get(each.layer, each.layer)) or {}).get("Precision")
    asked = precision if isinstance(precision, Mapping) else {"result": precision}
    return all("AP_WRAP" in str(asked.get(name.strip(), "")) for name in each.variable.split(","))


def _where(each: VariableCounts, names: Mapping[str, str]) -> str:
    if each.written_out:
        return ""
    return f" in hls4ml.LayerName.{names.get(each.layer, each.layer)}.Precision.{each.variable}"
