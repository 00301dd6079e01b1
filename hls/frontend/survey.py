# SPDX-License-Identifier: Apache-2.0
"""Lists the parts of a model, as a basis for its YAML. Like hls/convert.py, it works in a process of its own::

    python -m hypersonic.hls.frontend.survey MODEL_FILE OUT.json [ROWS_FILE]

With rows, it also tells which numbers occur: in each input's elements, in each layer's result and in each output.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersonic.hls.child import python_argv, refuse, run_child
from hypersonic.hls.errors import ConversionError
from hypersonic.hls.frontend.hgq import environment_of
from hypersonic.hls.frontend.load import load_trained
from hypersonic.hls.frontend.rows import Wanted, read_rows
from hypersonic.hls.frontend.trained import LayerFacts, TrainedModel

#: rows of which the numbers are surveyed, and rows that are computed at a time
MOST_ROWS, _BATCH = 10_000, 256


@dataclass(frozen=True)
class Numbers:
    """Numbers that occur.

    Attributes:
        least, greatest: over all.
        finest: the smallest magnitude that a single element or weight needs.
    """

    least: float
    greatest: float
    finest: float


@dataclass(frozen=True)
class TensorSurvey:
    """An input or output.

    Attributes:
        name: the model's.
        numbers: None without rows.
        layer: the name of an output's layer, if known.
    """

    name: str
    shape: tuple[int, ...]
    numbers: Numbers | None
    layer: str = ""


@dataclass(frozen=True)
class LayerSurvey:
    """A layer of the model.

    Attributes:
        name: the model's.
        result: hls4ml's layer that gives its result.
        automatic: the types that hls4ml would choose, such as weight and result; a quantiser's are not among them.
        result_automatic: the same for the result.
        weights: what occurs, by kind.
        count: number of weights.
        is_output: of the model.
        numbers: of the result, and of an LSTM's cell states.
        before: of the result before the layer's own activation; None without rows.
        kind, followed_by, activation, classes: as in LayerFacts.
    """

    name: str
    result: str
    kind: str
    automatic: tuple[str, ...]
    result_automatic: bool
    weights: dict[str, Numbers]
    count: int
    followed_by: str
    activation: str
    is_output: bool
    classes: int
    numbers: Numbers | None
    before: Numbers | None


@dataclass(frozen=True)
class Survey:
    """The parts of a model.

    Attributes:
        layers: empty if the front end does not know them.
        rows: the number surveyed; 0 without rows.
    """

    inputs: tuple[TensorSurvey, ...]
    outputs: tuple[TensorSurvey, ...]
    layers: tuple[LayerSurvey, ...]
    rows: int


def survey(model_file: Path, rows: Path | None = None) -> Survey:
    """Survey a model in a process of its own.

    Args:
        rows: a .npy or .npz (see read_rows).

    Raises:
        ConversionError: For a model or rows that are refused, or if the framework fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "survey.json"
        argv = python_argv("-m", __name__, str(model_file), str(out), *([str(rows)] if rows else []))
        done = run_child(argv, environment_of(model_file), f"the survey of {model_file}")
        if done.refusal:
            raise ConversionError(done.refusal)
        if done.code:
            raise ConversionError(f"{model_file} cannot be surveyed: its process ended with {done.code}: {done.last}")
        return survey_from_json(json.loads(out.read_text()))


def survey_from_json(value: dict[str, Any]) -> Survey:
    """Return the survey whose asdict() is given."""
    inputs, outputs = (
        tuple(
            TensorSurvey(**{**each, "shape": tuple(each["shape"]), "numbers": _numbers(each["numbers"])})
            for each in value[side]
        )
        for side in ("inputs", "outputs")
    )
    return Survey(inputs, outputs, tuple(_layer_from_json(each) for each in value["layers"]), value["rows"])


def _layer_from_json(value: dict[str, Any]) -> LayerSurvey:
    weights = {name: Numbers(**numbers) for name, numbers in value["weights"].items()}
    numbers = {key: _numbers(value[key]) for key in ("numbers", "before")}
    return LayerSurvey(**{**value, **numbers, "automatic": tuple(value["automatic"]), "weights": weights})


def _numbers(value: dict[str, float] | None) -> Numbers | None:
    return None if value is None else Numbers(**value)


def main(argv: Sequence[str]) -> int:
    """Survey the model of argv[0], with the rows of argv[2] if given, and write argv[1]. Return 0, or 2 for a refusal."""
    try:
        found = survey_trained(load_trained(Path(argv[0])), Path(argv[2]) if len(argv) > 2 else None)
    except ConversionError as error:
        return refuse(error)
    Path(argv[1]).write_text(json.dumps(asdict(found)))
    return 0


def survey_trained(trained: TrainedModel, file: Path | None) -> Survey:
    """Survey a loaded model.

    Raises RowsError.

    Args:
        file: of rows, or None.
    """
    x = _read(trained, file) if file else None
    between = _ranges(trained, x) if x else {}
    outputs = trained.predict(x) if x else None
    own = {new: old for old, new in trained.names.items()}
    last = {tensor.layer for tensor in trained.outputs}
    facts = trained.layers() if trained.layers else ()
    layers = [_layer(each, trained.config["LayerName"], own, last, between) for each in facts]
    of = {each.result: own.get(each.name, each.name) for each in facts}
    return Survey(
        tuple(
            TensorSurvey(tensor.name, tensor.shape, _elements(x[place]) if x else None)
            for place, tensor in enumerate(trained.inputs)
        ),
        tuple(
            TensorSurvey(tensor.name, tensor.shape, _elements(outputs[place]) if outputs else None, of.get(tensor.layer, ""))
            for place, tensor in enumerate(trained.outputs)
        ),
        tuple(layers),
        len(x[0]) if x else 0,
    )


def _layer(
    facts: LayerFacts, configured: dict[str, Any], own: dict[str, str], last: set[str], between: dict[str, Numbers]
) -> LayerSurvey:
    types, of_result = (_types(configured.get(name, {})) for name in (facts.name, facts.result))
    name, result = own.get(facts.name, facts.name), facts.result
    if result.startswith(facts.name):
        result = name + result.removeprefix(facts.name)
    numbers, state = between.get(facts.result), between.get(f"{facts.result}:state")
    return LayerSurvey(
        name, result, facts.kind, tuple(sorted(key for key, text in types.items() if text == "auto")),
        of_result.get("result") == "auto", {key: _whole(values) for key, values in facts.weights.items() if values.size},
        sum(values.size for values in facts.weights.values()), facts.followed_by, facts.activation, facts.result in last,
        facts.classes, _both(numbers, state) if numbers and state else numbers, between.get(facts.name),
    )  # fmt: skip


def _types(settings: dict[str, Any]) -> dict[str, str]:
    precision = settings.get("Precision")
    return {key: str(text) for key, text in precision.items()} if isinstance(precision, dict) else {}


def _read(trained: TrainedModel, file: Path) -> list[NDArray[np.float32]]:
    rows = read_rows(file, [Wanted((tensor.name,), tensor.shape, tensor.channels_first) for tensor in trained.inputs])
    return [part[:MOST_ROWS].reshape(-1, *tensor.shape) for part, tensor in zip(rows, trained.inputs, strict=True)]


def _ranges(trained: TrainedModel, x: Sequence[NDArray[np.float32]]) -> dict[str, Numbers]:
    """The numbers of each layer's result, by hls4ml's name; batch by batch, because results of convolutions are large."""
    found: dict[str, Numbers] = {}
    if trained.results is None:
        return found
    for first in range(0, len(x[0]), _BATCH):
        for name, values in trained.results([part[first : first + _BATCH] for part in x]).items():
            now, before = _whole(values), found.get(name)
            found[name] = _both(now, before) if before else now
    return found


def _both(one: Numbers, other: Numbers) -> Numbers:
    fine = [each.finest for each in (one, other) if each.finest > 0]
    return Numbers(min(one.least, other.least), max(one.greatest, other.greatest), min(fine, default=0.0))


def _whole(values: NDArray[Any]) -> Numbers:
    """The Numbers of all values; `finest` is the smallest magnitude that is not 0."""
    magnitudes = np.abs(values[values != 0])
    return Numbers(float(values.min()), float(values.max()), float(magnitudes.min()) if magnitudes.size else 0.0)


def _elements(rows: NDArray[Any]) -> Numbers:
    """The Numbers of a tensor's rows; `finest` is the smallest of the elements' largest magnitudes, zeros left out."""
    largest = np.abs(rows).reshape(len(rows), -1).max(axis=0)
    largest = largest[largest > 0]
    return Numbers(float(rows.min()), float(rows.max()), float(largest.min()) if largest.size else 0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
