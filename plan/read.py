# SPDX-License-Identifier: Apache-2.0
"""The question of a plan: defaults, the model's own numbers, a YAML or JSON file, and options; later ones win."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypersonic.hls.near import did_you_mean
from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import (
    BY_DEFAULT,
    RULES,
    Basis,
    Mark,
    ModelCost,
    Question,
    Service,
    Site,
    Target,
    Workload,
    check_value,
    field_names,
)
from hypersonic.plan.measured import constant_service, read_service, service_of
from hypersonic.plan.models import ZOO, find_zoo_model, is_published, read_model
from hypersonic.plan.server_cost import SERVERS

#: the sections of a file
SECTIONS = ("workload", "model", "site", "target")
_MAX_BYTES = 1 << 20
#: the fields that are texts
_TEXTS = ("model.name", "model.repository", "model.metrics", "site.platform", "site.server")


@dataclass(frozen=True)
class Given:
    """Values by `section.field`, with their sources.

    Attributes:
        service: what the metrics said when an earlier plan was made.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    service: Service | None = None

    def under(self, later: Given) -> Given:
        """Return both; a value of `later` replaces one of this object. Other metrics or another model are measured again."""
        asked_again = {"model.metrics", "model.name"} & later.values.keys()
        service = later.service if asked_again else self.service
        return Given({**self.values, **later.values}, {**self.marks, **later.marks}, service)

    def section(self, name: str) -> dict[str, Any]:
        """Return the values of a section by field."""
        return {key.partition(".")[2]: value for key, value in self.values.items() if key.startswith(f"{name}.")}


def of_options(options: Mapping[str, Any]) -> Given:
    """Return what was given by options: field -> (option, value)."""
    return Given(
        {name: value for name, (_, value) in options.items()},
        {name: Mark(Basis.ASSUMED, option) for name, (option, _) in options.items()},
    )


def read_file(path: Path) -> Given:
    """Return the values of a YAML file, or of a JSON file, which `hypersonic plan --json` may have written.

    Raises PlanError, which names the file and the field; ModuleNotFoundError if YAML is not installed; OSError.
    """
    return of_document(path, load_document(path))


def of_document(path: Path, document: Any) -> Given:
    """Return the values of what a file says. Raises PlanError, which names the file and the field."""
    if isinstance(document, dict) and "inputs" in document and "schema" in document:
        return _read_plan(path, document)
    return Given(values := _values(path, document), {name: Mark(Basis.READ, str(path)) for name in values})


def _read_plan(path: Path, plan: dict[str, Any]) -> Given:
    """Return the values of an earlier plan with their original sources. Values that were defaults are left out."""
    marks = plan.get("marks")
    if not isinstance(marks, dict):
        raise PlanError(f"{path} has no marks, expected a file of `hypersonic plan --json`; write it again")
    known = {}
    for name, mark in marks.items():
        try:
            known[name] = Mark(Basis(mark["basis"]), str(mark["source"]))
        except (TypeError, KeyError, ValueError):
            expected = ", ".join(Basis)
            raise PlanError(f"{path}: marks.{name} is {mark!r:.80}, expected a basis ({expected}) and a source") from None
    values = _values(path, plan["inputs"])
    given = {name: value for name, value in values.items() if known.get(name, BY_DEFAULT) != BY_DEFAULT or name in _TEXTS}
    service = plan.get("measured")
    return Given(given, known, service_of(service, str(path)) if service is not None else None)


def _values(path: Path, document: Any) -> dict[str, Any]:
    """Return the checked values of a file's sections. Raises PlanError."""
    if not isinstance(document, dict):
        raise PlanError(
            f"{path} is a {type(document).__name__}, expected the sections {', '.join(SECTIONS)}, each with its fields"
        )
    values: dict[str, Any] = {}
    for section, content in document.items():
        check_known(path, str(section), SECTIONS, "a section")
        entries = {"name": content} if section == "model" and isinstance(content, str) else content
        if not isinstance(entries, dict):
            raise PlanError(f"{path}: {section} is {entries!r:.80}, expected its fields: {', '.join(field_names(section))}")
        for name, value in entries.items():
            check_known(path, str(name), field_names(section), f"a field of {section}")
            values[f"{section}.{name}"] = _checked(path, f"{section}.{name}", value)
    if not values.get("site.server_gbps"):
        raise PlanError(
            f"{path}: site.server_gbps is missing, expected the Gb/s of a server's link: a plan needs a network, which is "
            "often what limits; write `site: {server_gbps: 25}`"
        )
    return values


def make_question(given: Given) -> Question:
    """Return the question for the given values, with the model's own numbers and the defaults for the others.

    Reads the manifest or the metrics that the values name. Raises PlanError, ManifestError, OSError.
    """
    cost, found = model_of(given)
    everything = found.under(given)
    model = replace(cost, **{name: value for name, value in everything.section("model").items() if name in RULES["model"]})
    if model.row_bytes != cost.row_bytes:
        model = replace(model, half_bytes=None, packed_bytes=None)
    workload = Workload(**everything.section("workload"))
    if model.service_ms:
        model = replace(model, measured=constant_service(model.service_ms / 1e3, workload.rows))
    marks = {**everything.marks, **{name: found.marks[name] for name in ("model.metrics",) if name in found.marks}}
    parts = (workload, model, Site(**everything.section("site")))
    return Question(*parts, Target(**everything.section("target")), marks)


def model_of(given: Given) -> tuple[ModelCost, Given]:
    """Return the model's cost and the other values that follow from it; values of files and options override these."""
    values = given.values
    name, repository, metrics = (str(values.get(f"model.{each}") or "") for each in ("name", "repository", "metrics"))
    if not name:
        raise PlanError("model.name is missing, expected a zoo model such as facile, or a model's folder; name it first")
    cost, found = _described(name, repository, metrics, given)
    if metrics:
        measured = given.service or read_service(metrics, cost.name)
        rows = round(measured.rows / measured.requests)
        cost = replace(cost, measured=measured)
        mark = Mark(Basis.MEASURED, metrics)
        found = found.under(Given({"workload.rows": max(1, rows)}, {"workload.rows": mark, "model.metrics": mark}))
    return cost, found


def _described(name: str, repository: str, metrics: str, given: Given) -> tuple[ModelCost, Given]:
    folder = Path(repository) / name if repository else Path(name)
    if repository or (folder.is_dir() and (name not in ZOO or is_published(folder))):
        cost, file = read_model(folder)
        return cost, _from(Mark(Basis.READ, str(file)), {})
    if name not in ZOO and all(f"model.{side}_bytes" in given.values for side in ("input", "output")):
        return ModelCost(name, 1, 1), Given()
    if name not in ZOO and metrics:
        read_service(metrics, name)
        raise PlanError(
            f"model is {name!r}, and {metrics} has its times, but not the bytes of a row; give them with --input-bytes and "
            "--output-bytes"
        )
    known = find_zoo_model(name)
    return known.cost, _from(Mark(Basis.READ, "table of the zoo's models"), {"workload.rows": known.event_rows})


def _from(mark: Mark, values: Mapping[str, Any]) -> Given:
    names = ("input_bytes", "output_bytes", "ii", "units")
    return Given(values, {**{f"model.{name}": mark for name in names}, **dict.fromkeys(values, mark)})


def _checked(path: Path, name: str, value: Any) -> Any:
    if name in _TEXTS:
        if not isinstance(value, str) or not value:
            raise PlanError(f"{path}: {name} is {value!r:.80}, expected a text")
        if name == "site.server":
            check_known(path, value, SERVERS, "a server")
        return value
    section, _, short = name.partition(".")
    try:
        check_value(name, value, RULES[section][short])
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return value


def check_known(path: Path, name: str, known: tuple[str, ...], what: str) -> None:
    """Raise PlanError for a name that is not one of the known ones, with the nearest of them."""
    if name in known:
        return
    raise PlanError(f"{path}: {name!r:.80} is not {what}, expected one of {', '.join(known)}{did_you_mean(name, known)}")


def load_document(path: Path) -> Any:
    """Return what a YAML or JSON file says. Raises PlanError; ModuleNotFoundError if YAML is not installed; OSError."""
    with path.open("rb") as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise PlanError(f"{path} has more than {_MAX_BYTES} bytes, expected a file of a few lines")
    if path.suffix == ".json":
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{path} is not JSON: {error}") from error
    import yaml

    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PlanError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
