# SPDX-License-Identifier: Apache-2.0
"""The cost of a request on both servers: between the measured sizes, as a limit, simulated, and in a farm of several models."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.plan.changes import changes
from hypersonic.plan.errors import PlanError
from hypersonic.plan.farm import Call, Constant, Farm, Hosted, OpenLoop, Server, simulate, simulate_mix
from hypersonic.plan.inputs import Basis, Question, Site, Workload
from hypersonic.plan.limits import Limit, capacity_of, unqueued
from hypersonic.plan.mix.analyse import analyse
from hypersonic.plan.mix.read import read_mixed
from hypersonic.plan.mix.site import farm_of, loads_of
from hypersonic.plan.read import Given, make_question, read_file
from hypersonic.plan.server_cost import COMMAND, LOCK_S, MEASURED, SERVERS, RequestCpu
from tests.plan.questions import hlt


def measured(server: str, **workload: Any) -> Question:
    """The HLT question with that server's own figures."""
    question = hlt(server=server, request_cpu_ms=0.0)
    return replace(question, workload=replace(question.workload, **workload))


def limit_of(question: Question, part: str, cards: int = 1) -> Limit:
    (found,) = [limit for limit in capacity_of(question, cards).limits if limit.part == part]
    return found


@pytest.mark.parametrize("line", MEASURED)
def test_a_request_of_a_measured_size_costs_what_was_measured(line: object) -> None:
    size, python_us, triton_us = vars(line).values()
    assert RequestCpu("python", 1).mean_s(size) == pytest.approx(python_us / 1e6)
    assert RequestCpu("triton", size).mean_s(1) == pytest.approx(triton_us / 1e6)


@given(st.sampled_from(SERVERS), st.integers(0, 1 << 24), st.integers(0, 1 << 24))
def test_a_larger_request_costs_as_much_or_more_and_no_size_costs_nothing(server: str, one: int, other: int) -> None:
    small, large = sorted((one, other))
    cost = RequestCpu(server, 1)
    assert 0 < cost.mean_s(small) <= cost.mean_s(large)


@given(st.integers(1, 1 << 22), st.integers(1, 64))
def test_the_cost_follows_from_the_bytes_alone(rows: int, row_bytes: int) -> None:
    assert RequestCpu("python", row_bytes).mean_s(rows) == RequestCpu("python", 1).mean_s(rows * row_bytes)


def test_the_lines_are_by_rising_bytes_and_tritonserver_takes_less() -> None:
    assert all(small.request_bytes < large.request_bytes for small, large in pairwise(MEASURED))
    assert all(0 < line.triton_us < line.python_us for line in MEASURED)


@pytest.mark.parametrize("server", SERVERS)
def test_the_limit_of_the_cores_is_that_of_the_server(server: str) -> None:
    cost_s = RequestCpu(server, 72).mean_s(16_000)
    found = limit_of(measured(server), "server CPU", cards=3)
    assert found.events_per_s == pytest.approx(3 * 16 / cost_s)
    assert (found.mark.basis, found.mark.source) == (Basis.MEASURED, COMMAND)
    assert unqueued(measured(server)).server_s == pytest.approx(cost_s)


def test_a_time_that_is_given_replaces_the_measured_one() -> None:
    question = make_question(Given({"model.name": "facile", "workload.jobs": 1, "site.request_cpu_ms": 2.5}))
    assert limit_of(question, "server CPU").events_per_s == pytest.approx(16 / 2.5e-3)


def test_a_python_process_has_a_limit_that_no_core_raises_and_tritonserver_has_none() -> None:
    many = replace(measured("python", calls=2), site=Site(cores=4096))
    assert limit_of(many, "Python process", cards=2).events_per_s == pytest.approx(2 / 2 / LOCK_S)
    assert limit_of(many, "Python process").mark.basis == Basis.ASSUMED
    assert {limit.part for limit in capacity_of(measured("triton"), 1).limits}.isdisjoint({"Python process"})


def test_tritonserver_is_a_change_where_the_python_process_limits() -> None:
    small = measured("python", rows=1)
    by_name = {each.name: each for each in changes(small, 1, 1.0)}
    assert capacity_of(small, 1).binding.part == "Python process"
    assert by_name["tritonserver with the fpga backend instead of hypersonic serve"].gain > 1
    assert by_name["batch size: two events a call, 2 rows"].gain == pytest.approx(2, rel=0.01)
    assert not any("tritonserver" in each.name for each in changes(measured("triton"), 1, 1.0))


@pytest.mark.parametrize(("cores", "most_per_s"), [(1, 500.0), (2, 1000.0), (8, 2000.0)])
def test_a_simulated_server_serves_by_its_cores_and_its_lock(cores: int, most_per_s: float) -> None:
    server = Server(Constant(1e-4), model="a", cpu_cores=cores, request_cpu=Constant(2e-3), lock_s=5e-4)
    farm, call = Farm((server,)), Call(1, 0.0, 0.0, "a")
    idle = simulate(farm, OpenLoop(50.0, call, poisson=False), seconds=2)
    assert idle.call_s.mean_s == pytest.approx(2.1e-3)
    full = simulate(farm, OpenLoop(1.3 * most_per_s, call), seconds=5, warmup_s=1)
    assert full.events_per_s == pytest.approx(most_per_s, rel=0.03)


def test_models_of_a_server_have_costs_of_their_own() -> None:
    other = Hosted(Constant(0.0), model="b", request_cpu=Constant(0.03))
    server = Server(Constant(0.0), model="a", request_cpu=Constant(0.01), others=(other,))
    for model, cost_s in (("a", 0.01), ("b", 0.03)):
        mix = simulate_mix(Farm((server,)), [OpenLoop(1.0, Call(1, 0.0, 0.0, model), poisson=False)], seconds=30)
        assert mix.loads[0].call_s.mean_s == pytest.approx(cost_s)


SEVERAL = """
models: {big: {input_bytes: 72, output_bytes: 4, rows: 16000}, small: {input_bytes: 64, output_bytes: 4, rows: 1}}
pools:
  own: {cards: 1, server: python}
  other: {cards: 1}
workloads: {all: {events_per_s: 100, calls: {big: 1, small: 1}}}
site: {server: triton, server_gbps: 25}
"""


def test_pools_of_a_farm_have_servers_of_their_own(tmp_path: Path) -> None:
    mixed = read_mixed(tmp_path / "farm.yaml", yaml.safe_load(SEVERAL))
    assert {name: pool.server for name, pool in mixed.pools.items()} == {"own": "python", "other": "triton"}
    farm, names = farm_of(mixed, None)
    for server, name in zip(farm.servers, ("python", "triton"), strict=True):
        costs = {each.model: each.request_cpu for each in server.hosted}
        assert costs == {"big": RequestCpu(name, 72), "small": RequestCpu(name, 64)}
    assert [server.lock_s for server in farm.servers] == [LOCK_S, 0.0]
    parts = {part.name for part in analyse(farm, loads_of(mixed), names).parts}
    assert "own: process" in parts
    assert "other: process" not in parts


@pytest.mark.parametrize("place", ["site", "pools.own"])
def test_an_unknown_server_is_refused_by_name(tmp_path: Path, place: str) -> None:
    document = yaml.safe_load(SEVERAL)
    (document["site"] if place == "site" else document["pools"]["own"])["server"] = "tritonserver"
    with pytest.raises(PlanError, match="'tritonserver' is not a server, expected one of python, triton; did you mean triton"):
        read_mixed(tmp_path / "farm.yaml", document)
    file = tmp_path / "one.yaml"
    file.write_text("{workload: {jobs: 9}, model: facile, site: {server_gbps: 25, server: pyton}}")
    with pytest.raises(PlanError, match=r"one\.yaml: 'pyton' is not a server, .* did you mean python"):
        read_file(file)


def test_jobs_of_one_model_and_of_several_do_the_same_work_of_their_own(tmp_path: Path) -> None:
    document = yaml.safe_load(SEVERAL)
    document["workloads"]["all"] = {"jobs": 3, "cpu_s": 10, "share": 0.3, "calls": {"big": 1}}
    work = read_mixed(tmp_path / "farm.yaml", document).workloads["all"]
    assert work.own_s == Workload(cpu_s=10, share=0.3).own_s == 7.0
