# SPDX-License-Identifier: Apache-2.0
"""Runs a server for half an hour under everything at once, and prints its memory, threads and descriptors each minute.

    python -m tests.faults.soak [--minutes 30]

The server has python, onnxruntime, ensemble, decoupled and sequence models, and three models of the zoo (sw_emu) that take
turns on two emulated cards. At the same time:

- the client of this project maps events over this server, a second one that is killed with signal 9 and started again every 20
  seconds, and a proxy that drops a row of each answer;
- each model that takes turns is asked by a client of its own, one of them at a low rate;
- a model is loaded again and again with extreme numbers in its configuration, and with damaged files;
- connections send random bytes, half messages and resets, and read an answer slowly;
- streams are left early.

Every answer is compared. The last line says how many were wrong, which errors honest clients saw, and how memory, threads
and descriptors have changed since the fifth part of the time was over.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from bench.client_faults import dropping, proxy_of
from hypersonic.building.model import build
from hypersonic.client import Client, ClientError, Result
from tests.faults.raw import RawGrpc, connect
from tests.faults.site import Site, infer, streamed, tensor, write_site
from tests.support.server_program import Program, program

#: the models that take turns; the first has a card most of the time, the last is asked every two seconds
TURNS = {"facile": 0.0, "jets": 0.0, "anomaly": 2.0}
FARM = {"double": 2.0, "triple": 3.0, "six": 6.0}
X = np.arange(6, dtype=np.float32).reshape(2, 3)
EXTREME = (0, 1, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 1e-320, 1e300)
#: fields of a configuration that take a number, as a path of keys
NUMBERS = (
    ("dynamicBatching", "maxQueueDelayMicroseconds"),
    ("dynamicBatching", "defaultQueuePolicy", "defaultTimeoutMicroseconds"),
    ("dynamicBatching", "priorityLevels"),
    ("sequenceBatching", "maxSequenceIdleMicroseconds"),
    ("maxBatchSize",),
    ("optimization", "inputPinnedMemory"),
)
PARAMETERS = ("card_residency_ms", "card_priority", "timeout_ms", "retry_ms", "slots", "slot_rows", "share")


@dataclass
class Tally:
    """The answers of honest clients. Any thread may count."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    longest_s: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, *, right: bool, seconds: float = 0.0) -> None:
        with self.lock:
            (self.right if right else self.wrong)[name] += 1
            self.longest_s[name] = max(self.longest_s.get(name, 0.0), seconds)

    def error(self, name: str, error: Exception) -> None:
        with self.lock:
            self.errors[f"{name}: {' '.join(str(error).split())[:160]}"] += 1


def write_repository(place: Path) -> Path:
    """The models."""
    write_site(place)
    for name in TURNS:
        build(name, target="sw_emu", repository=place)
        config = place / name / "config.pbtxt"
        extra = [("card_policy", "on_demand"), ("card_residency_ms", "1000")]
        words = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in extra)
        config.write_text(config.read_text() + words)
    return place


def map_over_the_farm(servers: list[str], tally: Tally, over: threading.Event) -> None:
    """The client of this project: every event answered, and answered right."""
    with Client(servers) as client:
        while not over.is_set():
            for name, factor in FARM.items():
                events = [X + n for n in range(200)]
                for answer in client.model(name).map(events, return_exceptions=True):
                    if isinstance(answer, Result):
                        right = np.array_equal(answer.output, factor * events[answer.index])
                        tally.count(f"farm {name}", right=right, seconds=answer.latency_ns * 1e-9)
                    elif isinstance(answer, ClientError):
                        tally.error(f"farm {name}", answer)


def ask_in_turns(name: str, pause_s: float, site: Site, tally: Tally, over: threading.Event) -> None:
    """A client of a model that takes turns."""
    with site.client() as client:
        spec = client.get_model_metadata(name, as_json=True)
        shape = [16, *(int(n) for n in spec["inputs"][0]["shape"][1:])]
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        expected: np.ndarray | None = None
        while not over.is_set():
            begin = time.monotonic()
            try:
                answer = client.infer(name, [tensor(x, spec["inputs"][0]["name"])], client_timeout=300)
                got = answer.as_numpy(spec["outputs"][0]["name"])
                expected = got if expected is None else expected
                tally.count(f"turns {name}", right=np.array_equal(got, expected), seconds=time.monotonic() - begin)
            except InferenceServerException as error:
                tally.error(f"turns {name}", error)
            over.wait(pause_s)


def load_extremes(site: Site, tally: Tally, over: threading.Event) -> None:
    """Load a model with extreme numbers and with damaged files; each load succeeds or is refused."""
    rng = random.Random(2)
    names = ("slow", *TURNS)
    with site.client() as client:
        while not over.is_set():
            name = rng.choice(names)
            try:
                config = client.get_model_config(name, as_json=True)["config"]
                with suppress(InferenceServerException):
                    client.load_model(name, config=json.dumps(_extreme(config, rng)))
                    tally.count("loads taken", right=True)
                if rng.random() < 0.2:
                    with suppress(InferenceServerException):
                        client.load_model("slow", config=json.dumps(config), files={"file:1/model.py": rng.randbytes(300)})
                client.load_model(name)
                tally.count("loads", right=True)
            except InferenceServerException as error:
                tally.error(f"load {name}", error)
            over.wait(0.5)


def _extreme(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The configuration with one extreme number."""
    changed: dict[str, Any] = json.loads(json.dumps(config))
    value = rng.choice(EXTREME)
    if rng.random() < 0.5:
        changed.setdefault("parameters", {})[rng.choice(PARAMETERS)] = {"string_value": str(value)}
        return changed
    *path, last = rng.choice(NUMBERS)
    inner = changed
    for key in path:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return changed


def attack(site: Site, over: threading.Event) -> None:
    """Random bytes, half messages and resets on all ports."""
    rng = random.Random(3)
    services = ("GRPCInferenceService", "HTTPService", "Metrics Service")
    while not over.is_set():
        with suppress(OSError):
            address = site.address(rng.choice(services))
            with connect(address, "127.0.0.2", 5) as stranger:
                stranger.sendall(
                    rng.choice((b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /v2/models/double/infer HTTP/1.1\r\n"))
                )
                stranger.sendall(rng.randbytes(rng.randrange(1, 20_000)))
                if rng.random() < 0.5:
                    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        over.wait(0.05)


def stall(site: Site, over: threading.Event) -> None:
    """Half messages, and answers that are read a byte at a time."""
    while not over.is_set():
        with suppress(OSError), ExitStack() as stack:
            for _ in range(8):
                half = stack.enter_context(RawGrpc(site.address("GRPCInferenceService"), "127.0.0.4", 10))
                half.begin("ModelInfer")
            with connect(site.address("Metrics Service"), "127.0.0.4", 10) as slow:
                slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n")
                for _ in range(20):
                    slow.recv(1)
                    over.wait(0.5)


def leave_streams(site: Site, tally: Tally, over: threading.Event) -> None:
    """Read streams to their end and leave others early."""
    while not over.is_set():
        try:
            tally.count("streams", right=streamed(site, 20, 100) == [float(n) for n in range(20)])
            with site.client() as client:
                client.start_stream(lambda result, error: None)
                client.async_stream_infer("repeat", [tensor(np.array([1000, 10, 0.01], np.float32))])
                over.wait(0.2)
                client.stop_stream(cancel_requests=True)
        except InferenceServerException as error:
            tally.error("streams", error)


def restart(repository: Path, addresses: Path, over: threading.Event) -> None:
    """A second server that is killed every 20 seconds."""
    while not over.is_set():
        options = ("--model-repository", str(repository), "--grpc-address-file", str(addresses / "second"))
        with program(*options, *_explicit("double", "triple", "six")):
            over.wait(20)


def _explicit(*models: str) -> list[str]:
    return ["--model-control-mode", "explicit", *(f"--load-model={name}" for name in models)]


def figures(process: int) -> tuple[float, int, int]:
    """Resident MB, threads and descriptors of a process and its children."""
    processes = [process, *_children(process)]
    resident, threads, descriptors = 0, 0, 0
    for each in processes:
        with suppress(OSError):
            status = dict(line.split(":", 1) for line in Path(f"/proc/{each}/status").read_text().splitlines() if ":" in line)
            resident += int(status["VmRSS"].split()[0])
            threads += int(status["Threads"])
            descriptors += sum(1 for _ in Path(f"/proc/{each}/fd").iterdir())
    return resident / 1024, threads, descriptors


def _children(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _children(int(child))


@contextmanager
def everything(server: Program, repository: Path, addresses: Path, tally: Tally) -> Iterator[None]:
    """Start all clients, honest and not."""
    over, site = threading.Event(), Site(server, repository)
    with ExitStack() as stack:
        liar = stack.enter_context(proxy_of(server.grpc, dropping))
        tasks: list[Callable[[], None]] = [
            lambda: map_over_the_farm([f"file://{addresses}", liar], tally, over),
            *((lambda name=name, pause=pause: ask_in_turns(name, pause, site, tally, over)) for name, pause in TURNS.items()),
            lambda: load_extremes(site, tally, over),
            lambda: attack(site, over),
            lambda: stall(site, over),
            lambda: leave_streams(site, tally, over),
            lambda: restart(repository, addresses, over),
        ]
        threads = [threading.Thread(target=task, daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(120)


def run(minutes: float) -> None:
    """Run for so many minutes."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        repository, addresses = write_repository(Path(place) / "models"), Path(place) / "addresses"
        addresses.mkdir()
        options = ["--model-repository", str(repository), "--emulated-cards", "2", "--client-timeout-secs", "5"]
        options += ["--grpc-address-file", str(addresses / "first"), *_explicit("*")]
        with program(*options) as server, everything(server, repository, addresses, tally):
            end = time.monotonic() + 60 * minutes
            first: tuple[float, int, int] | None = None
            while (left := end - time.monotonic()) > 0 and server.process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    server.process.wait(min(60.0, left))
                now = figures(server.process.pid)
                if first is None and left < 60 * minutes * 0.8:
                    first = now
                print("{:7.1f} MB {:5} threads {:5} descriptors".format(*now), sum(tally.right.values()), "answers", flush=True)
            alive = server.process.poll() is None
            logged = Counter(re.sub(r"[0-9.:]+", "N", line)[:200] for line in server.lines if line[:1] in {"E", "W"})
            with suppress(InferenceServerException), Site(server, repository).client() as client:
                alive = alive and bool(np.array_equal(infer(client, "double", X), 2 * X))
    print("the server", "answers" if alive else "has ended", "; wrong answers:", sum(tally.wrong.values()), dict(tally.wrong))
    print("right answers:", dict(tally.right))
    print("longest, s:", {name: round(value, 1) for name, value in tally.longest_s.items()})
    for text, times in (*tally.errors.most_common(30), *logged.most_common(30)):
        print(f"{times:6} {text}")
    if first is not None:
        print(
            "since a fifth of the time: {:+.1f} MB, {:+} threads, {:+} descriptors".format(
                *(b - a for a, b in zip(first, now, strict=True))
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    run(parser.parse_args().minutes)


if __name__ == "__main__":
    main()
