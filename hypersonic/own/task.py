# SPDX-License-Identifier: Apache-2.0
"""A user's rows and labels as a Task, so that the commands treat the user's model as one of the zoo's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.frontend.description import SUFFIXES, DescriptionError, describe, find_model, zoo_models
from hypersonic.hls.frontend.predict import trained_predict
from hypersonic.hls.frontend.pytorch.export import export_module, names_function
from hypersonic.hls.frontend.rows import SUFFIXES as ROWS
from hypersonic.hls.frontend.rows import Wanted, read_arrays, read_rows
from hypersonic.hls.near import nearest
from hypersonic.hls.project import HlsProject
from hypersonic.hls.tune.labels import Labels, read_labels
from hypersonic.hls.zoo.task import Outputs, Sample, Task

#: the most rows that also run in the Verilated core for a report
_RTL_ROWS = 1000


@dataclass(frozen=True)
class OwnData:
    """A user's files.

    Attributes:
        rows: .npy or .npz with the rows of the inputs.
        labels: the same with the true outputs, or None.
    """

    rows: Path
    labels: Path | None = None


class DataOptionError(ValueError):
    """--rows and --labels do not fit the model or each other. The message says what to give."""


def trained_file(model: str, progress: Callable[[str], None] = lambda _: None) -> str:
    """Return the model file for the path of a YAML, or for "file.py:function", a PyTorch module, which is exported to ONNX.

    Anything else is returned as it is.

    Raises DescriptionError if a YAML has no model file beside it or several, and TorchError.

    Args:
        progress: called with one line for an export.
    """
    if names_function(model):
        return str(export_module(model, progress))
    path = Path(model)
    if path.suffix != ".yaml":
        return model
    files = [file for suffix in SUFFIXES if (file := path.with_suffix(suffix)).is_file()]
    if len(files) != 1:
        found = " and ".join(map(str, files)) or "none"
        raise DescriptionError(
            f"{path}: beside a YAML one model file of its name is expected ({', '.join(SUFFIXES)}), got {found}"
        )
    return str(files[0])


def own_data(model: str, rows: Path | None, labels: Path | None) -> OwnData | None:
    """Return the files of a user's model, or None for a zoo model.

    The YAML may still be missing. Reads the files once, so that anything but arrays with a label for each row is refused before
    a build. Raises DataOptionError, DescriptionError, RowsError, OSError.
    """
    is_file = Path(model).suffix in SUFFIXES
    if is_file:
        find_model(model)
    if rows is None:
        if is_file:
            raise DataOptionError(
                f"{model} is a model of your own, for which nothing is generated: give its rows with --rows FILE"
            )
        if labels is not None:
            raise DataOptionError("--labels needs --rows: generated events have true values of their own")
        return None
    if not is_file:
        if model not in zoo_models():
            find_model(model)  # says what is expected instead
        raise DataOptionError(f"--rows goes with a file, such as own.keras or own.yaml; the rows of {model} are generated")
    check_files(rows, labels)
    counts, labelled = _counts(rows), _counts(labels) if labels else []
    if labelled and not set(counts) & set(labelled):
        got = f"{labels} holds labels of {labelled[0]} rows, {rows} has {counts[0] if counts else 0} rows"
        raise DataOptionError(f"{got}; expected one label for each row")
    return OwnData(rows, labels)


def check_files(rows: Path | None, labels: Path | None) -> None:
    """Raise DataOptionError, with the option and the nearest file, if a file that is given does not exist."""
    for option, file in (("--rows", rows), ("--labels", labels)):
        if file and not file.exists():
            beside = [each.name for each in file.parent.glob("*") if each.suffix in ROWS]
            near = nearest(file.name, beside)
            raise DataOptionError(f"{option} {file} does not exist{f'; did you mean {file.with_name(near)}?' if near else ''}")


def _counts(file: Path) -> list[int]:
    """Return the number of rows of each array of a file."""
    return [len(array) for array in read_arrays(file).values() if array.ndim]


@dataclass(frozen=True)
class Own:
    """A user's model in the form that the commands need.

    Attributes:
        rows: float32 (rows, size) for each input, in the wire's units.
        parameters: returns their number; -1 if the format does not contain it.
    """

    task: Task
    labels: tuple[Labels, ...]
    rows: tuple[NDArray[np.float32], ...]
    parameters: Callable[[], int]


def own_task(model: str, project: HlsProject, data: OwnData) -> Own:
    """Return the Task of a user's model, with all of its rows once, and the labels.

    Raises RowsError and ConversionError. The rows are numbers in the wire's units, whatever the datatype on the wire.

    Args:
        model: the path.
        project: the model's.
    """
    file = describe(model).file
    names = {side.name: side.tensor or side.name for side in describe(model).inputs}
    tensors = project.inputs.tensors
    shapes = [(tensor.size,) if tensor.is_packed else tensor.shape for tensor in tensors]
    firsts = project.report.get("channels_first") or [False] * len(tensors)
    described = zip(tensors, shapes, firsts, strict=True)
    wanted = [Wanted((tensor.name, names[tensor.name]), shape, first) for tensor, shape, first in described]
    rows = read_rows(data.rows, wanted)
    trained = _answers(file, project, rows)
    inputs = tuple(tensor.quantise(x) for tensor, x in zip(tensors, rows, strict=True))
    labels = read_labels(data.labels, project.outputs, len(rows[0]), trained()[0]) if data.labels else ()
    figure, measure, larger_is_better = _merit(labels)
    count = len(rows[0])
    task = Task(
        lambda _rows, _seed: Sample(inputs),
        figure,
        measure,
        lambda _inputs: trained()[0],
        rows=count,
        rtl_rows=min(count, _RTL_ROWS),
        given=count,
        larger_is_better=larger_is_better,
    )
    return Own(task, labels, rows, lambda: trained()[1])


def _answers(file: Path, project: HlsProject, rows: tuple[NDArray[np.float32], ...]) -> Callable[[], tuple[Outputs, int]]:
    """Return a function for the trained model's answers to the rows, before any rounding, and its number of parameters.

    The answers are in the wire's units.
    """

    @cache
    def answers() -> tuple[Outputs, int]:
        tensors = zip(project.inputs.tensors, rows, strict=True)
        outputs, parameters = trained_predict(file, [np.ldexp(x, tensor.exponents).astype(np.float32) for tensor, x in tensors])
        scaled = zip(project.outputs.tensors, outputs, strict=True)
        return tuple(np.ldexp(y, -tensor.exponents) for tensor, y in scaled), parameters

    return answers


def _merit(labels: tuple[Labels, ...]) -> tuple[str, Callable[[Outputs, object], float] | None, bool]:
    """Return the first figure of the first labelled output: name, function of the outputs, and whether larger is better."""
    if not labels:
        return "none: no labels are given", None, True
    first = labels[0]
    kind = "accuracy" if first.classes is not None else "rms"
    name = f"{kind} of {first.name}" if len(labels) > 1 else kind
    return name, lambda outputs, _truth: first.figures(np.asarray(outputs[first.output]))[kind], kind == "accuracy"
