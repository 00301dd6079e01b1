# SPDX-License-Identifier: Apache-2.0
"""Files of mixed farms: what they give, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersonic import cli
from hypersonic.plan.errors import PlanError
from hypersonic.plan.mix.make import plan_mixed
from hypersonic.plan.mix.read import is_mixed, read_mixed
from hypersonic.plan.mix.site import Mixed, Pool, farm_of, loads_of
from hypersonic.plan.read import load_document

FARM = """\
models:
  facile: {rows: 1000}
  mine: {input_bytes: 100, output_bytes: 4, rows: 10, service_ms: 20, queue_limit: 5}
  slow: {input_bytes: 100, output_bytes: 4, ii: 2.5}
pools:
  old: {platform: u250, cards: 4, cards_per_server: 2, spares: 1, failed: 2, models: [facile, mine]}
  new: {platform: u55c, cards: 1, server_gbps: 100}
workloads:
  hlt: {jobs: 30, cpu_s: 0.5, share: 0.2, in_flight: 3, calls: {facile: 1, mine: {times: 2, rows: 20}}}
  stream: {events_per_s: 5, calls: {slow: 1}}
site: {server_gbps: 25, rtt_ms: 1, envoys: 2}
target: {headroom: 0.7}
"""


def written(place: Path, text: str, name: str = "farm.yaml") -> Path:
    (place / name).write_text(text)
    return place / name


def read(place: Path, text: str) -> Mixed:
    file = written(place, text)
    return read_mixed(file, load_document(file))


def test_a_file_gives_servers_and_loads(tmp_path: Path) -> None:
    mixed = read(tmp_path, FARM)
    farm, names = farm_of(mixed, None)
    assert names == ("old", "old", "new")
    assert [server.cards for server in farm.servers] == [1, 2, 1]  # a card has failed beyond the spare
    assert [hosted.model for hosted in farm.servers[0].hosted] == ["facile", "mine"]
    assert [hosted.model for hosted in farm.servers[2].hosted] == ["facile", "mine", "slow"]
    assert farm.servers[0].link.bits_per_s == 25e9
    assert farm.servers[2].link.bits_per_s == 100e9
    assert farm.link.delay_s == 0.0005
    assert farm.proxy is not None
    assert farm.proxy.count == 2
    mine, slow = farm.servers[2].hosted[1:]
    assert mine.service.mean_s(20) == pytest.approx(0.04)  # for twice the rows
    assert mine.queue_limit == 5
    assert slow.service.mean_s(1) == pytest.approx(2.5 / 300e6)
    hlt, stream = loads_of(mixed)
    assert [(call.model, call.rows) for call in hlt.calls] == [("facile", 1000), ("mine", 20), ("mine", 20)]
    assert (hlt.jobs, hlt.in_flight, hlt.own_work_s) == (30, 3, pytest.approx(0.4))  # type: ignore[union-attr] # jobs
    assert stream.rate_per_s == 5  # type: ignore[union-attr] # arrivals


def test_a_model_may_cost_something_else_on_each_kind_of_cards(tmp_path: Path) -> None:
    pools = "{facile: {units: 2}, mine: {service_ms: 50, units: 3}, slow: {ii: 5}}"
    mixed = read(tmp_path, FARM.replace("[facile, mine]", pools))
    old, new = (farm_of(mixed, None)[0].servers[index].hosted for index in (0, 2))
    assert [hosted.units_per_card for hosted in old] == [2, 3, 1]
    assert [hosted.units_per_card for hosted in new] == [1, 1, 1]
    assert [each[1].service.mean_s(10) for each in (old, new)] == pytest.approx([0.05, 0.02])
    assert [each[2].service.mean_s(1) for each in (old, new)] == pytest.approx([5 / 300e6, 2.5 / 300e6])


def test_a_file_of_one_model_is_not_mixed(tmp_path: Path) -> None:
    assert not is_mixed(load_document(written(tmp_path, "{workload: {jobs: 3}, model: facile, site: {server_gbps: 25}}")))
    assert not is_mixed([1])
    assert not is_mixed({"schema": 1, "inputs": {"workload": {}}})


@pytest.mark.parametrize(
    ("cards", "per_server", "spares", "failed", "filling"),
    [
        (4, 2, 0, 0, [2, 2]), (5, 2, 0, 0, [2, 2, 1]), (4, 2, 1, 1, [2, 2]), (4, 2, 0, 2, [1, 1]), (4, 2, 0, 3, [1]),
        (2, 1, 0, 2, []), (3, 1, 5, 3, [1, 1, 1]),
    ],
)  # fmt: skip
def test_spares_take_the_places_of_failed_cards(
    cards: int, per_server: int, spares: int, failed: int, filling: list[int]
) -> None:
    pool = Pool(cards, ("a",), cards_per_server=per_server, spares=spares, failed=failed)
    assert list(pool.filling) == filling
    assert pool.in_service == sum(filling)


def test_the_cards_that_a_pool_needs_leave_the_headroom(tmp_path: Path) -> None:
    text = """\
models: {mine: {input_bytes: 1, output_bytes: 1, service_ms: 100}}
pools: {all: {cards: 4, server_gbps: 25}}
workloads: {stream: {events_per_s: 36, calls: {mine: 1}}}
target: {headroom: 0.75}
"""
    plan = plan_mixed(read(tmp_path, text), simulate=False)
    assert plan.pools["all"].asked == pytest.approx(0.9)
    assert plan.pools["all"].needed == 5  # 3.6 / 0.75
    assert not plan.reached
    assert plan_mixed(read(tmp_path, text.replace("cards: 4", "cards: 5")), simulate=False).reached


def test_what_arrives_faster_than_it_is_served_is_unbounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
models: {mine: {input_bytes: 1, output_bytes: 1, service_ms: 100}}
pools: {all: {cards: 2, server_gbps: 25}}
workloads: {stream: {events_per_s: 30, calls: {mine: 1}}}
"""
    out = tmp_path / "out.json"
    assert cli.main(["plan", "--file", str(written(tmp_path, text)), "--json", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "stream: unbounded. More events arrive than a part can serve, so its queue grows for ever." in printed
    assert "There is no simulation: times are unbounded." in printed
    assert json.loads(out.read_text())["workloads"]["stream"]["event_s"] is None
    limited = text.replace("service_ms: 100", "service_ms: 100, queue_limit: 3")
    assert cli.main(["plan", "--file", str(written(tmp_path, limited)), "--json", str(out)]) == 1
    assert "unbounded" not in capsys.readouterr().out
    stream = json.loads(out.read_text())["workloads"]["stream"]
    assert stream["refused"] == pytest.approx(1 / 3, abs=0.03)
    assert 0.2 < stream["call_s"]["mine"] < 0.5


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "models:\n",
            "model: facile\nmodels:\n",
            "model stands beside models, pools, workloads, expected either a farm of one",
        ),
        ("workloads:", "works:", "'works' is not a section, expected one of models, pools, workloads, site, target"),
        (
            "site:",
            "sight:",
            "'sight' is not a section, expected one of models, pools, workloads, site, target; did you mean site?",
        ),
        ("service_ms: 20", "service_ms: -1", "models.mine.service_ms is -1, expected a number of milliseconds, 0 or more"),
        ("ii: 2.5", "ii: 0.5", "models.slow.ii is 0.5, expected a number from 1 to"),
        ("ii: 2.5", "iii: 2", "'iii' is not a field of models.slow, expected one of name, repository, "),
        ("facile:", "facil:", "models.facil: model is 'facil', expected a model's folder, or a zoo model"),
        ("cards: 4", "cards: 0", "pools.old.cards is 0, expected a whole number from 1 to 10,000"),
        ("cards: 4, ", "", "pools.old.cards is missing, expected the number of cards"),
        ("failed: 2", "failed: 6", "pools.old.failed is 6, expected at most its 4 cards and 1 spares"),
        ("[facile, mine]", "[facile, yours]", "'yours' is not one of pools.old's models that the section models has, expected"),
        ("[facile, mine]", "[facile, facile]", "pools.old.models is ['facile', 'facile'], expected each model once"),
        ("[facile, mine]", "facile", "pools.old.models is 'facile', expected a list of models: facile, mine, slow"),
        ("[facile, mine]", "{mine: {rows: 3}}", "'rows' is not a field of pools.old.models.mine, expected one of ii, units,"),
        ("[facile, mine]", "{mine: {service_ms: no}}", "pools.old.models.mine.service_ms is False, expected a number of"),
        ("spares: 1", "turns: 3", "pools.old.turns is 3, expected true or false"),
        ("site: {server_gbps: 25, ", "site: {", "pools.old.server_gbps is missing, expected the Gb/s of a server's link"),
        ("jobs: 30", "jobs: 1.5", "workloads.hlt.jobs is 1.5, expected a whole number from 0 to 1,000,000"),
        ("jobs: 30, ", "", "workloads.hlt.jobs is 0 and workloads.hlt.events_per_s is 0, expected one of them above 0"),
        ("jobs: 30", "jobs: 30, events_per_s: 3", "workloads.hlt.jobs is 30 and workloads.hlt.events_per_s is 3, expected one"),
        ("events_per_s: 5", "events_per_s: 5, in_flight: 2", "workloads.stream.in_flight is 2, expected it only with"),
        ("calls: {slow: 1}", "calls: {}", "workloads.stream.calls is {}, expected the models that an event calls"),
        ("calls: {slow: 1}", "calls: {slow: 0}", "workloads.stream.calls.slow.times is 0, expected a whole number from 1"),
        ("calls: {slow: 1}", "calls: {fast: 1}", "'fast' is not a model of workloads.stream.calls that the section models has"),
        ("cards: 1, server", "cards: 1, failed: 1, server", "workloads.stream calls slow, and no card in service has it"),
        ("rtt_ms: 1", "background_gbps: 3", "site.background_gbps is 3, expected less than site.switch_gbps, 0"),
        ("envoys: 2", "envoys: two", "site.envoys is 'two', expected a whole number from 0"),
        ("envoys: 2", "cards: 2", "'cards' is not a field of site, expected one of"),
        ("headroom: 0.7", "event_s: 3", "'event_s' is not a field of target, expected one of added_percent, p99_ms, headroom"),
        ("target: {headroom: 0.7}", "target: 3", "target is 3, expected its fields: added_percent, p99_ms, headroom"),
        (FARM, "pools: {a: {cards: 1}}\n", "models is missing, expected a name for each of the models, with its fields: name"),
        ("  hlt:", "  3:", "workloads has the name 3, expected a text; write it in quotes"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_field(tmp_path: Path, old: str, new: str, error: str) -> None:
    assert old in FARM
    with pytest.raises(PlanError) as raised:
        read(tmp_path, FARM.replace(old, new, 1))
    assert error in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "farm.yaml"))


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--jobs", "3"], "--jobs"), (["facile"], "MODEL"), (["--plot", "farm.png"], "--plot"), (["--rtt-ms", "2"], "--rtt-ms")],
)
def test_options_of_a_farm_of_one_model_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    file = written(tmp_path, FARM)
    assert cli.main(["plan", "--file", str(file), *options]) == 2
    assert (
        f"{file} is a farm of several models, and {named} is for a farm of one; change the file instead"
        in capsys.readouterr().err
    )
