# SPDX-License-Identifier: Apache-2.0
"""The counts of both servers for requests that succeed, fail and are refused; identities between them; the metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.reference.batching import counts
from tests.reference.cases.http import addsub
from tests.reference.cases.infer import good, rows
from tests.reference.cases.model import WAYS, chain, failing, repeat, step
from tests.reference.pair import Side
from tests.reference.wire import Tensor, Wire, message
from tests.support.waiting import wait_until

Case = Callable[[Side], Any]
#: metrics that 2.51 has too; histograms and the time to load are newer
_TRITONS = re.compile(r"nv_(?!\w*_histogram_)(?!model_load_)")
PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


def cases() -> dict[str, Case]:
    """All of them, by name."""
    three = np.zeros((3, 16), np.float32)
    batch = [Tensor(name, "FP32", [3, 16], three.tobytes()) for name in ("INPUT0", "INPUT1")]
    cases: dict[str, Case] = {
        "requests": _counted(("addsub",), 3, lambda wire: [wire.infer(message("addsub", good())) for _ in range(3)]),
        "a batch": _counted(("addsub",), 1, lambda wire: wire.infer(message("addsub", batch))),
        "over HTTP": _counted(("addsub",), 1, lambda wire: wire.http("POST", "/v2/models/addsub/infer", addsub())),
        "in a stream": _counted(("addsub",), 2, lambda wire: wire.stream([message("addsub", good())] * 2)),
        "refused": _counted(("plain",), 0, lambda wire: [wire.infer(message("plain", rows(s))) for s in ([1, 3], [9, 2], [2])]),
        "unknown version": _counted(("addsub",), 0, lambda wire: wire.infer(message("addsub", good(), version="9"))),
        "ensemble": _counted(("chain", "addsub_int32"), 1, lambda wire: wire.infer(chain())),
        "ensemble, refused": _counted(("chain", "addsub_int32"), 0, lambda wire: wire.infer(chain(["nope"]))),
        "sequence": _counted(("direct",), 2, lambda wire: [wire.infer(s) for s in (step("direct", 1, 71, True), step("direct", 2, 71, end=True))]),
        "sequence, not started": _counted(("direct",), 0, lambda wire: wire.infer(step("direct", 1, 72))),
        "decoupled: three answers": _counted(("repeat",), 1, lambda wire: wire.stream([repeat(1, 2, 3)])),
        "decoupled: no answer": _counted(("repeat",), 1, lambda wire: wire.stream([repeat()])),
        "decoupled: an error between": _counted(("repeat",), 1, lambda wire: wire.stream([repeat(1, -2, 3)])),
        "decoupled: by ModelInfer": _counted(("repeat",), 0, lambda wire: wire.infer(repeat(1))),
        "identities": _identities,
        "metrics of a model": _metrics,
        "metric families": lambda side: _families(side.wire),
    }  # fmt: skip
    for way in WAYS:
        cases[f"model: {way}"] = _counted(("failing",), 1, partial(Wire.infer, request=failing(way)))
    for way in ("nothing_wrong", "exception", "error_code"):
        ask = failing(way, "failing_chain")
        cases[f"ensemble of a model: {way}"] = _counted(("failing_chain", "failing"), 1, partial(Wire.infer, request=ask))
    return {f"statistics: {name}": case for name, case in cases.items()}


def _counted(models: Sequence[str], requests: int, ask: Callable[[Wire], Any]) -> Case:
    """The increase of the counts of `models`, once the first has counted that many requests."""

    def case(side: Side) -> Any:
        wire = side.wire
        before = {model: counts(wire, model) for model in models}
        ask(wire)
        wait_until(lambda: _requests(_more(wire, models[0], before[models[0]])) >= requests)
        return {model: _more(wire, model, before[model]) for model in models}

    return case


def _more(wire: Wire, model: str, before: dict[str, int]) -> dict[str, int]:
    return {key: value - before.get(key, 0) for key, value in counts(wire, model).items() if value > before.get(key, 0)}


def _requests(found: dict[str, int]) -> int:
    return found.get("success", 0) + found.get("fail", 0)


def _identities(side: Side) -> Any:
    """Of `shapes` models nobody else asks: one request at a time, each a run of its own."""
    wire, model = side.wire, "variable"
    (before,) = wire.rpc("ModelStatistics", name=model)["model_stats"]
    for n in (1, 2, 3):
        wire.infer(message(model, [Tensor("X", "FP32", [n, 4, 2], bytes(32 * n))]))
    wait_until(lambda: _requests(counts(wire, model)) >= _requests(_count_of(before)) + 3)
    (statistics,) = wire.rpc("ModelStatistics", name=model)["model_stats"]
    stats, batches = statistics["inference_stats"], statistics["batch_stats"]
    total = {part: int(stats[part]["ns"]) for part in (*PARTS, "success")}
    in_batches = {part: sum(int(batch[part]["ns"]) for batch in batches) for part in PARTS[1:]}
    return {
        "every part takes time": all(total[part] > 0 for part in PARTS),
        "parts are within the whole": sum(total[part] for part in PARTS) <= total["success"],
        "batches add up to the requests": in_batches == {part: total[part] for part in PARTS[1:]},
        "rows": sum(int(b["batch_size"]) * int(b["compute_infer"]["count"]) for b in batches)
        == int(statistics["inference_count"]),
        "runs": sum(int(b["compute_infer"]["count"]) for b in batches) == int(statistics["execution_count"]),
        "last": int(statistics["last_inference"]) >= int(before.get("last_inference", 0)),
    }


def _count_of(found: Any) -> dict[str, int]:
    return {key: int(found["inference_stats"].get(key, {}).get("count", 0)) for key in ("success", "fail")}


def _metrics(side: Side) -> Any:
    """Names and labels of everything about `shapes`' model, and that counters agree with ModelStatistics."""
    wire, model = side.wire, "variable"
    lines = [line for line in wire.metrics().splitlines() if f'model="{model}"' in line and _TRITONS.match(line)]
    values = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines if "reason" not in line}
    (stats,) = wire.rpc("ModelStatistics", name=model)["model_stats"]
    requests = int(stats["inference_stats"].get("success", {}).get("count", 0))
    infer_ns = int(stats["inference_stats"]["compute_infer"].get("ns", 0))
    return {
        "names": sorted(line.rsplit(" ", 1)[0] for line in lines),
        "success": values["nv_inference_request_success"] == requests,
        "rows": values["nv_inference_count"] == int(stats.get("inference_count", 0)),
        "runs": values["nv_inference_exec_count"] == int(stats.get("execution_count", 0)),
        # Triton rounds each request to microseconds
        "time": abs(values["nv_inference_compute_infer_duration_us"] - infer_ns / 1000) <= requests,
    }  # fmt: skip


def _families(wire: Wire) -> Any:
    """HELP and TYPE of every family of Triton's."""
    return sorted(line for line in wire.metrics().splitlines() if line.startswith("#") and _TRITONS.match(line.split()[2]))
