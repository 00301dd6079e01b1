# SPDX-License-Identifier: Apache-2.0
"""model_warmup: what instances see before their version is READY."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hypersonic.server.core.config.schema import ModelConfig
from hypersonic.server.core.inference.answer import Answer, Output
from hypersonic.server.core.inference.backend import Execution
from hypersonic.server.core.inference.card import CardStatus
from hypersonic.server.core.inference.collect import collect
from hypersonic.server.core.inference.pending import Share
from hypersonic.server.errors import BackendError, ModelLoadError
from hypersonic.server.repository.warmup import warm_up
from tests.server.onnx_graphs import config_of, tensors


class RecordingSlot:
    """Answers nothing; keeps the arrays it was given."""

    def __init__(self, capacity_rows: int, fails: bool) -> None:
        self.capacity_rows = capacity_rows
        self.config: ModelConfig | None = None
        self.seen: list[np.ndarray] = []
        self._fails = fails
        self._shares: Sequence[Share] = ()

    def start(self, shares: Sequence[Share]) -> None:
        assert self.config is not None
        self._shares = shares
        self.seen.append(collect(shares, self.config)["x"])

    def finish(self) -> Execution:
        if self._fails:
            raise BackendError("too cold")
        if self.config is not None and self.config.decoupled:
            for share in self._shares:
                share.pending.respond(Answer(()))
                share.pending.end()
        return Execution(time.monotonic_ns(), time.monotonic_ns())

    def answer(self, index: int) -> Answer:
        assert index == 0
        return Answer((Output(0, "FP32", (1, 1), (b"\0" * 4,), 4),))


class RecordingInstance:
    in_service = True

    def __init__(self, name: str, *, capacity_rows: int = 64, fails: bool = False) -> None:
        self.name = name
        self.slots = (RecordingSlot(capacity_rows, fails),)

    def busy_clocks(self) -> int:
        return 0

    def revive(self) -> bool:
        return True

    def close(self) -> None: ...


class Recording:
    def __init__(self, *instances: RecordingInstance, standby: Sequence[RecordingInstance] = ()) -> None:
        self.instances = instances
        self.standby = tuple(standby)

    def card(self, instance: object) -> CardStatus | None:
        return None

    def close(self) -> None: ...


def warmed(
    tmp_path: Path, sample: str, loaded: Recording, *, datatype: str = "FP32", max_batch_size: int = 8, extra: str = ""
) -> list[list[np.ndarray]]:
    """The arrays each instance saw."""
    config = config_of(
        f"max_batch_size: {max_batch_size}\n"
        + tensors("input", ("x", datatype, [2]))
        + tensors("output", ("y", "FP32", [1]))
        + f"model_warmup [ {{ {sample} }} ]"
        + extra
    )
    everyone = [*loaded.instances, *loaded.standby]
    for instance in everyone:
        instance.slots[0].config = config
    warm_up(config, tmp_path, loaded)
    return [instance.slots[0].seen for instance in everyone]


def sample(source: str, datatype: str = "FP32", rest: str = "batch_size: 3", dims: str = "2", name: str = "x") -> str:
    value = f"{{ data_type: TYPE_{datatype} dims: [ {dims} ] {source} }}"
    return f'name: "s" {rest} inputs {{ key: "{name}" value {value} }}'


def test_every_instance_runs_each_sample_as_often_as_it_says(tmp_path: Path) -> None:
    loaded = Recording(RecordingInstance("a"), RecordingInstance("b"), standby=[RecordingInstance("c")])
    seen = warmed(tmp_path, sample("zero_data: true", rest="batch_size: 3 count: 2"), loaded)
    assert [len(arrays) for arrays in seen] == [2, 2, 2]
    for array in seen[0]:
        np.testing.assert_array_equal(array, np.zeros((3, 2), np.float32))


def test_a_sample_larger_than_a_slot_goes_in_pieces(tmp_path: Path) -> None:
    loaded = Recording(RecordingInstance("a", capacity_rows=2))
    (seen,) = warmed(tmp_path, sample("zero_data: true"), loaded)
    assert [array.shape for array in seen] == [(2, 2), (1, 2)]


def test_random_data_are_floats_between_0_and_1_and_integers_that_can_be_indices(tmp_path: Path) -> None:
    ((floats,),) = warmed(tmp_path, sample("random_data: true"), Recording(RecordingInstance("a")))
    assert np.all((floats >= 0) & (floats < 1))
    assert len(np.unique(floats)) > 1
    ((integers,),) = warmed(tmp_path, sample("random_data: true", "INT64"), Recording(RecordingInstance("a")), datatype="INT64")
    assert set(integers.reshape(-1).tolist()) <= {0, 1}


@pytest.mark.parametrize("source", ["zero_data: true", "random_data: true"])
@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "STRING", "UINT8"])
def test_every_kind_of_datatype_can_be_made_up(tmp_path: Path, datatype: str, source: str) -> None:
    wire = {"STRING": "BYTES"}.get(datatype, datatype)
    ((array,),) = warmed(tmp_path, sample(source, datatype), Recording(RecordingInstance("a")), datatype=wire)
    assert array.shape == (3, 2)


def test_a_file_holds_one_rows_bytes(tmp_path: Path) -> None:
    (tmp_path / "warmup").mkdir()
    np.array([1.5, 2.5], np.float32).tofile(tmp_path / "warmup" / "row")
    ((array,),) = warmed(tmp_path, sample('input_data_file: "row"'), Recording(RecordingInstance("a")))
    np.testing.assert_array_equal(array, [[1.5, 2.5]] * 3)


def test_a_model_without_batches_gets_one_sample(tmp_path: Path) -> None:
    loaded = Recording(RecordingInstance("a"))
    ((array,),) = warmed(tmp_path, sample("zero_data: true", rest=""), loaded, max_batch_size=0)
    assert array.shape == (2,)


def test_a_decoupled_model_is_waited_for(tmp_path: Path) -> None:
    loaded = Recording(RecordingInstance("a"))
    (seen,) = warmed(tmp_path, sample("zero_data: true"), loaded, extra="model_transaction_policy { decoupled: true }")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sample("zero_data: true", "INT32"), "failed to run warmup sample 's': inference input 'x' data-type is 'INT32'"),
        (sample("zero_data: true", dims="3"), "failed to run warmup sample 's': unexpected shape for input 'x'"),
        (sample("zero_data: true", name="z"), "failed to run warmup sample 's': "),
        (sample('input_data_file: "none"'), "warmup/none"),
        (sample('input_data_file: "short"'), "warmup/short has 3 bytes, expected 8"),
        (sample("zero_data: true", dims="1000000000"), "expected at most 2147483647"),
    ],
)
def test_a_sample_that_does_not_fit_fails_the_load(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "short").write_bytes(b"abc")
    with pytest.raises(ModelLoadError) as raised:
        warmed(tmp_path, text, Recording(RecordingInstance("a")))
    assert expected in str(raised.value)


def test_a_run_that_fails_fails_the_load(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="failed to run warmup sample 's': too cold"):
        warmed(tmp_path, sample("zero_data: true"), Recording(RecordingInstance("a", fails=True)))
