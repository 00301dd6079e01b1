# SPDX-License-Identifier: Apache-2.0
"""Runs in coffea's own environment: coffea's triton_wrapper and ours, on a server's model `double` (rows of four FP32).

coffea_overlap_program.py answers <address>   compare their answers on awkward and dask-awkward arrays, in other processes too
coffea_overlap_program.py rates <address>     time both; prints requests per second as JSON
coffea_overlap_program.py versions <a>,<b>    call servers of versions 1 and 2; prints the versions of each call's rows as JSON
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
import time
import warnings
from typing import Any

import awkward as ak
import coffea.ml_tools
import dask_awkward  # type: ignore[import-not-found] # of coffea's environment
import numpy as np

from hypersonic.client import Limits, Settings
from hypersonic.client.coffea import _batches, triton_wrapper
from hypersonic.client.specs import TensorSpec

BATCH = 8
IN_FLIGHT = 8


class Coffeas(coffea.ml_tools.triton_wrapper):  # type: ignore[misc] # coffea is not installed here
    def prepare_awkward(self, events: Any) -> Any:
        return [], prepared(ak if isinstance(events, ak.Array) else dask_awkward, events)


class Ours(triton_wrapper):
    def prepare_awkward(self, events: Any) -> Any:
        return [], prepared(ak if isinstance(events, ak.Array) else dask_awkward, events)


def prepared(library: Any, events: Any) -> dict[str, Any]:
    """Four columns of the events' jets as rows, float64 to be converted."""
    columns = [library.flatten(events[name])[:, np.newaxis] for name in ("pt", "eta", "phi", "mass")]
    return {"output_list": ["y"], "input_dict": {"x": library.concatenate(columns, axis=1)}}


def events(count: int, seed: int = 5) -> Any:
    """Events with 0 to 4 jets."""
    rng = np.random.default_rng(seed)
    jets = rng.integers(0, 5, count)
    columns = {name: ak.unflatten(rng.normal(size=jets.sum()), jets) for name in ("pt", "eta", "phi", "mass")}
    return ak.zip(columns)


def compare_answers(address: str) -> None:
    """Ours equals coffea's, whichever way it is called."""
    coffeas = Coffeas(f"triton+grpc://{address}/double/1", client_args={"ssl": False})
    # two ways of writing the same server, as if they were two
    several = address + "," + address.replace("127.0.0.1", "localhost")
    ours = Ours(f"triton+grpc://{several}/double/", client_args={"ssl": False}, settings=Settings(limits=Limits(IN_FLIGHT)))
    given = events(60)
    expected = coffeas(given)["y"]
    assert len(expected) % BATCH, "the last batch is not full"
    answered = ours(given)["y"]
    assert isinstance(answered, ak.Array)
    assert str(answered.type) == str(expected.type)
    assert answered.to_list() == expected.to_list()
    assert len(ours(given[:0])["y"]) == 0
    assert ours.batch_size == coffeas.batch_size == BATCH
    assert ours(given[:1])["y"].to_list() == coffeas(given[:1])["y"].to_list()

    copy = pickle.loads(pickle.dumps(ours))
    assert copy.client is ours.client
    assert copy(given)["y"].to_list() == expected.to_list()
    assert Ours(f"triton+grpc://{address}/double/1", {"ssl": False}).client is not ours.client

    lazy = dask_awkward.from_awkward(given, npartitions=3)
    for wrapper, scheduler in ((coffeas, "threads"), (ours, "threads"), (ours, "processes")):
        assert wrapper(lazy)["y"].compute(scheduler=scheduler, num_workers=1).to_list() == expected.to_list(), scheduler
    refuse_mistakes(address, given)
    sent = [one.sent for one in ours.client.statistics().servers]
    copy.close()
    assert ours(given)["y"].to_list() == expected.to_list(), "a new client takes the place of one that was closed"
    sys.stdout.write(json.dumps({"rows": len(expected), "sent": sent}))


def refuse_mistakes(address: str, given: Any) -> None:
    """Mistakes have errors that say what to write."""
    rows = np.zeros((9, 4), np.float32)
    ours = Ours(f"triton+grpc://{address}/double/1", {"ssl": False})
    for url, args, words in (
        (f"triton+grpc://{address}/double", {}, "expected triton+grpc://HOST:PORT[,HOST:PORT..]/MODEL/VERSION"),
        (f"triton+http://{address}/double/1", {}, "gRPC only"),
        ("triton+grpc://nowhere/double/1", {}, "expected HOST:PORT"),
        (f"triton+grpc://{address},/double/1", {}, "empty address"),
        (f"triton+grpc://{address}/double/1", {"keepalive_options": 1}, "client_args has keepalive_options"),
    ):
        assert words in refusal(lambda url=url, args=args: Ours(url, args))
    assert "batch_size is 0" in refusal(lambda: Ours(f"triton+grpc://{address}/double/1", batch_size=0))
    assert "Input [z] not defined" in refusal(lambda: ours(["y"], {"z": rows}))  # coffea's own words
    masked = np.ma.masked_array(rows, mask=rows == 0)
    assert "masked values, expected none" in refusal(lambda: ours(["y"], {"x": masked}))
    whole = {"kind": np.ones((2, 1))}
    cast = next(_batches([TensorSpec("kind", "UINT8", (1,))], whole, 2, 2))["kind"]
    assert (str(cast.dtype), cast.tolist()) == ("uint8", [[1], [1]])
    for value in (0.5, 256.0, np.nan, -1):
        batches = _batches([TensorSpec("kind", "UINT8", (1,))], {"kind": np.array([[0], [value]])}, 2, 2)
        assert f"input 'kind' has {np.array([[0], [value]])[1, 0]}, which is no uint8" in refusal(
            lambda batches=batches: next(batches)
        )
    assert "which is infinite as FP32" in refusal(lambda: ours(["y"], {"x": np.full((9, 4), 1e39)}))
    assert "different numbers of rows" in refusal(lambda: ours.numpy_call(["y"], {"x": rows, "z": rows[:3]}))


def refusal(call: Any) -> str:
    """The message of the ValueError that a call raises."""
    try:
        call()
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def measure_rates(address: str, batches: int = 48) -> None:
    """The best rate of three for each, in requests per second; they take turns. The first call connects and is not timed."""
    rows = np.random.default_rng(6).normal(size=(batches * BATCH, 4)).astype(np.float32)
    limits = Settings(limits=Limits(in_flight=IN_FLIGHT))
    wrappers: dict[str, Any] = {
        "coffea": Coffeas(f"triton+grpc://{address}/double/1", {"ssl": False}),
        "hypersonic": Ours(f"triton+grpc://{address}/double/1", {"ssl": False}, settings=limits),
    }
    for wrapper in wrappers.values():
        wrapper(["y"], {"x": rows[:BATCH]})
    rates: dict[str, list[float]] = {name: [] for name in wrappers}
    for _ in range(3):
        for name, wrapper in wrappers.items():
            gc.collect()
            begin = time.perf_counter()
            answer = wrapper(["y"], {"x": rows})["y"]
            rates[name].append(batches / (time.perf_counter() - begin))
            np.testing.assert_array_equal(answer, 2 * rows)
    sys.stdout.write(json.dumps({name: max(each) for name, each in rates.items()}))


def list_versions(addresses: str) -> None:
    """Version n answers 2 n x."""
    rows = np.ones((20 * BATCH, 4), np.float32)
    ours = Ours(f"triton+grpc://{addresses}/double/", {"ssl": False})
    calls = [ours(["y"], {"x": rows})["y"] for _ in range(20)]
    sys.stdout.write(json.dumps([sorted({int(value) // 2 for value in call.ravel()}) for call in calls]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*Automatic conversion will be performed")
    {"answers": compare_answers, "rates": measure_rates, "versions": list_versions}[sys.argv[1]](sys.argv[2])
