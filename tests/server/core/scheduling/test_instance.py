# SPDX-License-Identifier: Apache-2.0
"""When a run begins on an instance with several slots, and what of its time is waiting."""

from __future__ import annotations

from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.scheduling.instance import InstanceState, RunningBatch
from tests.server.conftest import Script, SumModel

#: a run's input is copied in so many ns
COPY_NS = 5


def instance_state(slots: int) -> InstanceState:
    return InstanceState(SumModel(Script(slots=slots)).instances[0], 0)


def start(state: InstanceState, launched_ns: int) -> RunningBatch:
    """The next run of the instance, whose input is on the card at launched_ns."""
    batch = state.dispatch(())
    batch.start()
    batch.taken_ns = launched_ns - COPY_NS
    return batch


def finish(state: InstanceState, batch: RunningBatch, launched_ns: int, done_ns: int) -> tuple[int, int, int, int]:
    """(queue from 0 on, compute_input, compute_infer, when it was done) of a run whose thread came at done_ns."""
    assert state.complete(batch, done_ns)
    times = state.add_run(batch, Execution(launched_ns, done_ns))
    return times.taken_ns, times.launched_ns - times.taken_ns, times.done_ns - times.launched_ns, times.done_ns


def test_a_lone_run_waits_for_nothing() -> None:
    state = instance_state(2)
    assert finish(state, start(state, 100), 100, 130) == (95, COPY_NS, 30, 130)
    assert finish(state, start(state, 200), 200, 230) == (195, COPY_NS, 30, 230)


def test_a_run_begins_when_the_one_before_it_is_done() -> None:
    state = instance_state(3)
    first, second, third = start(state, 100), start(state, 110), start(state, 120)
    assert finish(state, first, 100, 150) == (95, COPY_NS, 50, 150)
    assert finish(state, second, 110, 190) == (145, COPY_NS, 40, 190)
    assert finish(state, third, 120, 200) == (185, COPY_NS, 10, 200)
    assert state.figures.busy_ns == 100


def test_a_run_whose_thread_comes_late_was_done_before_the_next_one_and_no_time_counts_twice() -> None:
    state = instance_state(3)
    first, second, third = start(state, 100), start(state, 110), start(state, 120)
    # both ended long before anybody looked: all that is known is that the first was done first
    assert finish(state, second, 110, 190) == (185, COPY_NS, 0, 190)
    assert finish(state, third, 120, 205) == (185, COPY_NS, 15, 205)
    assert finish(state, first, 100, 220) == (95, COPY_NS, 90, 190)
    assert state.figures.busy_ns == 105


def test_a_run_behind_one_that_failed_waited_for_it_too() -> None:
    state = instance_state(2)
    first, second = start(state, 100), start(state, 110)
    assert state.complete(first, 150)
    assert finish(state, second, 110, 190) == (145, COPY_NS, 40, 190)


def test_a_run_that_never_started_says_nothing_of_the_one_before_it() -> None:
    state = instance_state(2)
    first, second = start(state, 100), state.dispatch(())
    assert state.complete(second, 0)
    assert finish(state, first, 100, 150) == (95, COPY_NS, 50, 150)
