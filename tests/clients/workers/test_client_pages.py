# SPDX-License-Identifier: Apache-2.0
"""docs/client.md and docs/client-workers.md: every code block runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersonic import client as client_package
from hypersonic.client.settings import Settings
from tests.clients.workers.pages import DOCS, Servers, page_servers, read_blocks
from tests.end_to_end.tutorial import Commands, is_shown
from tests.reference import environment

ROOT = DOCS.parent
PAGE = (DOCS / "client.md").read_text()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with page_servers() as running:
        yield running


def test_every_block_of_the_clients_page_runs_and_prints_what_it_shows(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, in one namespace, as in a notebook."""
    host, _, port = servers.a.rpartition(":")
    monkeypatch.setenv("SONIC_LOCAL_BALANCER_HOST", host)
    monkeypatch.setenv("SONIC_LOCAL_BALANCER_PORT", port)
    monkeypatch.setenv("HYPERSONIC_SERVERS", servers.b)
    namespace: dict[str, object] = {"__name__": "page"}
    printed, ran = "", 0
    for block in read_blocks("client.md"):
        if block.language == "python":
            exec(compile(servers.named_in(block.text), "docs/client.md", "exec"), namespace)
            printed, ran = capsys.readouterr().out, ran + 1
        else:
            assert (block.language, block.mark) == ("text", "numbers vary"), block
            shown = Commands("", output=servers.named_in(block.text), numbers_vary=True)
            assert is_shown(shown, printed), f"the page shows\n{shown.output}\nbut this is printed\n{printed}"
    assert ran >= 9


@pytest.mark.parametrize(
    ("name", "packages", "expected"),
    [
        ("energies_dask.py", "coffea", ["20 (1000, 18)"]),
        ("energies_coffea.py", "coffea", ["5000 * 18 * float32", "5000 * 18 * float32"]),
        ("energies_law.py", "law", ["done 3"]),
    ],
)
def test_the_programs_for_workers_run(servers: Servers, name: str, packages: str, expected: list[str], tmp_path: Path) -> None:
    """In environments that have dask, coffea and law, whose packages are not the project's."""
    python = environment.environment(packages) / "bin" / "python"
    texts = {block.mark.removeprefix("file: "): block.text for block in read_blocks("client-workers.md")}
    (tmp_path / name).write_text(servers.named_in(texts[name]))
    done = subprocess.run(
        [str(python), "-P", name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected, done.stderr
    written = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.npy"))
    assert written == ([f"energies/{number}.npy" for number in range(3)] if name == "energies_law.py" else [])


def test_the_page_gives_the_defaults_that_the_settings_have() -> None:
    settings = Settings()
    retry, health, limits = settings.retry, settings.health, settings.limits
    same, other = (policy.tries for policy in retry.policies if hasattr(policy, "tries"))
    assert (same, f"up to {other} times on another one" in PAGE) == (1, True)
    assert other + 2 == 14
    assert "up to fourteen times" in PAGE
    budget = retry.budget
    assert f"Budget(tokens={budget.tokens:.0f}, per_success={budget.per_success})" in PAGE
    assert f"between 0 and min({retry.backoff.cap_s:.0f} s, {1000 * retry.backoff.base_s:.0f} ms x 2^n)" in PAGE
    assert (health.failures, health.first_s, health.longest_s, health.index_s) == (3, 1, 30, 30)
    assert f"At most {limits.in_flight} requests and {limits.bytes_in_flight >> 20} MiB" in PAGE
    assert f"`Timeout.total_s` ({settings.timeout.total_s:.0f} s)" in PAGE
    assert f"`connect_s` ({settings.timeout.connect_s:.0f} s)" in PAGE


def test_the_page_lists_every_error_of_the_client() -> None:
    errors = {name for name in client_package.__all__ if name.endswith("Error")} - {"ClientError"}
    assert set(re.findall(r"^\| `(\w+Error)` \|", PAGE, re.MULTILINE)) == errors
    assert "law" not in sys.modules
