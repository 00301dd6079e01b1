# SPDX-License-Identifier: Apache-2.0
"""Several models, loads and kinds of servers in the simulation: turns, asynchronous jobs, proxies, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersonic.commands.plan import server_turns
from hypersonic.plan.farm import (
    Call,
    CardState,
    ClosedLoop,
    Constant,
    Failure,
    Farm,
    FarmError,
    Guest,
    Hosted,
    Later,
    Link,
    LoadCard,
    OpenLoop,
    Proxy,
    Retry,
    Server,
    Turns,
    simulate,
    simulate_mix,
)
from hypersonic.plan.farm import Load as FarmLoad
from hypersonic.server.backends.fpga.turn_rule import longest_wait_ns
from tests.plan.farm.queues import mean_wait_md1_s

A, B, C = (Call(1, 0.0, 0.0, model) for model in "abc")
TURNS = Turns(server_turns, residency_s=5.0)


def hosted(model: str, service_s: float = 0.01, load_s: float = 2.0, **fields: str) -> Hosted:
    return Hosted(Constant(service_s), model=model, load_s=load_s, **fields)  # type: ignore[arg-type] # only texts


def taking_turns(models: str, cards: int, turns: Turns = TURNS) -> Server:
    others = tuple(hosted(model) for model in models[1:])
    return Server(Constant(0.01), model=models[0], load_s=2.0, cards=cards, turns=turns, others=others)


servers = st.builds(
    Server,
    service=st.just(Constant(0.01)),
    model=st.just("a"),
    cards=st.integers(1, 2),
    transfer=st.sampled_from([Constant(0.0), Constant(0.004)]),
    others=st.sampled_from([(hosted("b"),), (hosted("b"), hosted("c"))]),
    turns=st.sampled_from([None, Turns(server_turns, 0.1)]),
    queue_limit=st.sampled_from([0, 3]),
)
farms = st.builds(
    Farm,
    st.lists(servers, min_size=1, max_size=3).map(tuple),
    proxy=st.sampled_from([None, Proxy(), Proxy(2, Link(1e8, 0.001), 2, Constant(0.001))]),
)
calls = st.lists(st.sampled_from([A, B, replace(A, rows=3, request_bytes=1e4)]), min_size=1, max_size=3).map(tuple)
loads = st.one_of(
    st.builds(ClosedLoop, st.integers(1, 10), st.just(0.05), calls, in_flight=st.integers(1, 3)),
    st.builds(OpenLoop, st.sampled_from([20.0, 200.0]), calls, deadline_s=st.sampled_from([None, 0.2])),
    st.builds(OpenLoop, st.just(50.0), calls, retry=st.just(Retry(retries=2)), poisson=st.booleans()),
)


@settings(max_examples=60)
@given(farms, st.lists(loads, min_size=1, max_size=3), st.integers(0, 3))
def test_every_request_of_every_load_has_one_end_or_is_under_way(farm: Farm, mixed: Sequence[FarmLoad], seed: int) -> None:
    mix = simulate_mix(farm, mixed, seconds=3, seed=seed)
    assert simulate_mix(farm, mixed, seconds=3, seed=seed) == mix
    for load, result in zip(mixed, mix.loads, strict=True):
        counts = result.counts
        assert counts.requests == counts.answered + counts.refused + counts.expired + counts.unfinished
        if isinstance(load, ClosedLoop):
            assert counts.unfinished <= load.jobs * load.in_flight
        assert sum(spread.count for spread in result.model_s.values()) == result.call_s.count == counts.answered
    for use in mix.servers:
        assert all(0 <= share <= 1 + 1e-9 for share in (*use.units.values(), *use.present.values(), use.transfers))
        assert all(share <= use.present[model] + 0.02 for model, share in use.units.items())  # a run may outlast a turn


def test_the_calls_of_an_event_in_a_row_are_those_of_calls_per_event() -> None:
    farm = Farm((Server(Constant(0.01), model="a"),))
    in_a_row = simulate(farm, ClosedLoop(5, 0.2, (A, A, A)), seconds=10)
    assert in_a_row == simulate(farm, ClosedLoop(5, 0.2, A, calls_per_event=3), seconds=10)


def test_an_asynchronous_job_hides_the_calls_behind_its_own_work() -> None:
    farm = Farm((Server(Constant(0.2), model="a", cards=2),))
    alone = simulate(farm, ClosedLoop(1, 0.3, A, own_work_cv=0), seconds=60, warmup_s=10)
    hidden = simulate(farm, ClosedLoop(1, 0.3, A, own_work_cv=0, in_flight=2), seconds=60, warmup_s=10)
    assert alone.events_per_s == pytest.approx(1 / 0.5, rel=0.02)
    assert hidden.events_per_s == pytest.approx(1 / 0.3, rel=0.02)
    assert hidden.call_s.p99_s == pytest.approx(0.2)


def test_models_on_a_card_wait_for_each_other_on_its_link_and_nowhere_else() -> None:
    def waits_s(transfer_s: float) -> float:
        other = replace(hosted("b"), transfer=Constant(0.04))
        both = Server(Constant(0.05), model="a", transfer=Constant(transfer_s), others=(other,))
        mix = simulate_mix(Farm((both,)), (OpenLoop(1.0, A, poisson=False), OpenLoop(15.0, B)), seconds=200)
        return mix.loads[0].call_s.mean_s

    assert waits_s(0.0) == pytest.approx(0.05)
    assert waits_s(0.01) == pytest.approx(0.06 + mean_wait_md1_s(15.0, 0.04), rel=0.2)


def test_a_call_through_a_proxy_takes_the_slowest_link_once_and_all_processors() -> None:
    call = Call(1, 1.25e6, 0.0, "a")  # 10 Mb
    server = Server(Constant(0.02), model="a", link=Link(1e9), request_cpu=Constant(0.003))
    farm = Farm((server,), Link(2e9, 0.001), proxy=Proxy(1, Link(0.5e9, 0.002), 1, Constant(0.001)))
    result = simulate(farm, OpenLoop(1.0, call, poisson=False), seconds=20)
    assert result.call_s.p50_s == pytest.approx(2 * 0.003 + 0.02 + 0.003 + 0.02, abs=0.0015)
    mix = simulate_mix(farm, (OpenLoop(10.0, call, poisson=False),), seconds=20)
    assert mix.proxy == pytest.approx(0.2, rel=0.1)


@pytest.mark.slow
@pytest.mark.whole("plan", "server/backends/fpga/turn_rule.py")
@pytest.mark.parametrize(("models", "cards"), [("ab", 1), ("abc", 1), ("abc", 2), ("abcd", 2)])
def test_no_model_waits_longer_for_its_turn_than_the_servers_rule_allows(models: str, cards: int) -> None:
    flood = [OpenLoop(40.0, Call(1, 0.0, 0.0, model)) for model in models[1:]]
    mix = simulate_mix(Farm((taking_turns(models, cards),)), (OpenLoop(0.05, A), *flood), seconds=800)
    bound_s = longest_wait_ns(5_000_000_000, 2_010_000_000, len(models), cards) / 1e9
    assert mix.loads[0].call_s.count > 20
    assert 2.0 < mix.loads[0].call_s.p99_s <= bound_s + 0.01


def test_models_of_one_xclbin_are_on_a_card_together() -> None:
    server = Server(
        Constant(0.01), model="a", xclbin="x", load_s=2.0, turns=TURNS,
        others=(hosted("b", xclbin="x"), hosted("c")),
    )  # fmt: skip
    arriving = [OpenLoop(20.0, call) for call in (A, B, C)]
    present = simulate_mix(Farm((server,)), arriving, seconds=300).servers[0].present
    assert present["a"] == present["b"]
    assert present["a"] + present["c"] == pytest.approx(5 / 7, rel=0.03)


def test_a_model_without_rivals_stays_on_its_card() -> None:
    mix = simulate_mix(Farm((taking_turns("ab", 2),)), (OpenLoop(20.0, A), OpenLoop(20.0, B)), seconds=60)
    assert mix.servers[0].present == {"a": pytest.approx(0.5), "b": pytest.approx(0.5)}  # one of two cards each
    assert max(result.call_s.p99_s for result in mix.loads) < 0.1


def never(_cards: Sequence[CardState], _away: Sequence[Guest], _now_ns: int) -> LoadCard | Later:
    return Later(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: simulate(Farm((Server(Constant(0.1), model="a"),)), OpenLoop(1.0, B), seconds=1),
            "is for model 'b', expected one of",
        ),
        (lambda: simulate_mix(Farm((Server(Constant(0.1)),)), (), seconds=1), "loads is 0, expected a whole number of 1"),
        (
            lambda: Server(Constant(0.1), model="a", others=(hosted("a"),)),
            "hosts the models ['a', 'a'], expected different names",
        ),
        (lambda: Farm((taking_turns("ab", 1),), failures=(Failure(0, 0, 1.0),)), "whose models take turns; expected a server"),
        (lambda: Turns(server_turns, 0.0), "residency_s is 0.0, expected a number above 0"),
        (lambda: ClosedLoop(1, 1.0, A, in_flight=0), "in_flight is 0, expected a whole number of 1"),
        (lambda: OpenLoop(1.0, ()), "calls is 0, expected a whole number of 1"),
        (lambda: Proxy(0), "count is 0, expected a whole number of 1"),
        (
            lambda: simulate(Farm((taking_turns("ab", 1, Turns(None)),)), OpenLoop(1.0, B), seconds=9),
            "turns.rule is None, expected the",
        ),
        (
            lambda: simulate(Farm((taking_turns("ab", 1, Turns(never)),)), OpenLoop(1.0, B), seconds=9),
            "the rule of turns waits until 1 ns",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(FarmError) as raised:
        make()
    assert message in str(raised.value)
