# SPDX-License-Identifier: Apache-2.0
"""The batch job on a real Slurm: it publishes its address, clients find it, and its end loses nothing."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from hypersonic.client import Client
from hypersonic.server.app import add_arguments
from hypersonic.server.options import Options
from tests.deploy.sites.slurm_cluster import Cluster, cluster, missing_programs
from tests.reference.repository import addsub, write
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "deploy" / "slurm" / "hypersonic.sbatch"
DRAINED = "All requests are answered and all models unloaded."
CLIENTS, CARDS = 3, 3

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=missing_programs())


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("slurm"), CARDS) as running:
        yield running


@pytest.fixture(scope="module")
def submit(slurm: Cluster) -> Callable[..., str]:
    """Submit the job with further options of sbatch; returns its number."""
    models, program = slurm.directory / "models", slurm.directory / "hypersonic"
    write(models, {"simple": addsub("INT32")})
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m hypersonic.cli "$@"\n')
    program.chmod(0o755)
    package = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    variables = {
        "HYPERSONIC": str(program),
        "HYPERSONIC_MODELS": str(models),
        "HYPERSONIC_SERVERS_DIR": str(slurm.directory / "servers"),
        "HYPERSONIC_ADDRESS": "127.0.0.1",
        "PYTHONPATH": package,
    }
    return lambda *options: slurm.run("sbatch", "--parsable", *options, str(SCRIPT), **variables)


@dataclass
class Load:
    """Clients that send requests with rows of their own in a loop. A request may be retried; the caller must not see that."""

    servers: Path
    answered: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, number: int) -> None:
        with Client(f"file://{self.servers}") as client:
            model = client.model("simple")
            one = np.ones((1, 16), np.int32)
            for n in range(number * 10**6, (number + 1) * 10**6):
                if self.stopping.is_set():
                    return
                try:
                    result = model.result({"INPUT0": n * one, "INPUT1": one})
                except Exception as error:  # noqa: BLE001 - the test fails with it
                    self.failed.append(f"{type(error).__name__}: {error}")
                    return
                right = (result.outputs["OUTPUT0"] == n + 1).all() and (result.outputs["OUTPUT1"] == n - 1).all()
                self.answered[result.server if right else "another client's rows"] += 1


def test_jobs_come_and_go_and_no_request_is_lost(
    slurm: Cluster, submit: Callable[..., str], record_property: Callable[[str, object], None]
) -> None:
    """One job is cancelled, one reaches its time limit, one stays."""
    servers = slurm.directory / "servers"

    def address(job: str) -> str:
        file = servers / job
        wait_until(lambda: file.is_file() or slurm.state(job) not in {"PENDING", "RUNNING"}, 300, 0.2, explain=slurm.logs)
        return file.read_text().strip()

    def used_since(server: str, before: int) -> bool:
        return load.answered[server] > before or bool(load.failed)

    staying, cancelled, limited = (submit() for _ in range(CARDS))
    found = {job: address(job) for job in (staying, cancelled, limited)}
    load = Load(servers)
    threads = [threading.Thread(target=load.run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(load.answered[server] for server in found.values()) or load.failed, 120)
        slurm.run("scancel", cancelled)
        end_soon(slurm, limited)
        slurm.wait_for(cancelled, "CANCELLED")
        slurm.wait_for(limited, "COMPLETED")
        before = load.answered[found[staying]]
        wait_until(lambda: used_since(found[staying], before + 100), 120)
    finally:
        load.stopping.set()
        for thread in threads:
            thread.join(60)
    record_property("noteworthy", f"answers by server: {dict(load.answered)}")
    assert not load.failed
    assert set(load.answered) == set(found.values())
    assert [file.name for file in servers.iterdir()] == [staying], "a job that has ended is no longer published"
    for job in (cancelled, limited):
        log = (slurm.directory / f"hypersonic-{job}.log").read_text()
        assert log.count("Signal (15) received.") == 1, log
        assert DRAINED in log, log


def end_soon(slurm: Cluster, job: str) -> None:
    """Reduce the job's time limit to one or two minutes from now. Slurm sends TERM at its next look, which is every 30 s."""
    (elapsed,) = re.findall(r"RunTime=(\d+):(\d+):\d+", slurm.run("scontrol", "show", "job", job))
    slurm.run("scontrol", "update", f"JobId={job}", f"TimeLimit={60 * int(elapsed[0]) + int(elapsed[1]) + 2}")


def test_further_options_replace_those_of_the_script(tmp_path: Path) -> None:
    """A program in place of hypersonic prints its arguments."""
    environ = {**os.environ, "HYPERSONIC": "echo", "HYPERSONIC_MODELS": "/models", "HYPERSONIC_SERVERS_DIR": str(tmp_path)}
    environ |= {"HYPERSONIC_OPTIONS": "--metrics-port=9402 --id=a", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash", SCRIPT], env=environ, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words[0] == "serve"
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = Options.of(parser.parse_args(words[1:]))
    assert (options.metrics_port, options.grpc_port, options.grpc_address_file) == (9402, 0, str(tmp_path / "7"))


def test_the_job_leaves_time_to_drain() -> None:
    """The signal before the time limit comes early enough, and scancel's KILL later than the server's own end."""
    text = SCRIPT.read_text()
    signal = re.search(r"^#SBATCH --signal=B:TERM@(\d+)$", text, re.MULTILINE)
    drain = re.search(r"--exit-timeout-secs=(\d+)", text)
    assert signal
    assert drain
    assert int(drain[1]) < 30 < int(signal[1]), "Slurm's default KillWait is 30 s"


def test_a_job_that_asks_for_its_card_s_processors_waits_for_them_and_gets_no_others(tmp_path: Path) -> None:
    """The option of the page; half of the host's processors, those of the other socket, are idle."""
    page = (ROOT / "docs" / "sites.md").read_text()
    (option,) = re.findall(r"`sbatch (--gres-flags=[a-z-]+)`", page)
    with cluster(tmp_path, 2) as slurm:

        def processors(job: str) -> list[str]:
            return re.findall(r"CPU_IDs=(\S+)", slurm.run("scontrol", "--details", "show", "job", job))

        argv = ("sbatch", "--parsable", "--gres=fpga:1", "--cpus-per-task=4", option, "--wrap=sleep 600")
        first, second = slurm.run(*argv), slurm.run(*argv)
        slurm.wait_for(first, "RUNNING")
        wait_until(lambda: "Reason=Resources" in slurm.run("scontrol", "show", "job", second), 60, 0.2, explain=slurm.logs)
        assert (processors(first), slurm.state(second)) == (["0-3"], "PENDING")
        slurm.run("scancel", first)
        slurm.wait_for(second, "RUNNING")
        assert processors(second) == ["0-3"]
