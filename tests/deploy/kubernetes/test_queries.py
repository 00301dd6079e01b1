# SPDX-License-Identifier: Apache-2.0
"""Every PromQL expression that deploy/ ships, evaluated by the real promtool, and the decisions of the autoscaler."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from tests.deploy.kubernetes.autoscaler import decide
from tests.deploy.kubernetes.programs import Manifest, one
from tests.deploy.kubernetes.promql import (
    FARM,
    MINUTES,
    NAMESPACE,
    STEP_S,
    documented,
    evaluate,
    expressions,
    metrics_of,
    series,
)
from tests.support.optional import skip_without

pytestmark = skip_without("promtool", "prometheus")

#: of kube-state-metrics, and Prometheus' own
FOREIGN = {
    "up",
    "kube_horizontalpodautoscaler_spec_max_replicas",
    "kube_horizontalpodautoscaler_status_condition",
    "kube_horizontalpodautoscaler_status_current_replicas",
    "kube_horizontalpodautoscaler_status_desired_replicas",
    "kube_pod_container_status_restarts_total",
}
BUSY, WAIT = "fpga_compute_unit_busy_seconds_total", "fpga_model_card_wait_seconds_total"
SHARE = "hypersonic:busy_share:rate1m"
#: a server of a farm without other models: no fallback, no instance on the host, no model that is on no card
QUIET = {"hypersonic_instance_busy_seconds_total": 0.0, "fpga_fallback_active": 0.0, "fpga_fallback_runs_total": 0.0, WAIT: 0.0}
#: what has no value while there are no requests: times and shares of requests
OF_REQUESTS = {
    "hypersonic:request_failures:ratio_rate5m",
    "hypersonic:request_seconds:p99_5m",
    "cards.json: Kernel clock while busy",
    "models.json: Rows per execution",
    "models.json: Request time, 99th percentile",
    "models.json: Time per request by phase",
    "models.json: Failed requests, share",
    "models.json: Kernel clocks per row",
    "models.json: Share of executions on the fallback",
}
#: the default of SuperSONIC's chart 0.3.1, which says milliseconds of waiting per execution; its threshold and kind
SUPERSONIC = (
    f'sum by (release) (rate(nv_inference_queue_duration_us{{release=~"{FARM}"}}[30s])) '
    f'/ sum by (release) ((rate(nv_inference_exec_count{{release=~"{FARM}"}}[30s]) * 1000) + 0.001)'
)


def supersonic(query: str, threshold: int) -> Manifest:
    """The autoscaler of SuperSONIC's chart."""
    trigger = {"metricType": "Value", "metadata": {"query": query, "threshold": str(threshold)}}
    return {"spec": {"minReplicaCount": 1, "maxReplicaCount": 10, "triggers": [trigger]}}


def farm_of(shares: dict[str, float], **others: float) -> dict[str, str]:
    """The series of servers by name -> share of busy time."""
    given: dict[str, str] = {}
    for server, share in shares.items():
        given |= series(server, {**QUIET, BUSY: share, **others})
    return given


def servers(count: int, share: float) -> dict[str, str]:
    return farm_of({f"server-{number}": share for number in range(count)})


@pytest.fixture
def scaling(farms: dict[str, list[Manifest]]) -> Manifest:
    """The ScaledObject of the overlay u250: 2 to 10 servers."""
    return one(farms["u250"], "ScaledObject")


def query_of(scaled_object: Manifest) -> str:
    (trigger,) = scaled_object["spec"]["triggers"]
    text: str = trigger["metadata"]["query"]
    return text


def test_expressions_name_only_metrics_that_exist(farms: dict[str, list[Manifest]], monitoring: list[Manifest]) -> None:
    found = expressions(farms, monitoring)
    recorded = {each.place for each in found if ":" in each.place and " " not in each.place}
    parts = {
        f"{each.name}_{part}"
        for each in documented().values()
        if each.kind == "histogram"
        for part in ("bucket", "sum", "count")
    }
    known = {*documented(), *recorded, *parts, *FOREIGN}
    unknown = {each.place: metrics_of(each.text) - known for each in found}
    assert not {place: names for place, names in unknown.items() if names}
    assert len(found) > 60
    assert all(metrics_of(each.text) for each in found)


def test_names_of_metrics_are_found_in_an_expression() -> None:
    text = (
        'sum by (a, le) (rate(x_total{b="c"}[1m]) and on (d) y:z == 1) / (count(w) > 0) or label_replace(v, "e", "f", "", "")'
    )
    assert metrics_of(text) == {"x_total", "y:z", "w", "v"}


@pytest.mark.parametrize(("state", "share"), [("idle", 0.0), ("loaded", 0.8), ("overloaded", 1.0), ("absent", math.nan)])
def test_every_expression_yields_numbers_in_every_state(
    farms: dict[str, list[Manifest]], monitoring: list[Manifest], tmp_path: Path, state: str, share: float
) -> None:
    """No expression is an error, divides by zero or yields NaN. Without any server only what has to speak then has a value."""
    found = expressions(farms, monitoring)
    hpa = 'namespace="sonic",horizontalpodautoscaler="keda-hpa-hypersonic-u250"'
    given: dict[str, str] = {}
    if state != "absent":
        given = servers(2, share)
        if state == "idle":  # not a counter moves
            given = {name: "0x40" if values.startswith("0+") else values for name, values in given.items()}
        steps = MINUTES * 60 // STEP_S
        for name in FOREIGN - {"up", "kube_horizontalpodautoscaler_status_condition"}:
            given[f'{name}{{{hpa},pod="hypersonic-a",container="server"}}'] = f"2x{steps}"
    texts = {each.place: each.text.replace("$release", FARM).replace("$namespace", NAMESPACE) for each in found}
    yielded = evaluate(given, texts.values(), tmp_path)
    values = {place: yielded[text] for place, text in texts.items()}
    assert all(math.isfinite(number) for numbers in values.values() for number in numbers), values
    spoken = {place for place, numbers in values.items() if numbers}
    if state == "absent":
        assert spoken == {"HypersonicNoCapacity", "busy-share.yaml"}
        return
    assert "HypersonicNoCapacity" not in spoken
    assert ("HypersonicFarmOverloaded" in spoken) == (state == "overloaded")
    assert values["ScaledObject u250"] == pytest.approx([2 * share])
    silent = {place.partition(" (")[0] for place in texts if place not in spoken}
    silent = {place for place in silent if not re.fullmatch(r"Hypersonic\w+", place)}
    others = {f"ScaledObject {overlay}" for overlay in farms if overlay != "u250"}
    assert silent == {*others, "models.json: Models not loaded", *(OF_REQUESTS if state == "idle" else ())}


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 2), (0.3, 2), (0.6, 3), (0.73, 4), (0.8, 4), (0.87, 4), (0.9, 5), (1.0, 5)]
)
def test_four_servers_become_as_many_as_their_busy_time_asks_for(
    tmp_path: Path, scaling: Manifest, share: float, wanted: int
) -> None:
    """Idle goes to the minimum, within a tenth of 0.8 nothing changes, overload adds servers."""
    query = query_of(scaling)
    (value,) = evaluate(servers(4, share), [query], tmp_path)[query]
    assert value == pytest.approx(4 * share)
    assert decide(scaling, 4, [value]) == wanted


def test_the_farm_grows_to_its_maximum_and_no_further(scaling: Manifest) -> None:
    counts = [2]
    while counts[-1] != decide(scaling, counts[-1], [float(counts[-1])]):
        counts.append(decide(scaling, counts[-1], [float(counts[-1])]))
    assert counts[:4] == [2, 3, 4, 5]
    assert counts[-1] == scaling["spec"]["maxReplicaCount"] == 10


def test_without_any_series_the_number_of_servers_stays(tmp_path: Path, scaling: Manifest) -> None:
    query = query_of(scaling)
    assert evaluate({}, [query], tmp_path)[query] == []
    assert [decide(scaling, current, []) for current in (2, 5, 10)] == [2, 5, 10]
    careless = {"spec": {**scaling["spec"], "triggers": [{"metricType": "AverageValue", "metadata": {"threshold": "0.8"}}]}}
    assert decide(careless, 5, []) == 2, "KEDA's default takes no value for 0"


def test_no_farm_scales_to_zero(farms: dict[str, list[Manifest]]) -> None:
    for farm in farms.values():
        spec = one(farm, "ScaledObject")["spec"]
        assert spec["minReplicaCount"] >= 1
        assert "idleReplicaCount" not in spec


def test_a_server_whose_card_hangs_is_replaced_by_one_more(tmp_path: Path, scaling: Manifest) -> None:
    """Three of four work at their limit; the fourth one has a hung card, so it takes no requests and is not busy."""
    given = farm_of({"a": 1.0, "b": 1.0, "c": 1.0})
    given |= farm_of({"d": 0.0}, fpga_compute_unit_in_service=0.0, hypersonic_model_in_service=0.0, hypersonic_ready=0.0)
    query = query_of(scaling)
    (value,) = evaluate(given, [query], tmp_path)[query]
    assert value == pytest.approx(3.8)
    assert decide(scaling, 4, [value]) == 5


def test_a_hung_unit_does_not_dilute_the_share_of_its_card(tmp_path: Path) -> None:
    """One of two units hangs; the other one works all the time: the card is as busy as it can be."""
    given = farm_of({"a": 1.0})
    lost = {
        name: values
        for name, values in farm_of({"a": 0.0}, fpga_compute_unit_in_service=0.0).items()
        if "compute_unit_1" in name
    }
    given |= {name.replace("compute_unit_1", "compute_unit_2"): values for name, values in lost.items()}
    assert evaluate(given, [SHARE], tmp_path)[SHARE] == pytest.approx([1.0])


def test_a_fallback_at_work_counts_and_one_that_waits_does_not(tmp_path: Path) -> None:
    waiting = farm_of({"a": 0.6}, fpga_fallback_active=0.0)
    assert evaluate(waiting, [SHARE], tmp_path)[SHARE] == pytest.approx([0.6])
    working = farm_of({"a": 0.0}, fpga_compute_unit_in_service=0.0, hypersonic_instance_busy_seconds_total=0.9)
    assert evaluate(working, [SHARE], tmp_path)[SHARE] == pytest.approx([0.9])


def test_a_server_that_still_loads_does_not_make_the_farm_grow_further(tmp_path: Path, scaling: Manifest) -> None:
    """Four full servers and a fifth one that has no models yet: five are wanted, as before."""
    query = query_of(scaling)
    given = servers(4, 1.0) | {name: "0x40" for name in series("server-4") if name.startswith("hypersonic_ready")}
    (value,) = evaluate(given, [query], tmp_path)[query]
    assert decide(scaling, 5, [value], ready=4) == 5


def away(server: str, busy: float, wait: float) -> dict[str, str]:
    """A server whose model takes turns and is on no card now.

    Args:
        busy: the share of time in which it had runs, while it was on a card.
        wait: that in which its requests waited for a card.
    """
    return farm_of({server: busy}, fpga_model_resident=0.0, fpga_compute_unit_in_service=0.0, **{WAIT: wait})


@pytest.mark.parametrize(("busy", "wait", "wanted"), [(0.002, 0.998, 5), (0.3, 0.5, 4), (0.002, 0.1, 2), (0.5, 0.0, 3)])
def test_time_in_which_requests_wait_for_a_card_is_load(
    tmp_path: Path, scaling: Manifest, busy: float, wait: float, wanted: int
) -> None:
    given: dict[str, str] = {}
    for server in "abcd":
        given |= away(server, busy, wait)
    query = query_of(scaling)
    (value,) = evaluate(given, [query], tmp_path)[query]
    assert value == pytest.approx(4 * (busy + wait))
    assert decide(scaling, 4, [value]) == wanted


@pytest.mark.parametrize(("scraped", "share", "wanted"), [(4, 0.8, 4), (3, 0.8, 4), (1, 0.8, 4), (0, 0.8, 4), (2, 1.0, 5)])
def test_servers_that_prometheus_cannot_scrape_any_more_are_not_taken_for_idle(
    tmp_path: Path, scaling: Manifest, scraped: int, share: float, wanted: int
) -> None:
    """From the third minute on, so that nothing of their last minute is left."""
    given = servers(scraped, share)
    for number in range(scraped, 4):
        lost = series(f"server-{number}", {**QUIET, BUSY: share})
        cut = {name: f"{values.partition('x')[0]}x12 stale" for name, values in lost.items()}
        given |= {name: "1x12 0x28" if name.startswith("up{") else values for name, values in cut.items()}
    query = query_of(scaling)
    (value,) = evaluate(given, [query], tmp_path)[query]
    assert value == pytest.approx(scraped * share + (4 - scraped) * 0.8)
    assert decide(scaling, 4, [value]) == wanted


def test_a_server_that_has_never_been_scraped_is_not_load_while_it_starts(tmp_path: Path, scaling: Manifest) -> None:
    """Five are wanted for four full servers, and the fifth one has no open port yet."""
    starting = {name: "_x30 0x10" for name in series("server-4") if name.startswith("up{")}
    query = query_of(scaling)
    assert evaluate(servers(4, 1.0) | starting, [query], tmp_path)[query] == pytest.approx([4.0])


def test_farms_of_one_name_in_two_namespaces_are_not_added(
    farms: dict[str, list[Manifest]], monitoring: list[Manifest], tmp_path: Path, scaling: Manifest
) -> None:
    (of_chart,) = [each.text for each in expressions(farms, monitoring) if each.place == "busy-share.yaml"]
    of_chart = of_chart.replace('release="hypersonic-farm"', f'release="{FARM}"')
    other = {name.replace("server-", "other-"): values for name, values in servers(4, 1.0).items()}
    given = servers(4, 0.5) | {name.replace(f'"{NAMESPACE}"', '"test"'): values for name, values in other.items()}
    yielded = evaluate(given, [query_of(scaling), of_chart], tmp_path)
    assert yielded[query_of(scaling)] == pytest.approx([2.0])
    assert yielded[of_chart] == pytest.approx([50.0])


def test_overload_is_noticed_within_a_minute(tmp_path: Path, scaling: Manifest) -> None:
    """Servers that were half busy are fully busy from the fifth minute on."""
    query = query_of(scaling)
    given = {name: "0+7.5x20 165+15x20" if name.startswith(BUSY) else values for name, values in servers(4, 0.5).items()}
    at = {time: decide(scaling, 4, evaluate(given, [query], tmp_path, time)[query]) for time in ("5m", "6m")}
    assert at == {"5m": 3, "6m": 5}


def test_supersonic_s_own_query_works_on_this_server_s_metrics(tmp_path: Path) -> None:
    """Milliseconds of waiting per execution; nothing of it is known about requests per execution."""
    scaled = supersonic(SUPERSONIC, 100)
    wanted = {}
    for state, waiting_us in (("idle", 0.0), ("loaded", 95_000.0), ("overloaded", 200_000.0)):
        values = evaluate(farm_of({"a": 0.5, "b": 0.5}, nv_inference_queue_duration_us=waiting_us), [SUPERSONIC], tmp_path)[
            SUPERSONIC
        ]
        wanted[state] = decide(scaled, 4, values)
    assert wanted == {"idle": 1, "loaded": 4, "overloaded": 8}
    assert decide(scaled, 4, evaluate({}, [SUPERSONIC], tmp_path)[SUPERSONIC]) == 1, (
        "its chart takes no series for an idle farm"
    )


@pytest.mark.parametrize(("share", "wanted"), [(0.0, 1), (0.8, 4), (1.0, 5), (None, 4)])
def test_the_share_of_busy_time_scales_supersonic_s_chart_too(
    farms: dict[str, list[Manifest]], monitoring: list[Manifest], tmp_path: Path, share: float | None, wanted: int
) -> None:
    (query,) = [each.text for each in expressions(farms, monitoring) if each.place == "busy-share.yaml"]
    query = query.replace('release="hypersonic-farm"', f'release="{FARM}"')
    given = {} if share is None else servers(4, share)
    assert decide(supersonic(query, 80), 4, evaluate(given, [query], tmp_path)[query]) == wanted
