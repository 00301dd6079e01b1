# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of one node on the loopback interface: Debian's munged, slurmctld and slurmd, with made-up FPGA cards.

The cards are empty files that gres.conf names. Processes are tracked by their parents (proctrack/linuxproc), because the
cgroups of a build machine cannot be written.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.optional import needs, needs_root
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

PROGRAMS = ("slurmctld", "slurmd", "munged", "mungekey", "sbatch", "scancel", "scontrol")
_CPUS = 8  # more than this machine may have: each job asks for two

_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
GresTypes=fpga
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Sockets=2 CoresPerSocket={half} ThreadsPerCore=1 RealMemory=1000 \
Gres=fpga:u250:{cards} State=UNKNOWN
PartitionName=cards Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs() -> str:
    """Why the cluster cannot be started here; "" if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return needs("slurm-wlm", "munge", detail=f"{', '.join(missing)} not found")
    return needs_root()


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    directory: Path

    def run(self, *argv: str, **variables: str) -> str:
        """Run a command of Slurm and return its output, stripped."""
        done = subprocess.run(
            argv,
            env=self.environment(**variables),
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (argv, done.stdout, done.stderr, self.logs())
        return done.stdout.strip()

    def environment(self, **variables: str) -> dict[str, str]:
        return {**os.environ, "PATH": _path(), "SLURM_CONF": str(self.directory / "slurm.conf"), **variables}

    def state(self, job: str) -> str:
        """The state of a job, such as RUNNING."""
        fields = dict(word.partition("=")[::2] for word in self.run("scontrol", "show", "job", job).split())
        return fields["JobState"]

    def wait_for(self, job: str, *states: str, timeout_s: float = 300.0) -> None:
        wait_until(lambda: self.state(job) in states, timeout_s, interval_s=0.5, explain=lambda: (self.state(job), self.logs()))

    def logs(self) -> str:
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-2000:]}" for file in self.directory.glob("*.log"))


@contextmanager
def cluster(directory: Path, cards: int) -> Iterator[Cluster]:
    """Start the cluster in an empty directory: one host with two sockets, whose cards are at the first one.

    All its processes have ended when the context ends.
    """
    for name in ("state", "spool"):
        (directory / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    devices = [directory / f"card{index}" for index in range(cards)]
    for device in devices:
        device.touch()
    text = _CONF.format(host=host, ports=free_ports(2), directory=directory, cpus=_CPUS, half=_CPUS // 2, cards=cards)
    (directory / "slurm.conf").write_text(text)
    (directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    socket_0 = f"Cores=0-{_CPUS // 2 - 1}"
    (directory / "gres.conf").write_text("".join(f"Name=fpga Type=u250 File={each} {socket_0}\n" for each in devices))
    made = Cluster(directory)
    subprocess.run(
        ["mungekey", "--create", f"--keyfile={directory}/munge.key"], env=made.environment(), check=True, capture_output=True
    )
    munged = [
        "munged", "--foreground", "--force", f"--key-file={directory}/munge.key", f"--socket={directory}/munge.socket",
        f"--pid-file={directory}/munged.pid", f"--log-file={directory}/munged.log", f"--seed-file={directory}/munged.seed",
    ]  # fmt: skip
    conf = str(directory / "slurm.conf")
    with ExitStack() as stack:
        stack.enter_context(_daemon(made, *munged))
        wait_until((directory / "munge.socket").exists, explain=made.logs)
        for argv in (["slurmctld", "-D", "-f", conf], ["slurmd", "-D", "-f", conf]):
            stack.enter_context(_daemon(made, *argv))
        wait_until(lambda: _is_idle(made, host), 120, interval_s=0.2, explain=made.logs)
        stack.callback(_cancel_all, made)
        yield made


def _is_idle(made: Cluster, host: str) -> bool:
    done = subprocess.run(
        ["scontrol", "show", "node", host], env=made.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    return "State=IDLE " in done.stdout


def _cancel_all(made: Cluster) -> None:
    """End every job, so that no server is left behind when slurmd is."""
    made.run("scancel", "--user=root")
    wait_until(lambda: not made.run("squeue", "--noheader"), 90, interval_s=0.2, explain=made.logs)


@contextmanager
def _daemon(made: Cluster, *argv: str) -> Iterator[None]:
    with (made.directory / f"{argv[0]}.out").open("wb") as out:
        process = subprocess.Popen(argv, env=made.environment(), cwd=made.directory, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
