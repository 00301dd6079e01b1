# SPDX-License-Identifier: Apache-2.0
"""The limit of memory: its words, and what is available by the machine and by control groups, read from directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.hls.bounded.memory import MemoryOptionError, available_bytes, in_words, limit_bytes, parse_limit

MB = 1 << 20


def machine(root: Path, available_mb: int | None, groups: str = "") -> tuple[Path, Path]:
    """Directories in the places of /proc and /sys/fs/cgroup."""
    proc, cgroups = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    cgroups.mkdir()
    if available_mb is not None:
        (proc / "meminfo").write_text(f"MemTotal:  99999999 kB\nMemFree: 1 kB\nMemAvailable:  {available_mb << 10} kB\n")
    (proc / "self/cgroup").write_text(groups)
    return proc, cgroups


def group(place: Path, stat: str = "", **files: object) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "memory.stat").write_text(stat)
    for name, content in files.items():
        (place / name.replace("__", ".")).write_text(f"{content}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8G", 8 << 30), ("1.5g", 3 << 29), ("500M", 500 * MB), ("2GiB", 2 << 30), ("64KB", 64 << 10), ("123", 123),
     ("1T", 1 << 40), ("80%", 0.8), ("100%", 1.0), ("1%", 0.01)],
)  # fmt: skip
def test_a_limit_is_a_size_or_a_share(text: str, expected: float) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0G", "0%", "101%", "-1G", "8 G", "G", "eight", "8X", "1e9", "80.5%", "nan"])
def test_another_text_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(MemoryOptionError, match=r"HYPERSONIC_MEMORY or --memory.*expected a size such as 8G"):
        parse_limit(text)


def test_the_limit_is_the_variable_or_a_share_of_what_is_available_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSONIC_MEMORY", "300M")
    assert limit_bytes() == 300 * MB
    assert limit_bytes("2G") == 2 << 30
    for available, expected in ((1000 * MB, 800 * MB), (None, None)):
        monkeypatch.setattr("hypersonic.hls.bounded.memory.available_bytes", lambda available=available: available)
        monkeypatch.setenv("HYPERSONIC_MEMORY", "")
        assert limit_bytes() == expected


def test_what_is_available_is_what_the_kernel_says_without_swap(tmp_path: Path) -> None:
    assert available_bytes(*machine(tmp_path, 700)) == 700 * MB
    assert limit_bytes() is not None  # this machine says it


def test_a_system_that_says_nothing_has_no_limit(tmp_path: Path) -> None:
    assert available_bytes(*machine(tmp_path, None)) is None
    assert available_bytes(tmp_path / "nowhere", tmp_path / "nowhere") is None


def test_a_group_of_version_2_has_less_and_its_files_in_memory_do_not_count(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, 9000, "0::/user/job\n")
    group(cgroups / "user/job", f"anon 5\nactive_file {30 * MB}\ninactive_file {70 * MB}\n", memory__max=1000 * MB,
          memory__high="max", memory__current=600 * MB)  # fmt: skip
    assert available_bytes(proc, cgroups) == 500 * MB


def test_the_narrowest_group_above_counts(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, 9000, "0::/user/job\n")
    group(cgroups / "user/job", memory__max="max", memory__current=5 * MB)
    group(cgroups / "user", memory__max=2000 * MB, memory__high=800 * MB, memory__current=300 * MB)
    assert available_bytes(proc, cgroups) == 500 * MB


def test_a_group_of_version_1_counts_beside_the_empty_hierarchy_of_version_2(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, 9000, "4:cpu,memory:/job\n1:name=systemd:/\n0::/\n")
    group(cgroups / "memory/job", f"total_active_file {10 * MB}\ntotal_inactive_file 0\n",
          memory__limit_in_bytes=400 * MB, memory__usage_in_bytes=110 * MB)  # fmt: skip
    group(cgroups / "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=0)
    assert available_bytes(proc, cgroups) == 300 * MB


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, 9000, "0::/docker/0123abcd\n")
    group(cgroups, memory__max=256 * MB, memory__current=56 * MB)
    assert available_bytes(proc, cgroups) == 200 * MB


def test_a_full_group_leaves_nothing(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, 9000, "0::/\n")
    group(cgroups, memory__max=256 * MB, memory__current=300 * MB)
    assert available_bytes(proc, cgroups) == 0


def test_a_size_is_written_for_people() -> None:
    assert [in_words(size) for size in (3 << 29, 300 * MB, 1)] == ["1.5 GB", "300 MB", "1 MB"]
