# SPDX-License-Identifier: Apache-2.0
"""Reads a farm of several models, pools and workloads from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hypersonic.plan.errors import PlanError
from hypersonic.plan.inputs import RULES, Rule, Target
from hypersonic.plan.measured import constant_service
from hypersonic.plan.mix.site import MIXED_RULES, JobClass, Mixed, PlannedModel, Pool, Way
from hypersonic.plan.read import Given, check_known, model_of
from hypersonic.plan.server_cost import SERVERS

#: the sections that make a file one of several models, and those of one model that it may not have
SEVERAL, SINGLE = ("models", "pools", "workloads"), ("model", "workload")

_SITE = ("platform", "cards_per_server", "kernel_mhz", "server_gbps", "server", "cores", "request_cpu_ms")
_WAY = tuple(each.name for each in fields(Way))
#: section -> field -> rule; None = a text
_FIELDS: Mapping[str, Mapping[str, Rule | None]] = {
    "models": {
        "name": None, "repository": None, "metrics": None, "xclbin": None, **RULES["model"], **MIXED_RULES["models"],
    },
    "pools": {**{name: RULES["site"].get(name) for name in _SITE}, **MIXED_RULES["pools"]},
    "workloads": {
        **{name: RULES["workload"][name] for name in ("events_per_s", "cpu_s", "share")}, **MIXED_RULES["workloads"],
    },
    "cards": MIXED_RULES["cards"],
    "calls": MIXED_RULES["calls"],
    "site": {**{name: RULES["site"].get(name) for name in _SITE}, **RULES["site"], **MIXED_RULES["site"]},
    "target": {name: RULES["target"][name] for name in ("added_percent", "p99_ms", "headroom")},
}  # fmt: skip
#: fields of a section that are no number and no text
_OTHERS = {"pools": ("models", "turns"), "workloads": ("calls",)}


def is_mixed(document: Any) -> bool:
    """Return whether a file describes several models, pools or workloads; also one of `hypersonic plan --json`."""
    return isinstance(document, dict) and bool(set(SEVERAL) & set(_inputs(document)))


def _inputs(document: Mapping[str, Any]) -> Mapping[str, Any]:
    inputs = document.get("inputs") if "schema" in document else document
    return inputs if isinstance(inputs, dict) else {}


def known_fields(section: str) -> tuple[str, ...]:
    """Return the fields of a section of such a file, in which `calls` is what a workload says of a model."""
    left_out = ("cards",) if section == "site" else ()
    return tuple(name for name in (*_FIELDS[section], *_OTHERS.get(section, ())) if name not in left_out)


def read_mixed(path: Path, document: Any) -> Mixed:
    """Return the farm of a file. Raises PlanError, which names the file, the section and the field; ManifestError, OSError."""
    inputs = _inputs(document)
    for section in inputs:
        if section in SINGLE:
            raise PlanError(
                f"{path}: {section} stands beside {', '.join(each for each in SEVERAL if each in inputs)}, expected either a "
                f"farm of one model (workload, model) or of several ({', '.join(SEVERAL)}); move it into {section}s"
            )
        check_known(path, str(section), (*SEVERAL, "site", "target"), "a section")
    site = _checked(path, "site", "site", inputs.get("site", {}))
    models = {name: _model(path, name, each) for name, each in _entries(path, inputs, "models")}
    pools = {name: _pool(path, name, each, site, tuple(models)) for name, each in _entries(path, inputs, "pools")}
    workloads = {name: _workload(path, name, each, models) for name, each in _entries(path, inputs, "workloads")}
    way = Way(**{name: value for name, value in site.items() if name in _WAY})
    mixed = Mixed(models, pools, workloads, way, Target(**_checked(path, "target", "target", inputs.get("target", {}))))
    _check(path, mixed)
    return mixed


def _entries(path: Path, inputs: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    entries = inputs.get(section)
    if not isinstance(entries, dict) or not entries:
        got = "is missing" if entries is None else f"is {entries!r:.80}"
        raise PlanError(
            f"{path}: {section} {got}, expected a name for each of the {section}, with its fields: "
            f"{', '.join(known_fields(section))}"
        )
    for name, content in entries.items():
        if not isinstance(name, str) or not name:
            raise PlanError(f"{path}: {section} has the name {name!r:.80}, expected a text; write it in quotes")
        yield name, content


def _checked(path: Path, section: str, place: str, content: Any) -> dict[str, Any]:
    """Return the fields of an entry, each checked.

    Args:
        place: the entry, such as `pools.u250`.
    """
    if not isinstance(content, dict):
        raise PlanError(f"{path}: {place} is {content!r:.80}, expected its fields: {', '.join(known_fields(section))}")
    for name, value in content.items():
        check_known(path, str(name), known_fields(section), f"a field of {place}")
        if name not in _OTHERS.get(section, ()):
            _check_value(path, f"{place}.{name}", value, _FIELDS[section][name])
    return dict(content)


def _check_value(path: Path, place: str, value: Any, rule: Rule | None) -> None:
    if rule is None and not (isinstance(value, str) and value):
        raise PlanError(f"{path}: {place} is {value!r:.80}, expected a text")
    if place.endswith(".server"):
        check_known(path, value, SERVERS, "a server")
    if rule is not None and not rule.allows(value):
        raise PlanError(f"{path}: {place} is {value!r:.80}, expected {rule}; change it")


def _model(path: Path, name: str, content: Any) -> PlannedModel:
    place = f"models.{name}"
    entry = _checked(path, "models", place, {"name": content} if isinstance(content, str) else content)
    given = {f"model.{key}": value for key, value in {"name": name, **entry}.items()}
    try:
        cost, found = model_of(Given(given))
    except PlanError as error:
        raise PlanError(f"{path}: {place}: {error}") from error
    cost = replace(cost, **{key: value for key, value in entry.items() if key in RULES["model"]})
    rows = int(entry.get("rows", found.values.get("workload.rows", 1)))
    if cost.service_ms:
        cost = replace(cost, measured=constant_service(cost.service_ms / 1e3, rows))
    others = {key: entry[key] for key in ("queue_limit", "load_s", "xclbin") if key in entry}
    return PlannedModel(cost, rows, **others)


def _pool(path: Path, name: str, content: Any, site: Mapping[str, Any], models: Sequence[str]) -> Pool:
    place = f"pools.{name}"
    entry = {**{key: value for key, value in site.items() if key in _SITE}, **_checked(path, "pools", place, content)}
    if "cards" not in entry:
        raise PlanError(
            f"{path}: {place}.cards is missing, expected the number of cards; a farm of several models is not sized"
        )
    if not entry.get("server_gbps"):
        raise PlanError(
            f"{path}: {place}.server_gbps is missing, expected the Gb/s of a server's link; write it there or in site"
        )
    if not isinstance(entry.get("turns", False), bool):
        raise PlanError(f"{path}: {place}.turns is {entry['turns']!r:.80}, expected true or false")
    hosted = entry.pop("models", list(models))
    if not isinstance(hosted, list | dict) or not hosted:
        raise PlanError(
            f"{path}: {place}.models is {hosted!r:.80}, expected a list of models: {', '.join(models)}; or each with what "
            f"differs on these cards, such as `{{{next(iter(models))}: {{service_ms: 3}}}}`"
        )
    for model in hosted:
        check_known(path, str(model), tuple(models), f"one of {place}'s models that the section models has")
    if isinstance(hosted, dict):
        entry["costs"] = {
            model: _checked(path, "cards", f"{place}.models.{model}", each or {}) for model, each in hosted.items()
        }
    if len({*hosted}) < len(hosted):
        raise PlanError(f"{path}: {place}.models is {hosted!r:.80}, expected each model once")
    pool = Pool(models=tuple(hosted), **entry)
    if pool.failed > pool.cards + pool.spares:
        raise PlanError(
            f"{path}: {place}.failed is {pool.failed}, expected at most its {pool.cards} cards and {pool.spares} spares"
        )
    return pool


def _workload(path: Path, name: str, content: Any, models: Mapping[str, PlannedModel]) -> JobClass:
    place = f"workloads.{name}"
    entry = _checked(path, "workloads", place, content)
    calls = entry.pop("calls", None)
    if not isinstance(calls, dict) or not calls:
        raise PlanError(
            f"{path}: {place}.calls is {calls!r:.80}, expected the models that an event calls, each with its number of calls; "
            f"write `calls: {{{next(iter(models))}: 1}}`"
        )
    made = []
    for model, what in calls.items():
        check_known(path, str(model), tuple(models), f"a model of {place}.calls that the section models has")
        each = what if isinstance(what, dict) else {"times": what}
        each = _checked(path, "calls", f"{place}.calls.{model}", each)
        made.append((model, int(each.get("rows", models[model].rows)), int(each.get("times", 1))))
    work = JobClass(tuple(made), **entry)
    if bool(work.jobs) == bool(work.events_per_s):
        raise PlanError(
            f"{path}: {place}.jobs is {work.jobs:g} and {place}.events_per_s is {work.events_per_s:g}, expected one of them "
            "above 0: jobs that wait for their answers, or events that arrive whether or not earlier ones are finished"
        )
    if work.events_per_s and work.in_flight > 1:
        raise PlanError(
            f"{path}: {place}.in_flight is {work.in_flight}, expected it only with {place}.jobs: events that arrive at a "
            "rate do not wait for each other"
        )
    return work


def _check(path: Path, mixed: Mixed) -> None:
    """Raise PlanError for parts that contradict each other."""
    way = mixed.way
    if way.background_gbps and way.background_gbps >= way.switch_gbps:
        raise PlanError(
            f"{path}: site.background_gbps is {way.background_gbps:g}, expected less than site.switch_gbps, {way.switch_gbps:g}"
        )
    hosted = {model for pool in mixed.pools.values() if pool.in_service for model in pool.models}
    for name, work in mixed.workloads.items():
        for model, _, _ in work.calls:
            if model not in hosted:
                raise PlanError(
                    f"{path}: workloads.{name} calls {model}, and no card in service has it, expected one of "
                    f"{', '.join(sorted(hosted)) or 'no model: all cards have failed'}; add it to a pool's models"
                )
