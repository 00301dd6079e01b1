# SPDX-License-Identifier: Apache-2.0
"""Scheduling over real gRPC with the in-memory backend: many clients, splits, merges, hangs, cancels."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from hypersonic.server.core.config.schema import DynamicBatching
from hypersonic.server.core.inference.pending import PendingRequest
from hypersonic.server.core.inference.request import CheckedRequest
from hypersonic.server.core.scheduling.batch import Batcher
from hypersonic.server.core.scheduling.batcher import DynamicBatcher
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.core.scheduling.rule import BatchRule
from hypersonic.server.core.scheduling.scheduler import Scheduler
from hypersonic.server.errors import UnavailableError
from hypersonic.server.statistics.model import ModelStatistics
from tests.server.conftest import Running, Script, Serve, SumInstance, SumModel, rows, tensor, write_model
from tests.support.waiting import wait_until

BATCHING = "dynamic_batching { max_queue_delay_microseconds: 200 preferred_batch_size: [ 32 ] }"


def sums(x: np.ndarray) -> np.ndarray:
    return x.sum(axis=1, keepdims=True)


def batcher_of(running: Running) -> Batcher:
    model = running.server.repository.model("m")
    assert isinstance(model, ScheduledModel)
    return model.scheduler.batcher


def statistics(running: Running) -> service_pb2.ModelStatistics:
    with triton.InferenceServerClient(running.grpc) as client:
        return client.get_inference_statistics("m").model_stats[0]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    clients=st.lists(st.lists(st.integers(1, 150), min_size=1, max_size=6), min_size=1, max_size=6),
    slots=st.integers(1, 3),
    slot_rows=st.integers(1, 64),
    instances=st.integers(1, 3),
    batching=st.none() | st.builds(DynamicBatching, st.tuples(st.integers(1, 64)), st.integers(0, 500)),
)
def test_every_row_of_every_client_is_answered_to_its_owner(
    clients: list[list[int]], slots: int, slot_rows: int, instances: int, batching: DynamicBatching | None
) -> None:
    script = Script(slots=slots, slot_rows=slot_rows, instances=instances)
    target = DynamicBatcher(BatchRule.of(slot_rows, batching, 150))
    figures = ModelStatistics()
    scheduler = Scheduler(SumModel(script).instances, target, figures, label="m")

    def client(seed: int, sizes: list[int]) -> None:
        for index, size in enumerate(sizes):
            x = rows(size, 1000 * seed + index)
            request = CheckedRequest("", size, (x.data.cast("B"),), (x.shape,), (0,))
            done = threading.Event()
            pending = PendingRequest(
                *(request, lambda _, answer: b"".join(answer.outputs[0].chunks), time.monotonic_ns()),
                on_done=lambda _: done.set(),  # noqa: B023 - called in this turn of the loop
            )
            scheduler.submit(pending)
            assert done.wait(30)
            assert pending.answer is not None
            np.testing.assert_array_equal(np.frombuffer(pending.answer, np.float32), sums(x)[:, 0])

    with ThreadPoolExecutor(len(clients)) as pool:
        for done in [pool.submit(client, seed, sizes) for seed, sizes in enumerate(clients)]:
            done.result()
    assert scheduler.close(UnavailableError("closed"), 10)
    snapshot = figures.snapshot()
    assert snapshot.inference_count == sum(map(sum, clients))
    assert snapshot.execution_count == len(script.batches) == sum(f.runs for f in scheduler.figures.values())
    assert script.most_in_flight <= slots * instances


def test_requests_of_many_clients_share_runs(serve: Serve, tmp_path: Path) -> None:
    write_model(tmp_path / "r", config=BATCHING)
    with serve(Script(slots=1, gate=threading.Event()), tmp_path / "r") as running, ThreadPoolExecutor(9) as pool:
        first = pool.submit(running.infer, rows(32))
        assert running.script.started.acquire(timeout=20)
        others = [pool.submit(running.infer, rows(4, seed)) for seed in range(7)]
        wait_until(lambda: len(batcher_of(running)) == 7)
        running.script.open_gate()
        np.testing.assert_array_equal(first.result(), sums(rows(32)))
        for seed, other in enumerate(others):
            np.testing.assert_array_equal(other.result(), sums(rows(4, seed)))
        assert running.script.batches == [(32,), (4,) * 7]


def test_the_next_slot_is_started_while_the_first_run_works(serve: Serve) -> None:
    with serve(Script(slots=2, gate=threading.Event())) as running, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(running.infer, rows(1, seed)) for seed in range(3)]
        batcher = batcher_of(running)
        wait_until(lambda: len(batcher) + len(running.script.batches) == 3)
        running.script.open_gate()
        for seed, answer in enumerate(answers):
            np.testing.assert_array_equal(answer.result(), sums(rows(1, seed)))
        assert running.script.most_in_flight == 2


def test_a_request_that_arrives_during_a_run_is_started_in_the_free_slot_before_that_run_ends(serve: Serve) -> None:
    with serve(Script(slots=2, gate=threading.Event())) as running, ThreadPoolExecutor(2) as pool:
        first = pool.submit(running.infer, rows(1, 1))
        assert running.script.started.acquire(timeout=20)
        second = pool.submit(running.infer, rows(2, 2))
        assert running.script.started.acquire(timeout=20)
        assert not first.done()
        running.script.open_gate()
        np.testing.assert_array_equal(first.result(), sums(rows(1, 1)))
        np.testing.assert_array_equal(second.result(), sums(rows(2, 2)))


def test_rows_of_one_large_request_and_batches_that_waited_use_the_free_slot_too(serve: Serve, tmp_path: Path) -> None:
    write_model(tmp_path / "r", config="dynamic_batching { max_queue_delay_microseconds: 1000 }")
    script = Script(slots=3, slot_rows=10, gate=threading.Event())
    with serve(script, tmp_path / "r") as running, ThreadPoolExecutor(2) as pool:
        large = pool.submit(running.infer, rows(15, 1))
        for _ in range(2):
            assert script.started.acquire(timeout=20)
        small = pool.submit(running.infer, rows(2, 2))
        assert script.started.acquire(timeout=20)
        assert script.batches == [(10,), (5,), (2,)]
        script.open_gate()
        np.testing.assert_array_equal(large.result(), sums(rows(15, 1)))
        np.testing.assert_array_equal(small.result(), sums(rows(2, 2)))


def test_a_lone_request_is_run_by_its_own_thread() -> None:
    script = Script()
    scheduler = Scheduler(SumModel(script).instances, DynamicBatcher(BatchRule(64)), ModelStatistics(), label="m")
    users: list[str] = []
    request = CheckedRequest("", 5, (rows(5).data.cast("B"),), ((5, 3),), (0,))
    pending = PendingRequest(request, lambda *_: users.append(threading.current_thread().name) or b"", 0)
    scheduler.submit(pending)
    assert (pending.completed, users) == (True, [threading.current_thread().name])
    assert scheduler.close(UnavailableError("closed"), 10)


def test_a_request_larger_than_a_slot_comes_back_whole(serve: Serve) -> None:
    with serve(Script(slots=2, slot_rows=7)) as running:
        x = rows(150)
        np.testing.assert_array_equal(running.infer(x), sums(x))
        assert [sum(batch) for batch in running.script.batches] == [7] * 21 + [3]
        figures = statistics(running)
        assert (figures.inference_stats.success.count, figures.inference_count, figures.execution_count) == (1, 150, 22)


def test_a_hung_compute_unit_goes_out_of_service_and_its_requests_go_to_another(serve: Serve) -> None:
    script = Script(instances=2, run_s=0.02, hang_from_run={"sum_1": 2})
    with serve(script) as running, ThreadPoolExecutor(4) as pool:
        answers = [(seed, pool.submit(running.infer, rows(5, seed))) for seed in range(12)]
        for seed, answer in answers:
            np.testing.assert_array_equal(answer.result(), sums(rows(5, seed)))
        figures = running.server.repository.model("m").figures
        assert {name: (unit.in_service, unit.timeouts) for name, unit in figures.items()} == {
            "sum_1": (False, 1),
            "sum_2": (True, 0),
        }
        assert running.server.service.ready


def test_all_runs_on_a_hung_compute_unit_go_to_another_one_at_once_and_in_their_order(serve: Serve) -> None:
    script = Script(instances=2, slots=2, hang_from_run={"sum_1": 1}, gate=threading.Event())
    with serve(script) as running, ThreadPoolExecutor(6) as pool:
        answers = []
        for count in range(1, 7):  # 1 and 3 go to sum_1, 2 and 4 to sum_2, 5 and 6 wait
            answers.append(pool.submit(running.infer, rows(count, count)))
            if count <= 4:
                assert script.started.acquire(timeout=20)
            else:
                wait_until(lambda waiting=count - 4: len(batcher_of(running)) == waiting)
        script.open_gate()
        for count, answer in enumerate(answers, start=1):
            np.testing.assert_array_equal(answer.result(), sums(rows(count, count)))
        assert script.batches[:4] == [(1,), (2,), (3,), (4,)]
        assert sorted(script.batches[4:]) == [(1,), (3,), (5,), (6,)]
        assert script.batches[4:].index((1,)) < script.batches[4:].index((3,))
        assert script.batches[4:].index((5,)) < script.batches[4:].index((6,))
        figures = running.server.repository.model("m").figures
        assert [(unit.in_service, unit.timeouts, unit.runs) for unit in figures.values()] == [(False, 1, 0), (True, 0, 6)]


def test_a_drain_waits_for_a_run_that_may_still_come_back_to_the_queue() -> None:
    script = Script(instances=2, slots=1, hang_from_run={"sum_1": 1}, gate=threading.Event())
    scheduler = Scheduler(SumModel(script).instances, DynamicBatcher(BatchRule(64)), ModelStatistics(), label="m")
    request = CheckedRequest("", 5, (rows(5).data.cast("B"),), ((5, 3),), (0,))
    pending = PendingRequest(request, lambda *_: b"answer", 0)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(scheduler.submit, pending)
        assert script.started.acquire(timeout=20)
        closed = pool.submit(scheduler.close, UnavailableError("closed"), 20)
        wait_until(lambda: scheduler.batcher.closed)
        assert script.gate is not None
        script.open_gate()
        assert closed.result()
    assert (pending.answer, script.batches) == (b"answer", [(5,), (5,)])


def test_a_request_of_a_lost_run_is_told_that_its_time_is_up_while_the_instance_is_brought_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, back = Script(slots=1, hang_from_run={"sum_1": 1}, gate=threading.Event()), threading.Event()
    monkeypatch.setattr(SumInstance, "revive", lambda _: not back.wait(60))
    scheduler = Scheduler(SumModel(script).instances, DynamicBatcher(BatchRule(64)), ModelStatistics(), label="m")
    request = CheckedRequest("", 5, (rows(5).data.cast("B"),), ((5, 3),), (0,))
    done = threading.Event()
    pending = PendingRequest(request, lambda *_: b"answer", 0, on_done=lambda _: done.set())
    scheduler.submit(pending, here=False)
    assert script.started.acquire(timeout=20)
    pending.queued.expires_ns = time.monotonic_ns() + 1_000_000
    assert script.gate is not None
    script.gate.set()
    assert done.wait(60)
    assert str(pending.error) == "Request timeout expired"
    back.set()
    assert scheduler.close(UnavailableError("closed"), 20)


def test_when_no_compute_unit_is_left_requests_fail_and_the_server_is_not_ready(serve: Serve) -> None:
    script = Script(instances=2, hang_from_run={"sum_1": 1, "sum_2": 1})
    with serve(script) as running, triton.InferenceServerClient(running.grpc) as client:
        for _ in range(2):
            with pytest.raises(InferenceServerException, match=r"no compute unit is in service|hangs") as caught:
                client.infer("m", [tensor(rows(2))])
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
        wait_until(lambda: not running.server.service.ready)
        with pytest.raises(InferenceServerException, match="'m' version 1 is not at ready state: no compute unit"):
            client.infer("m", [tensor(rows(2))])
        assert (client.is_server_ready(), client.is_model_ready("m"), client.is_server_live()) == (False, False, True)
        (entry,) = client.get_model_repository_index().models
        assert (entry.state, "sum_1 hangs" in entry.reason) == ("UNAVAILABLE", True)


def test_a_failed_run_fails_its_requests_only(serve: Serve) -> None:
    with serve(Script(fail_runs={2})) as running:
        np.testing.assert_array_equal(running.infer(rows(3)), sums(rows(3)))
        with pytest.raises(InferenceServerException, match="run 2 failed") as caught:
            running.infer(rows(4))
        assert caught.value.status() == "StatusCode.INTERNAL"
        np.testing.assert_array_equal(running.infer(rows(5)), sums(rows(5)))
        assert statistics(running).inference_stats.fail.count == 1


def test_a_cancelled_request_that_still_waits_never_reaches_the_card(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event())) as running, ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.infer, rows(1))
        assert running.script.started.acquire(timeout=20)
        batcher = batcher_of(running)
        with triton.InferenceServerClient(running.grpc) as client:
            call = client.async_infer("m", [tensor(rows(2))], callback=lambda result, error: None)
            wait_until(lambda: len(batcher) == 1)
            call.cancel()
            wait_until(lambda: len(batcher) == 0)
        running.script.open_gate()
        first.result()
        assert running.script.batches == [(1,)]
        failures = running.server.repository.model("m").statistics.snapshot().failures
        assert {str(reason): duration.count for reason, duration in failures.items() if duration.count} == {"CANCELED": 1}


def test_a_request_whose_deadline_passes_in_the_queue_never_reaches_the_card(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event())) as running, ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.infer, rows(1))
        assert running.script.started.acquire(timeout=20)
        with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
            running.infer(rows(2), client_timeout=0.2)
        wait_until(lambda: len(batcher_of(running)) == 0)
        running.script.open_gate()
        first.result()
        assert running.script.batches == [(1,)]


def test_a_client_that_goes_away_in_mid_request_disturbs_nobody(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event())) as running, ThreadPoolExecutor(2) as pool:
        client = triton.InferenceServerClient(running.grpc)
        client.async_infer("m", [tensor(rows(2))], callback=lambda result, error: None)
        assert running.script.started.acquire(timeout=20)
        client.close()
        other = pool.submit(running.infer, rows(3))
        running.script.open_gate()
        np.testing.assert_array_equal(other.result(), sums(rows(3)))
        wait_until(lambda: running.server.service.admission.requests == 0)
        assert running.server.service.admission.size_bytes == 0


def test_queue_timeout_and_full_queue_refuse_as_triton_does(serve: Serve, tmp_path: Path) -> None:
    policy = "default_timeout_microseconds: 300000 max_queue_size: 1 allow_timeout_override: true"
    write_model(tmp_path / "r", config=f"dynamic_batching {{ default_queue_policy {{ {policy} }} }}")
    with serve(Script(slots=1, gate=threading.Event()), tmp_path / "r") as running, ThreadPoolExecutor(2) as pool:
        first = pool.submit(running.infer, rows(1))
        assert running.script.started.acquire(timeout=20)
        waiting = pool.submit(running.infer, rows(2))
        wait_until(lambda: len(batcher_of(running)) == 1)
        with pytest.raises(InferenceServerException, match="Exceeds maximum queue size") as full:
            running.infer(rows(1))
        with pytest.raises(InferenceServerException, match="Request timeout expired") as expired:
            waiting.result()
        with pytest.raises(InferenceServerException, match="Request timeout expired"):
            running.infer(rows(1), timeout=10_000)
        assert {full.value.status(), expired.value.status()} == {"StatusCode.UNAVAILABLE"}
        running.script.open_gate()
        first.result()
        assert running.script.batches == [(1,)]


def test_an_instance_that_breaks_in_an_unforeseen_way_leaves_nobody_waiting(serve: Serve) -> None:
    with serve() as running:
        running.script.batches = None  # type: ignore[assignment] # makes the next run fail
        with pytest.raises(InferenceServerException, match="no compute unit is in service") as caught:
            running.infer(rows(1))
        assert "AttributeError" in caught.value.message()


def test_bytes_in_flight_are_bounded(serve: Serve) -> None:
    with serve(Script(slots=1, gate=threading.Event()), max_inflight_bytes=3000) as running, ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.infer, rows(150))
        assert running.script.started.acquire(timeout=20)
        with pytest.raises(InferenceServerException, match="exceed its share of the limit of 3000") as caught:
            running.infer(rows(150))
        assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        running.script.open_gate()
        first.result()
        wait_until(lambda: running.server.service.admission.requests == 0)  # its answer has been read a moment before
        np.testing.assert_array_equal(running.infer(rows(150)), sums(rows(150)))


def test_a_model_whose_only_instance_is_away_refuses_at_once_and_serves_again_when_it_is_back(serve: Serve) -> None:
    script = Script(hang_from_run={"sum_1": 2}, back=threading.Event())
    with serve(script) as running, triton.InferenceServerClient(running.grpc) as client:
        running.infer(rows(1))
        for _ in range(3):
            with pytest.raises(InferenceServerException, match="no compute unit is in service any more: sum_1 hangs") as caught:
                running.infer(rows(1))
            assert caught.value.status() == "StatusCode.UNAVAILABLE"
        assert (client.is_model_ready("m"), client.is_server_ready()) == (False, False)
        script.come_back()
        wait_until(lambda: client.is_model_ready("m"))
        np.testing.assert_array_equal(running.infer(rows(5)), sums(rows(5)))
        assert client.is_server_ready()
        (figures,) = running.server.repository.model("m").figures.values()
        assert (figures.revived, figures.timeouts, figures.in_service) == (1, 1, True)


def test_while_one_instance_is_away_the_other_serves_and_then_both_do(serve: Serve) -> None:
    script = Script(instances=2, hang_from_run={"sum_1": 1}, back=threading.Event())
    with serve(script) as running, ThreadPoolExecutor(8) as pool:
        for seed in range(2):
            answers = [pool.submit(running.infer, rows(9, seed)) for _ in range(30)]
            for answer in answers:
                np.testing.assert_array_equal(answer.result(), sums(rows(9, seed)))
            figures = running.server.repository.model("m").figures
            if seed == 0:
                wait_until(lambda figures=figures: not figures["sum_1"].in_service)
                script.come_back()
                wait_until(lambda figures=figures: figures["sum_1"].in_service)
        assert sum(unit.runs for unit in figures.values()) >= 2


def test_a_server_ends_while_an_instance_is_away(serve: Serve) -> None:
    with serve(Script(hang_from_run={"sum_1": 1}, back=threading.Event())) as running:
        with pytest.raises(InferenceServerException, match="sum_1 hangs"):
            running.infer(rows(1))
        wait_until(lambda: any(thread.name.endswith(":revive") for thread in threading.enumerate()))
    wait_until(lambda: not any(thread.name.endswith(":revive") for thread in threading.enumerate()))


def test_an_instance_that_comes_back_in_an_unforeseen_way_leaves_nobody_waiting(serve: Serve) -> None:
    with serve(Script(hang_from_run={"sum_1": 1})) as running:
        running.script.back = "no event"  # type: ignore[assignment] # makes a revival fail
        with pytest.raises(InferenceServerException, match="no compute unit is in service any more: sum_1 hangs"):
            running.infer(rows(1))
