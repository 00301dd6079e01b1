# SPDX-License-Identifier: Apache-2.0
"""Models that share cards: who gets which card and which compute units, on emulated cards."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersonic.firmware.xclbin.container import Xclbin
from hypersonic.host.driver import Handle
from hypersonic.host.errors import DeviceNotFoundError, failure
from hypersonic.host.xrt import Library
from hypersonic.server.backends.fpga.backend import FpgaModel
from hypersonic.server.backends.fpga.instance import FpgaInstance
from hypersonic.server.core.config.read import read_config
from hypersonic.server.core.inference.card import Shortfall
from hypersonic.server.errors import BackendError, InstanceAwayError, ModelBusyError
from tests.host.conftest import Build, Cards
from tests.server.backends.fpga.repositories import Repository, linked
from tests.server.backends.fpga.zeros import a_row_of_zeros, close


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = Repository(tmp_path / "models")
    yield made
    for model in reversed(made.loaded):
        close(model)


@pytest.fixture
def weighted_image(weighted: Build) -> bytes:
    return Xclbin.read(weighted[0]).bitstream


def card_of(model: FpgaModel) -> str:
    card = model.card(model.instances[0])
    assert card is not None
    return card.gpu_uuid


def answers(model: FpgaModel, version: Path) -> list[float]:
    """The answer of each instance to a row of zeros."""
    return [answer_of(instance, version) for instance in model.instances]


def answer_of(instance: FpgaInstance, version: Path) -> float:
    (slot,) = instance.slots
    slot.start([a_row_of_zeros(read_config(version.parent / "config.pbtxt", version.parent.name))])
    slot.finish()
    return float(np.frombuffer(b"".join(slot.answer(0).outputs[0].chunks), "<f4")[0])


def test_models_of_one_kernel_with_their_own_weights_share_its_units(repository: Repository, weighted_image: bytes) -> None:
    first = repository.publish("a", linked(weighted_image, 2, weights=True), weights=3)
    second = repository.publish("b", linked(weighted_image, 1, weights=True), weights=4)
    a, b = repository.load(first), repository.load(second)
    assert card_of(a) == card_of(b)
    assert [[instance.name for instance in model.instances] for model in (a, b)] == [["facile_1", "facile_2"]] * 2
    assert (answers(a, first), answers(b, second), answers(a, first)) == ([3, 3], [4, 4], [3, 3])
    repository.close(a)
    assert answers(b, second) == [4, 4]


def test_another_kernel_of_the_same_name_gets_another_card(repository: Repository, weighted_image: bytes) -> None:
    a = repository.load(repository.publish("a", linked(weighted_image, weights=True), weights=3))
    other = linked(weighted_image, weights=True, digest="e" * 64)
    assert card_of(repository.load(repository.publish("b", other, weights=4))) != card_of(a)


def test_a_kernel_without_a_digest_is_known_by_its_xclbin_only(repository: Repository, weighted_image: bytes) -> None:
    one, two = (linked(weighted_image, units, weights=True, digest="") for units in (1, 2))
    a, b, c = (
        repository.load(repository.publish(name, xclbin, weights=3)) for name, xclbin in (("a", one), ("b", two), ("c", one))
    )
    assert card_of(a) == card_of(c) != card_of(b)


def shortfall_of(model: FpgaModel) -> Shortfall | None:
    card = model.card(model.instances[0])
    assert card is not None
    return card.shortfall()


def test_the_versions_of_a_model_share_its_units_so_that_one_replaces_the_other_at_once(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    versions = [repository.publish("a", linked(image), version=number) for number in (1, 2)]
    old, new = map(repository.load, versions)
    assert card_of(new) == card_of(old)
    assert shortfall_of(new) is None
    repository.close(old)
    assert answers(new, versions[1]) == [0]


def test_a_version_with_other_compute_units_gets_a_free_card(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    versions = [repository.publish("a", linked(image, units), version=units) for units in (1, 2)]
    old, new = map(repository.load, versions)
    assert card_of(new) != card_of(old)
    assert [instance.name for instance in new.instances] == ["facile_1", "facile_2"]
    repository.close(old)
    assert answers(new, versions[1]) == [0, 0]
    again = repository.load(repository.publish("a", linked(image, 1), version=3))
    assert [instance.name for instance in again.instances] == ["facile_1"], "the first card is free again"


def test_a_version_with_another_clock_gets_a_free_card(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    versions = [repository.publish("a", linked(image, mhz=mhz), version=number) for number, mhz in ((1, 300), (2, 200))]
    old, new = map(repository.load, versions)
    assert card_of(new) != card_of(old)
    assert shortfall_of(new) is None


def test_a_version_on_the_only_card_tells_how_it_differs_from_its_own_xclbin(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    versions = [repository.publish("a", linked(image, units), version=units) for units in (1, 2)]
    old, new = map(repository.load, versions)
    assert [instance.name for instance in new.instances] == ["facile_1"], "the card has the first version's xclbin"
    shortfall = shortfall_of(new)
    assert shortfall is not None
    assert "the model has 1 compute unit at 300 MHz of card 0" in shortfall.text
    assert "its own xclbin, which is not loaded, has 2 compute units at 300 MHz. Unload the model" in shortfall.text
    assert shortfall.ends_with_versions
    repository.close(old)
    assert answers(new, versions[1]) == [0]
    repository.close(new)
    alone = repository.load(versions[1])
    assert ([instance.name for instance in alone.instances], shortfall_of(alone)) == (["facile_1", "facile_2"], None)


def test_another_model_with_the_same_kernel_is_in_the_way_for_as_long_as_it_stays(
    repository: Repository, weighted_image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    versions = [
        repository.publish(name, linked(weighted_image, units, weights=True), weights=3) for name, units in (("a", 1), ("b", 2))
    ]
    _first, second = map(repository.load, versions)
    shortfall = shortfall_of(second)
    assert shortfall is not None
    assert not shortfall.ends_with_versions


def test_a_card_that_was_reset_gets_the_xclbin_of_the_version_that_is_still_there(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch, cards: Cards
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    versions = [repository.publish("a", linked(image, mhz=mhz), version=number) for number, mhz in ((1, 300), (2, 200))]
    old, new = map(repository.load, versions)
    repository.close(old)
    shortfall = shortfall_of(new)
    assert shortfall is not None
    assert "at 300 MHz of card 0" in shortfall.text
    cards.reset(0)
    with pytest.raises(BackendError):
        answers(new, versions[1])
    assert new.instances[0].revive()
    assert answers(new, versions[1]) == [0]
    assert shortfall_of(new) is None


def test_two_models_that_claim_one_unit_are_both_named_when_no_card_is_free(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "2")
    first, second, third = (repository.publish(name, linked(image)) for name in "abc")
    a, b = repository.load(first), repository.load(second)
    assert card_of(a) != card_of(b)
    with pytest.raises(
        ModelBusyError, match=r"each of the 2 .*card 0 has the kernel of 'c', but 'a' uses facile_1; card 1 .* 'b' uses"
    ):
        repository.load(third)
    repository.close(a)
    repository.load(third)


def test_a_card_is_free_when_its_last_model_has_left(
    repository: Repository, image: bytes, weighted_image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERSONIC_EMU_DEVICES", "1")
    a, b = (repository.load(repository.publish(name, linked(weighted_image, weights=True), weights=3)) for name in "ab")
    other = repository.publish("c", linked(image, digest="e" * 64))
    repository.close(a)
    with pytest.raises(ModelBusyError, match="card 0 has the xclbin of 'b'"):
        repository.load(other)
    repository.close(b)
    repository.load(other)


def test_a_card_comes_back_with_the_xclbin_of_a_model_that_is_still_there(
    repository: Repository, weighted_image: bytes, cards: Cards
) -> None:
    first, second = (repository.publish(name, linked(weighted_image, weights=True), weights=3) for name in "ab")
    a, b = map(repository.load, (first, second))
    repository.close(a)
    (first / "model.xclbin").unlink()
    cards.reset(0)
    with pytest.raises(BackendError):
        answers(b, second)
    assert b.instances[0].revive()
    assert answers(b, second) == [3]
    card = b.card(b.instances[0])
    assert card is not None
    assert card.read(0).xclbin_reloads == 1


def test_a_model_with_more_units_than_its_own_xclbin_has_comes_back_when_the_other_was_removed(
    repository: Repository, weighted_image: bytes, cards: Cards
) -> None:
    first, second = (
        repository.publish(name, linked(weighted_image, units, weights=True), weights=3) for name, units in (("a", 2), ("b", 1))
    )
    a, b = map(repository.load, (first, second))
    assert [instance.name for instance in b.instances] == ["facile_1", "facile_2"]
    repository.close(a)
    shutil.rmtree(first)
    cards.reset(0)
    for instance in b.instances:
        with pytest.raises(BackendError):
            answer_of(instance, second)
    with pytest.raises(InstanceAwayError, match="facile_1 can be recovered once facile_2"):
        b.instances[0].revive()
    assert [instance.revive() for instance in reversed(b.instances)] == [True, True]
    assert answers(b, second) == [3, 3]


def test_a_card_tells_its_traffic_and_what_its_banks_hold(repository: Repository, image: bytes) -> None:
    version = repository.publish("a", linked(image, 2))
    model = repository.load(version)
    answers(model, version)
    card = model.card(model.instances[0])
    assert card is not None
    read = card.read(0)
    assert (read.bytes_to_card, read.bytes_from_card) == (2 * 72, 2 * 4)
    assert read.held_bytes == {"bank0": 16 * 76, "bank1": 16 * 76}


def test_a_card_that_the_batch_job_was_not_given_is_passed_over(
    repository: Repository, image: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm with ConstrainDevices denies the device nodes of other jobs' cards: open() gives EPERM."""
    opened, tried = Library.open_device, list[int]()

    def open_device(library: Library, index: int) -> Handle:
        tried.append(index)
        if index == 0:
            raise failure(DeviceNotFoundError, "card 0 cannot be opened", errno.EPERM)
        return opened(library, index)

    monkeypatch.setattr(Library, "open_device", open_device)
    repository.load(repository.publish("a", linked(image)))
    assert tried == [0, 1]
