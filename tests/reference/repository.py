# SPDX-License-Identifier: Apache-2.0
"""The model repository both servers serve: models of the python backend, written where a test wants them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

MODELS = Path(__file__).parent / "models"
DATATYPES = (
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "STRING",
    "BF16",
)


class Model(NamedTuple):
    """source: a file in models/ ("" for an ensemble); config: text of config.pbtxt; files: more files of the model's directory."""

    source: str
    config: str
    versions: tuple[int, ...] = (1,)
    files: Mapping[str, str] = {}


Models = Mapping[str, Model]


def tensors(kind: str, *rows: str) -> str:
    """`input [..]` or `output [..]`; a row is "NAME TYPE dims [more]"."""
    return f"{kind} [ {', '.join(map(_tensor, rows))} ]\n"


def _tensor(row: str) -> str:
    name, datatype, dims, *more = row.split(maxsplit=3)
    return f'{{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {more[0] if more else ""} }}'


def addsub(datatype: str, config: str = "") -> Model:
    rows = (f"{{}} {datatype} 16",)
    ins = [row.format(name) for row in rows for name in ("INPUT0", "INPUT1")]
    outs = [row.format(name) for row in rows for name in ("OUTPUT0", "OUTPUT1")]
    return Model("addsub", "max_batch_size: 8\n" + tensors("input", *ins) + tensors("output", *outs) + config)


def gated(config: str, dims: str = "2", max_batch_size: int = 4, ragged: str = "") -> Model:
    """`max_batch_size: 0`: RUN has no batch dimension either."""
    ins, outs = tensors("input", f"X FP32 {dims} {ragged}"), tensors("output", "RUN INT32 3", f"Y FP32 {dims}")
    gate = 'parameters: { key: "gate" value: { string_value: "$GATE" } }\n'
    return Model("gated", f"max_batch_size: {max_batch_size}\n" + ins + outs + gate + config)


_CONTROL = """{{ name: "{}" control [ {{ kind: CONTROL_SEQUENCE_{} int32_false_true: [ 0, 1 ] }} ] }}"""
_CORRID = '{ name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }'


def sequence(strategy: str, max_batch_size: int = 4, more: str = "") -> Model:
    controls = ", ".join([_CONTROL.format(name, name) for name in ("START", "READY", "END")] + [_CORRID])
    batching = f"sequence_batching {{ {more} {strategy} control_input [ {controls} ] }}\n"
    ins, outs = tensors("input", "X INT32 1"), tensors("output", "SUM INT32 1", "SEEN INT32 3", "ID UINT64 1")
    return Model("accumulator", f"max_batch_size: {max_batch_size}\n" + ins + outs + batching)


def step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str], version: int = -1) -> str:
    """One step of an ensemble."""
    maps = [
        f'{kind}_map {{ key: "{k}" value: "{v}" }}'
        for kind, m in (("input", inputs), ("output", outputs))
        for k, v in m.items()
    ]
    return f'{{ model_name: "{model}" model_version: {version} {" ".join(maps)} }}'


def ensemble(config: str, *steps: str) -> Model:
    return Model("", f'platform: "ensemble"\n{config}ensemble_scheduling {{ step [ {", ".join(steps)} ] }}\n')


def _identity() -> Model:
    ins = [f"IN_{name} {name} -1 optional: true" for name in DATATYPES]
    outs = [f"OUT_{name} {name} -1" for name in DATATYPES]
    return Model("identity", "max_batch_size: 0\n" + tensors("input", *ins) + tensors("output", *outs))


_QUEUE = "default_queue_policy { timeout_action: %s default_timeout_microseconds: %d allow_timeout_override: true max_queue_size: %d }"
_TWO_KINDS = '{ name: "MARKS" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }, { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] }'
_DECOUPLED = (
    "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
    + tensors("input", "IN INT32 -1")
    + tensors("output", "OUT INT32 1", "IDX UINT32 1")
)
_PAIR = tensors("input", "A INT32 16", "B INT32 16")

MAIN: Models = {
    "addsub": addsub("FP32"),
    "addsub_int32": addsub("INT32", "dynamic_batching { }\n"),
    "addsub_string": addsub("STRING"),
    "identity": _identity(),
    "plain": gated(""),
    "single": gated("", max_batch_size=0),
    "dynamic": gated("dynamic_batching { }\n"),
    "preferred": gated("dynamic_batching { preferred_batch_size: [ 2, 3 ] }\n", max_batch_size=6),
    "delayed": gated("dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 30000000 }\n"),
    "queue": gated("dynamic_batching { " + _QUEUE % ("REJECT", 0, 2) + " }\n"),
    "expiring": gated("dynamic_batching { " + _QUEUE % ("REJECT", 300000, 0) + " }\n"),
    "delaying": gated("dynamic_batching { " + _QUEUE % ("DELAY", 300000, 0) + " }\n"),
    "priority": gated(
        "dynamic_batching { preferred_batch_size: [ 1 ] priority_levels: 3 default_priority_level: 2 "
        "priority_queue_policy { key: 3 value: { max_queue_size: 1 } } }\n",
        max_batch_size=1,
    ),
    "ordered": gated("dynamic_batching { preserve_ordering: true }\ninstance_group [ { count: 2 kind: KIND_CPU } ]\n"),
    "grouping": gated("dynamic_batching { }\n", dims="-1"),
    "ragged": gated("dynamic_batching { }\n", dims="-1", ragged="allow_ragged_batch: true"),
    "unhurried": gated("dynamic_batching { default_queue_policy { default_timeout_microseconds: 60000000 } }\n"),
    "levels": gated(
        "dynamic_batching { priority_levels: 2 default_priority_level: 1 default_queue_policy { allow_timeout_override: true } "
        "priority_queue_policy { key: 2 value: { timeout_action: REJECT allow_timeout_override: true } } }\n"
    ),
    "seated": gated("sequence_batching { direct { } }\n"),
    "oldest_first": gated("sequence_batching { oldest { max_candidate_sequences: 4 } }\n"),
    "optional": Model(
        "classes",
        "max_batch_size: 4\n" + tensors("input", "X0 FP32 2", "X1 FP32 2 optional: true")
        + tensors("output", "Y0 FP32 2", "Y1 FP32 2"),
    ),
    "variable": Model("shapes", "max_batch_size: 4\n" + tensors("input", "X FP32 -1,2") + tensors("output", "Y FP32 -1,2", "SHAPE INT64 3")),
    "reshaped": Model(
        "shapes",
        "max_batch_size: 4\n" + tensors("input", "X FP32 4 reshape:{shape:[2,2]}")
        + tensors("output", "Y FP32 4 reshape:{shape:[2,2]}", "SHAPE INT64 3"),
    ),
    "scalar": Model(
        "shapes",
        "max_batch_size: 4\n" + tensors("input", "X FP32 1 reshape:{shape:[]}")
        + tensors("output", "Y FP32 1 reshape:{shape:[]}", "SHAPE INT64 1"),
    ),
    "classes": Model(
        "classes",
        "max_batch_size: 4\n" + tensors("input", "X FP32 4", "XI INT32 3 optional: true", "XS STRING 2 optional: true")
        + tensors("output", 'Y FP32 4 label_filename: "labels.txt"', "YI INT32 3", "YS STRING 2"),
        files={"labels.txt": "cat\ndog\nbird\n"},
    ),
    "versions": addsub("FP32", "version_policy: { all { } }\n")._replace(versions=(1, 3)),
    "latest": addsub("FP32")._replace(versions=(1, 3)),
    "failing": Model("failing", "max_batch_size: 4\n" + tensors("input", "WAY STRING 1") + tensors("output", "Y FP32 2")),
    "parameters": Model("parameters", "max_batch_size: 0\n" + tensors("input", "X FP32 1") + tensors("output", "SEEN STRING 1")),
    "repeat": Model("repeat", _DECOUPLED),
    "direct": sequence("direct { }"),
    "oldest": sequence("oldest { max_candidate_sequences: 4 }", more="max_sequence_idle_microseconds: 60000000"),
    "one_sequence": sequence("direct { }", 1, "max_sequence_idle_microseconds: 1000000"),
    "chain": ensemble(
        "max_batch_size: 8\n" + _PAIR + tensors("output", "SUM INT32 16", "TWICE INT32 16"),
        step("addsub_int32", {"INPUT0": "A", "INPUT1": "B"}, {"OUTPUT0": "SUM", "OUTPUT1": "difference"}),
        step("addsub_int32", {"INPUT0": "SUM", "INPUT1": "difference"}, {"OUTPUT0": "TWICE"}),
    ),
    "failing_chain": ensemble(
        "max_batch_size: 4\n" + tensors("input", "WAY STRING 1") + tensors("output", "Y FP32 2"),
        step("failing", {"WAY": "WAY"}, {"Y": "Y"}),
    ),
    "auto": Model("auto", ""),
}  # fmt: skip

#: models that do not load, beside some that do
BROKEN: Models = {
    "good": addsub("FP32"),
    "base": addsub("INT32"),
    "dependent": ensemble(
        "max_batch_size: 8\n" + _PAIR + tensors("output", "SUM INT32 16"),
        step("base", {"INPUT0": "A", "INPUT1": "B"}, {"OUTPUT0": "SUM"}),
    ),
    "two_versions": addsub("FP32", "version_policy { latest { num_versions: 2 } }\n")._replace(versions=(1, 2, 3)),
    "chosen_versions": addsub("FP32", "version_policy { specific { versions: [ 1, 7 ] } }\n")._replace(versions=(1, 2)),
    "no_outputs": Model("addsub", "max_batch_size: 8\n" + tensors("input", "X FP32 1")),
    "tensor_twice": Model(
        "addsub", "max_batch_size: 8\n" + tensors("input", "X FP32 1", "X FP32 1") + tensors("output", "Y FP32 1")
    ),
    "streaming": Model("repeat", _DECOUPLED),
    "decoupled_step": ensemble(
        "max_batch_size: 0\nmodel_transaction_policy { decoupled: true }\n"
        + tensors("input", "IN INT32 -1")
        + tensors("output", "OUT INT32 1"),
        step("streaming", {"IN": "IN"}, {"OUT": "OUT"}),
    ),
    "control_of_two_kinds": Model(
        "accumulator",
        "max_batch_size: 4\n"
        + tensors("input", "X INT32 1")
        + tensors("output", "SUM INT32 1")
        + f"sequence_batching {{ direct {{ }} control_input [ {_TWO_KINDS} ] }}\n",
    ),
    "no_candidates": Model(
        "accumulator",
        "max_batch_size: 4\n"
        + tensors("input", "X INT32 1")
        + tensors("output", "SUM INT32 1")
        + "sequence_batching { oldest { } }\n",
    ),
    "unparsable": Model("addsub", "max_batch_size: : 8\n"),
    "unknown_field": Model("addsub", "max_batch_size: 8\nno_such_field: 1\n"),
    "misnamed": addsub("FP32", 'name: "other"\n'),
    "no_version": addsub("FP32")._replace(versions=()),
    "raising": Model("broken", "max_batch_size: 8\n" + tensors("input", "X FP32 1") + tensors("output", "Y FP32 1")),
    "no_such_backend": Model("addsub", 'backend: "nosuch"\nmax_batch_size: 8\n'),
    "no_backend": Model("", "max_batch_size: 8\n"),
    "negative_batch": Model("addsub", "max_batch_size: -1\n"),
    "no_dims": Model("addsub", 'max_batch_size: 8\ninput [ { name: "X" data_type: TYPE_FP32 } ]\n'),
    "no_datatype": Model("addsub", 'max_batch_size: 8\ninput [ { name: "X" dims: [ 1 ] } ]\n'),
    "zero_dim": Model("addsub", "max_batch_size: 8\n" + tensors("input", "X FP32 0")),
    "preferred_too_big": addsub("FP32", "dynamic_batching { preferred_batch_size: [ 16 ] }\n"),
    "two_schedulers": addsub("FP32", "dynamic_batching { }\nsequence_batching { }\n"),
    "missing_step": ensemble(
        "max_batch_size: 8\n" + _PAIR + tensors("output", "SUM INT32 16"),
        step("nowhere", {"INPUT0": "A", "INPUT1": "B"}, {"OUTPUT0": "SUM"}),
    ),
    "unfed_step": ensemble(
        "max_batch_size: 8\n" + _PAIR + tensors("output", "SUM FP32 16"),
        step("good", {"INPUT0": "A", "INPUT1": "nobody"}, {"OUTPUT0": "SUM"}),
    ),
}


def write(repository: Path, models: Models) -> Path:
    """The repository's directory; models that have a gate share none: each has a FIFO `<repository>.<model>.gate`."""
    repository.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        write_model(repository, name, model)
    return repository


def write_model(repository: Path, name: str, model: Model) -> None:
    directory = repository / name
    directory.mkdir()
    config = model.config if not model.source or "backend:" in model.config else f'backend: "python"\n{model.config}'
    if "$GATE" in config:
        os.mkfifo(gate(repository, name))
        config = config.replace("$GATE", str(gate(repository, name)))
    (directory / "config.pbtxt").write_text(config)
    for version in model.versions:
        (directory / str(version)).mkdir()
        if model.source:
            (directory / str(version) / "model.py").write_text((MODELS / f"{model.source}.py").read_text())
    for file, text in model.files.items():
        (directory / file).write_text(text)


def gate(repository: Path, name: str) -> Path:
    """The FIFO that holds a gated model in execute."""
    return repository.with_name(f"{repository.name}.{name}.gate")
