# SPDX-License-Identifier: Apache-2.0
"""The systemd unit, checked by systemd-analyze. No unit is started: a build machine has no systemd as its first process."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from hypersonic.server.app import add_arguments
from hypersonic.server.options import Options
from tests.support.optional import skip_without

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy" / "systemd" / "hypersonic.service"
#: systemd calls an exposure below 2.0 OK at the good end; what remains is network, cards and children that a server needs
MOST_EXPOSURE = 2.0

needs_systemd = skip_without("systemd-analyze", "systemd")


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def started_options() -> Options:
    (line,) = settings()["ExecStart"]
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = [word for word in shlex.split(line)[2:] if word != "$HYPERSONIC_OPTIONS"]
    return Options.of(parser.parse_args(words))


@needs_systemd
def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    """The program is not installed here: another one is in its place, because systemd looks whether it exists."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/hypersonic/bin/hypersonic", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=some"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "some" in done.stderr, "systemd-analyze reports mistakes"


@needs_systemd
def test_systemd_takes_the_settings_for_a_numa_node_that_the_page_names(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sites.md").read_text()
    (row,) = re.findall(r"^\| systemd \| `systemctl edit hypersonic`: (.*) \|$", page, re.MULTILINE)
    section, *lines = re.findall(r"`([^`]+)`", row)
    assert (section, len(lines)) == ("[Service]", 3)
    unit = tmp_path / UNIT.name
    shipped = UNIT.read_text().replace("/opt/hypersonic/bin/hypersonic", "/bin/true")
    for change, mistaken in (("NUMAMask=0", False), ("NUMAMask=first", True)):
        dropped = "\n".join([section, *lines]).replace("NUMAMask=0", change)
        unit.write_text(f"{shipped}\n{dropped}\n")
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
        assert (f"{UNIT.name}:" in done.stderr) == mistaken, done.stderr


@needs_systemd
def test_the_unit_is_confined(record_property: Callable[[str, object], None]) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", f"--threshold={round(10 * MOST_EXPOSURE)}", UNIT],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    record_property("noteworthy", f"exposure {exposure}, at most {MOST_EXPOSURE} is allowed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(exposure) <= MOST_EXPOSURE


def test_systemd_waits_longer_for_the_end_than_the_server_drains() -> None:
    (stop,) = settings()["TimeoutStopSec"]
    assert int(stop) > started_options().exit_timeout_secs
    assert settings()["KillSignal"] == ["SIGTERM"]


def test_the_server_may_use_cards_and_pinned_memory() -> None:
    found = settings()
    assert (found["DeviceAllow"], found["SupplementaryGroups"]) == (["char-drm rw"], ["render"])
    assert found["LimitMEMLOCK"] == ["infinity"]
    assert found["Type"] == ["notify"]
    assert found["User"] != ["root"]


def test_the_server_s_directories_can_be_written() -> None:
    found = settings()
    state = {f"/var/lib/{name}" for name in found["StateDirectory"][0].split()}
    (repository,) = started_options().model_repository
    assert str(repository) in state
    assert any("HYPERSONIC_CACHE=/var/lib/hypersonic/" in value for value in found["Environment"])
