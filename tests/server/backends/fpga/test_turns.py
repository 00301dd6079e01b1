# SPDX-License-Identifier: Apache-2.0
"""Models that take turns on emulated cards: whole versions with their queues, as the repository serves them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.server.backends.fpga import turns
from hypersonic.server.backends.fpga.turn_rule import Guest, choose_turn
from hypersonic.server.core.config.read import read_config
from hypersonic.server.core.inference.check import check
from hypersonic.server.core.inference.request import InferRequest, InputTensor
from hypersonic.server.core.scheduling.model import ScheduledModel
from hypersonic.server.core.scheduling.scheduler import Scheduler
from hypersonic.server.errors import ModelBusyError, ModelConfigError, ModelLoadError, UnavailableError
from hypersonic.server.limits import supervisor
from tests.host.conftest import Build, Cards, kept_up
from tests.server.backends.fpga.repositories import Repository, linked
from tests.support.waiting import wait_until

WAIT_S = 60.0


class Connection:
    """A client's connection, which stays unless it is cut."""

    client = "test"

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self._open = True

    def is_active(self) -> bool:
        return self._open

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._callbacks.append(callback)
        return self._open

    def cut(self) -> None:
        self._open = False
        for callback in self._callbacks:
            callback()


class Site(Repository):
    """A repository, and its models with their queues. Each kernel has a digest of its own, so no two share a card."""

    def __init__(self, place: Path, image: bytes) -> None:
        super().__init__(place)
        self._image = image
        self.served: dict[str, ScheduledModel] = {}
        self._threads = ThreadPoolExecutor(16)

    def add(self, name: str, policy: str = "on_demand", **parameters: str) -> ScheduledModel:
        """Publish and serve a model with another xclbin than the others."""
        number = len(list(self.place.iterdir())) if self.place.exists() else 0
        xclbin = linked(self._image, digest=f"{number:064x}")
        version = self.publish(name, xclbin, parameters={"card_policy": policy, **parameters})
        return self.serve(version)

    def serve(self, version: Path) -> ScheduledModel:
        config = read_config(version.parent / "config.pbtxt", version.parent.name)
        model = ScheduledModel(config, 1, self.load(version))
        self.served[config.name] = model
        return model

    def ask(self, model: ScheduledModel, value: float = 1.0, connection: Connection | None = None) -> Future[float]:
        """A request of one row; its answer is 2 * value, by model.c."""
        data = np.zeros((1, 18), "<f4")
        data[0, 0] = value
        tensor = InputTensor(model.config.inputs[0].name, "FP32", (1, 18), memoryview(data.tobytes()))
        request = check(InferRequest("", (tensor,)), model.config)

        def frame(_request: Any, answer: Any) -> float:
            return float(np.frombuffer(b"".join(answer.outputs[0].chunks), "<f4")[0])

        return self._threads.submit(lambda: model.infer(request, frame, connection or Connection(), 1))

    def answer(self, model: ScheduledModel, value: float = 1.0) -> float:
        return self.ask(model, value).result(WAIT_S)

    def stop(self) -> None:
        for model in self.served.values():
            assert model.close(WAIT_S)
        self._threads.shutdown()


@pytest.fixture
def site(tmp_path: Path, image: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    made = Site(tmp_path / "models", image)
    yield made
    made.stop()


def resident(model: ScheduledModel) -> bool:
    assert model.residency is not None
    return model.residency.resident


def longest_wait_s(model: ScheduledModel) -> float:
    assert model.residency is not None
    return model.residency.longest_wait_s


def test_models_take_turns_on_one_card_and_each_answer_is_its_own(site: Site) -> None:
    models = [site.add(name, card_residency_ms="0") for name in "abc"]
    assert [resident(model) for model in models] == [True, False, False]
    assert all(model.in_service and not model.reason for model in models)
    for value in range(3):
        for model in models:
            assert site.answer(model, value) == 2 * value
            assert resident(model)
    waits = [model.residency for model in models]
    assert [each.loads for each in waits if each] == [3, 3, 3]
    assert [each.waits for each in waits if each] == [2, 3, 3]
    assert all(each.load_s > 0 and each.wait_s > 0 for each in waits if each)
    assert [figures.revived for model in models for figures in model.figures.values()] == [0, 0, 0]


def test_no_request_is_lost_while_busy_models_take_turns(site: Site) -> None:
    models = [site.add(name, card_residency_ms="20") for name in "abc"]
    asked = [(value, site.ask(models[value % 3], value)) for value in range(300)]
    assert all(future.result(WAIT_S) == 2 * value for value, future in asked)


def test_a_resident_models_card_is_never_taken_and_who_can_never_have_a_card_is_told(site: Site) -> None:
    site.add("a", "resident")
    with pytest.raises(ModelBusyError, match=r"the one emulated card .*card 0 has the xclbin of 'a'"):
        site.add("b")


def test_a_resident_model_takes_a_card_of_models_that_take_turns_if_they_keep_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    a, b = site.add("a", card_residency_ms="0"), site.add("b", card_residency_ms="0")
    fixed = site.add("c", "resident")
    assert sorted(map(resident, (a, b))) == [False, True]
    for model in (a, b, fixed, a):
        assert site.answer(model, 3) == 6
    with pytest.raises(ModelBusyError, match=r"the models 'a', 'b' with card_policy 'on_demand' would have no card"):
        site.add("d", "resident")


def test_a_resident_model_waits_for_a_card_while_all_are_being_loaded_and_takes_it(
    site: Site, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    models = [site.add(name, card_residency_ms="0") for name in "abc"]
    resident_version = site.publish("d", linked(image, digest="d" * 64), parameters={"card_policy": "resident"})
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "1000")
    asked = [site.ask(models[2], 1)]
    wait_until(lambda: any(not resident(model) for model in models[:2]))
    left = next(model for model in models[:2] if not resident(model))
    asked.append(site.ask(left, 2))
    wait_until(lambda: not any(map(resident, models)))
    fixed = site.serve(resident_version)
    assert [each.result(WAIT_S) for each in asked] == [2, 4]
    assert site.answer(fixed, 3) == 6
    assert [site.answer(model, 4) for model in models] == [8] * 3


def test_of_two_resident_models_that_are_loaded_at_once_one_leaves_a_card_to_those_that_take_turns(
    site: Site, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    models = [site.add(name, card_residency_ms="0") for name in "ab"]
    versions = [site.publish(name, linked(image, digest=name * 64), parameters={"card_policy": "resident"}) for name in "cd"]
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "500")
    with ThreadPoolExecutor(2) as loading:
        loads = [loading.submit(site.serve, version) for version in versions]
        errors = [load.exception(WAIT_S) for load in loads]
    (refused,) = [error for error in errors if error is not None]
    assert isinstance(refused, ModelBusyError)
    assert "the models 'a', 'b' with card_policy 'on_demand' would have no card" in str(refused)
    assert [site.answer(model, 4) for model in models] == [8, 8]


def test_a_model_that_left_its_card_with_waiting_requests_is_behind_those_that_waited_before_it_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest request of `a` arrived before those of the others. Its run hangs until its model leaves the card."""
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "facile_1:2")
    with kept_up():
        # only the run that hangs ends by its timeout: b's and c's would run twice if the machine were slow
        a = site.add("a", card_residency_ms="0", timeout_ms="3000", retry_ms="20")
        b, c = (site.add(name, card_residency_ms="0", timeout_ms="60000", retry_ms="20") for name in "bc")
        assert site.answer(a, 1) == 2
        (instance,), before_ns = site.loaded[0].instances, time.monotonic_ns()
        futures = [site.ask(a, 2)]
        wait_until(lambda: instance.used_ns > before_ns)
        futures += [site.ask(b, 3), site.ask(c, 4)]
        assert [future.result(WAIT_S) for future in futures] == [4, 6, 8]
        last_runs = [model.instances[0].used_ns for model in site.loaded]
    assert last_runs[0] == max(last_runs)


def test_a_model_keeps_its_card_until_its_first_run_however_short_its_residency_is(site: Site, image: bytes) -> None:
    """Its batcher waits for 100 ms, while the other model has requests and may have the card at any time."""
    models, parameters = [], {"card_policy": "on_demand", "card_residency_ms": "0"}
    for name in "ab":
        version = site.publish(name, linked(image, digest=name * 64), parameters=parameters)
        config = version.parent / "config.pbtxt"
        config.write_text(re.sub(r"(max_queue_delay_microseconds): \d+", r"\1: 100000", config.read_text()))
        models.append(site.serve(version))
    a, b = models
    for value in range(3):
        assert [future.result(WAIT_S) for future in [site.ask(b, value), site.ask(a, value)]] == [2 * value] * 2
    loads = [model.residency.loads for model in models if model.residency is not None]
    assert max(loads) <= 4, "once before and once for each request"


def test_a_model_whose_requests_are_given_up_before_its_turn_gets_its_turn_beside_a_busy_one(site: Site) -> None:
    """Each request waits for less than the residency, so that none of them may take the card from a busy model."""
    busy, other = site.add("a", card_residency_ms="500"), site.add("b", card_residency_ms="500")
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            assert site.answer(busy, 1) == 2

    with ThreadPoolExecutor(2) as floods:
        flooding = [floods.submit(flood) for _ in range(2)]
        for _ in range(100):
            connection = Connection()
            asked = site.ask(other, 3, connection)
            with suppress(TimeoutError):
                asked.result(0.1)
            connection.cut()
            if resident(other) and asked.exception(WAIT_S) is None:
                break
        over.set()
        assert [each.result(WAIT_S) for each in flooding] == [None, None]
    assert asked.result(WAIT_S) == 6


def test_the_longest_wait_for_a_card_is_told_while_it_lasts_and_afterwards(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("a", card_residency_ms="0")
    b = site.add("b", card_residency_ms="0")
    assert longest_wait_s(b) == 0
    monkeypatch.setenv("HYPERSONIC_EMU_LOAD_MS", "300")
    asked = site.ask(b, 1)
    wait_until(lambda: longest_wait_s(b) > 0)
    assert not resident(b)
    assert asked.result(WAIT_S) == 2
    longest = longest_wait_s(b)
    assert longest >= 0.3
    assert site.answer(b, 2) == 4
    assert longest_wait_s(b) == longest


def wait_s(model: ScheduledModel) -> float:
    assert model.residency is not None
    return model.residency.wait_s


def test_time_with_requests_that_wait_for_a_card_is_counted_while_it_passes_and_once(site: Site) -> None:
    a = site.add("a", card_residency_ms="3600000")
    b = site.add("b", card_residency_ms="0")
    assert wait_s(b) == 0
    begin_s = time.monotonic()
    asked = [site.ask(b, value) for value in (1, 2, 3)]
    wait_until(lambda: wait_s(b) > 0)
    seen = [wait_s(b), wait_s(b)]
    assert site.served.pop("a").close(WAIT_S), a.reason
    assert [each.result(WAIT_S) for each in asked] == [2, 4, 6]
    passed_s = time.monotonic() - begin_s
    waited_s = wait_s(b)
    assert 0 < seen[0] < seen[1] < waited_s
    assert waited_s <= passed_s, "three requests waited at one time"
    assert site.answer(b, 2) == 4
    assert wait_s(b) == waited_s


@pytest.mark.parametrize(
    ("policy", "parameters", "message"),
    [
        ("sometimes", {}, "card_policy is 'sometimes', expected 'resident' or 'on_demand'"),
        ("on_demand", {"card_priority": "-1"}, "card_priority is '-1', expected an integer from 0 to 2147483647"),
        (
            "on_demand",
            {"card_residency_ms": "9300000000000"},
            r"card_residency_ms is '9300000000000', expected an integer from 0 to 31622400000 \(366 days\)",
        ),
        ("on_demand", {"share": "1e-320"}, "share is '1e-320', expected a number from 0.001 to 1000"),
        ("resident", {"card_residency_ms": "5"}, "card_residency_ms has no effect on a resident model"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(site: Site, policy: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(ModelConfigError, match=message):
        site.add("a", policy, **parameters)


def test_slots_that_no_bank_has_room_for_are_refused_at_load_although_no_card_is_free(site: Site) -> None:
    site.add("a")
    with pytest.raises(ModelLoadError, match=r"64 slots of 100000000 rows of 'b' take .* memory bank 'bank0'"):
        site.add("b", slots="64", slot_rows="100000000")


def test_the_thread_that_gives_turns_is_killed_once_and_twice(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[str, bool]] = []
    armed: list[Exception] = []

    def hold(self: Scheduler, reason: str, *, for_good: bool = False, to: Any = Scheduler.hold) -> None:
        to(self, reason, for_good=for_good)
        held.append((self.reason, self.in_service))

    def choose(cards: Any, away: Sequence[Guest], now_ns: int) -> Any:
        if armed and any(guest.rows for guest in away):
            raise armed.pop()
        return choose_turn(cards, away, now_ns)

    monkeypatch.setattr(supervisor, "PAUSE_S", 0.0)
    monkeypatch.setattr(Scheduler, "hold", hold)
    monkeypatch.setattr(turns, "choose_turn", choose)
    a, b = (site.add(name, card_residency_ms="0") for name in "ab")
    assert [site.answer(model, 2) for model in (a, b, a)] == [4, 4, 4]
    armed.append(RuntimeError("injected"))
    down = "the thread 'turns' ended with RuntimeError (injected); it begins again in 0 s"
    with pytest.raises(UnavailableError, match=re.escape(down)):
        site.answer(b)
    wait_until(lambda: len(held) == 4)
    assert held == [(down, False), (down, False), ("", True), ("", True)]
    assert [site.answer(model, 3) for model in (b, a)] == [6, 6]
    armed.append(RuntimeError("injected"))
    with pytest.raises(UnavailableError, match="it has ended for the second time: restart the server"):
        site.answer(b)
    wait_until(lambda: len(held) == 6)
    assert not a.in_service
    assert "the thread 'turns' ended with RuntimeError" in a.reason
    with pytest.raises(ModelLoadError, match="the thread 'turns' ended with RuntimeError"):
        site.add("c")


@pytest.mark.parametrize("residency_ms", [0, 366 * 86_400_000])
def test_a_model_without_a_card_is_served_once_the_one_with_it_is_gone_whatever_its_residency(
    site: Site, residency_ms: int
) -> None:
    a, b = site.add("a", card_residency_ms=str(residency_ms)), site.add("b", card_residency_ms=str(residency_ms))
    assert site.answer(a, 1) == 2
    asked = site.ask(b, 2)
    assert a.close(WAIT_S)
    assert asked.result(WAIT_S) == 4


def test_a_file_that_was_damaged_is_found_before_any_model_leaves_its_card(site: Site) -> None:
    a, b = site.add("a", card_residency_ms="0"), site.add("b", card_residency_ms="0")
    with (site.place / "b" / "1" / "model.xclbin").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(UnavailableError, match="the file is 1000 bytes"):
        site.answer(b)
    assert (resident(a), a.in_service, b.in_service) == (True, True, False)
    assert site.answer(a, 2) == 4


def test_a_model_leaves_and_its_waiting_requests_are_answered_when_it_is_unloaded(site: Site) -> None:
    a, b = site.add("a", card_residency_ms="200"), site.add("b", card_residency_ms="0")
    asked = [site.ask(b, value) for value in range(5)]
    closing = threading.Thread(target=lambda: b.close(WAIT_S))
    closing.start()
    assert [each.result(WAIT_S) for each in asked] == [0, 2, 4, 6, 8]
    closing.join(WAIT_S)
    assert site.answer(a, 1) == 2


def test_a_lost_card_is_no_ones_fault_and_its_models_go_to_another_one(
    site: Site, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    a, b = site.add("a", card_residency_ms="0"), site.add("b", card_residency_ms="0")
    cards.unplug(0)
    assert site.answer(a, 5) == 10
    assert site.answer(b, 6) == 12


def test_a_run_that_hangs_while_its_model_leaves_runs_again_and_the_log_names_the_unit(
    site: Site, cards: Cards, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Loading the other model's xclbin ends the hang."""
    monkeypatch.setenv("HYPERSONIC_EMU_HANG", "facile_1:2")
    with kept_up():
        a, b = (site.add(name, card_residency_ms="0", timeout_ms="500", retry_ms="20") for name in "ab")
        assert site.answer(a, 1) == 2
        (instance,), before_ns = site.loaded[0].instances, time.monotonic_ns()
        hung = site.ask(a, 2)
        wait_until(lambda: instance.used_ns > before_ns)
        assert [site.answer(b, 3), hung.result(WAIT_S)] == [6, 4]
    assert [(each.timeouts, each.runs) for each in a.figures.values()] == [(1, 2)]
    assert "facile_1 did not complete a run before it left its card" in caplog.text


def test_waiting_models_of_one_xclbin_come_to_one_card_together(
    site: Site, weighted: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    before = [site.add(name, card_residency_ms="0") for name in "ab"]
    xclbin = linked(Xclbin.read(weighted[0]).bitstream, weights=True, digest="f" * 64)
    parameters = {"card_policy": "on_demand", "card_residency_ms": "0"}
    for name in "cdef":
        site.publish(name, xclbin, weights=0, parameters=parameters)
    together = [site.serve(site.place / name / "1") for name in "cdef"]
    for _ in range(3):
        asked = [site.ask(model, 4) for model in together]
        assert [each.result(WAIT_S) for each in asked] == [8] * 4
        assert sorted(map(resident, before)) == [False, True]
        assert [site.answer(model, 1) for model in before] == [2, 2]


@pytest.mark.parametrize("policy", ["on_demand", "resident"])
def test_a_load_that_is_refused_after_it_has_its_card_gives_the_card_back(site: Site, policy: str) -> None:
    for name in "abcdef":
        with pytest.raises(ModelConfigError, match="parameter timeout_ms is '-1', expected an integer from 1"):
            site.add(name, policy, timeout_ms="-1")
    x, y = (site.add(name, card_residency_ms="0") for name in "xy")
    assert [site.answer(model, 2) for model in (x, y, x, y)] == [4, 4, 4, 4]
