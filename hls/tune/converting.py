# SPDX-License-Identifier: Apache-2.0
"""Converts one model with many descriptions, in a process of its own that loads the framework once::

    python -m hypersonic.hls.tune.converting MODEL_FILE

Each line of its standard input is a request in JSON, {"do": name of a request, "reply": file for the answer, ...}; a line of
its standard output says that the answer is ready. Other lines of the output are hls4ml's. The judgement of a description
becomes a verdict, with what to write instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hypersonic.hls.convert import write_converted
from hypersonic.hls.core_kind import CoreKind
from hypersonic.hls.csim.judge import judge
from hypersonic.hls.errors import ConversionError, ToolResourceError
from hypersonic.hls.frontend.description import read_description
from hypersonic.hls.frontend.hgq import uses_hgq
from hypersonic.hls.frontend.keras.hgq import check_description
from hypersonic.hls.frontend.load import load_trained
from hypersonic.hls.frontend.reuse import possible_reuse
from hypersonic.hls.frontend.softmax.error import judged_outputs
from hypersonic.hls.frontend.survey import survey_trained
from hypersonic.hls.frontend.trained import TrainedModel
from hypersonic.hls.spec import SpecMismatchError
from hypersonic.hls.tune.measured import in_own_names, verdict_of
from hypersonic.hls.tune.verdict import CONVERTS


def _inputs(trained: TrainedModel, _request: dict[str, str]) -> Any:
    return [(tensor.name, tensor.shape, tensor.channels_first) for tensor in trained.inputs]


def _survey(trained: TrainedModel, request: dict[str, str]) -> Any:
    return asdict(survey_trained(trained, Path(request["rows"]) if request["rows"] else None))


def _answers(trained: TrainedModel, request: dict[str, str]) -> Any:
    with np.load(request["rows"]) as stored:
        rows = [stored[str(place)].reshape(-1, *tensor.shape) for place, tensor in enumerate(trained.inputs)]
    outputs = trained.predict(rows)
    np.savez(request["answers"], allow_pickle=False, **{str(place): each for place, each in enumerate(outputs)})
    return {"outputs": len(outputs)}


def _convert(trained: TrainedModel, request: dict[str, str]) -> Any:
    description = read_description(Path(request["described"]))
    card = request["card"] if description.core is CoreKind.RF else ""
    conversion = write_converted(trained, description, Path(request["directory"]), description.core, card)
    project, graph = conversion.project, conversion.graph
    project.report["own_names"] = conversion.own_names
    project.report["judged"] = [asdict(each) for each in judged_outputs(graph)]
    project.report["possible_reuse"] = {layer.name: possible_reuse(layer) for layer in graph.get_layers()}
    project.save()
    return {}


def _judge(trained: TrainedModel, request: dict[str, str]) -> Any:
    """Convert as a build does, and compare the answers to the gate's rows if there is a gate."""
    description = read_description(Path(request["described"]))
    kind = CoreKind(request["core"] or description.core)
    if uses_hgq(description.file):
        check_description(description)
    conversion = write_converted(trained, description, Path(request["directory"]), kind)
    return asdict(verdict_of(judge(conversion), float(request["limit"])) if description.gate else CONVERTS)


_REQUESTS: dict[str, Callable[[TrainedModel, dict[str, str]], Any]] = {
    "inputs": _inputs,
    "survey": _survey,
    "answers": _answers,
    "convert": _convert,
    "judge": _judge,
}


def answer_of(request: str, trained: TrainedModel, values: dict[str, str]) -> Any:
    """Return the answer to a request, a value of JSON. Raises ConversionError, SpecMismatchError and ToolResourceError."""
    return _REQUESTS[request](trained, values)


def main(argv: Sequence[str]) -> int:
    """Load the model of argv[0] and answer requests until standard input ends. Return 0."""
    trained: TrainedModel | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            trained = trained or load_trained(Path(argv[0]))
            answer = {"answer": answer_of(request["do"], trained, request)}
        except (ConversionError, SpecMismatchError, ToolResourceError) as error:
            edits = in_own_names(error.edits, trained) if isinstance(error, ConversionError) and trained else ()
            answer = {"refused": " ".join(str(error).split()), "edits": [asdict(edit) for edit in edits]}
        Path(request["reply"]).write_text(json.dumps(answer))
        sys.stdout.write("\nhypersonic: answered\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
