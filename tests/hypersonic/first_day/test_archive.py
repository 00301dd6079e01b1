# SPDX-License-Identifier: Apache-2.0
"""The archive has what happened, and nothing that must not leave the machine."""

from __future__ import annotations

import json
import re
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersonic.first_day import archive
from hypersonic.first_day.archive import write_archive
from hypersonic.first_day.cleaning import REMOVED, cleaner
from hypersonic.first_day.day import Day
from tests.hypersonic.first_day.own_day import make_day

#: planted in texts: variable or kind -> a secret
PLANTED = {
    "SITE_TOKEN": "s3cr3t-of-the-site",
    "XILINXD_LICENSE_FILE": "2100@licences.example.org",
    "USER": "maria",
    "HOSTNAME": "fpga07.example.org",
}
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----"
SECRETS = [*PLANTED.values(), "b3BlbnNzaC1rZXktdjEAAAAA", "fpga07", "hunter2", "/home/otto"]
TEXT = (
    f"card 0 on fpga07 (fpga07.example.org), user maria\nlicence 2100@licences.example.org\npassword: hunter2\n{KEY}\n"
    f"/home/otto/models {PLANTED['SITE_TOKEN']} on {socket.gethostname()}\nlibrary /opt/xilinx/xrt/lib/libxrt_coreutil.so.2"
)


@pytest.fixture
def day(tmp_path: Path) -> Day:
    """A day with one step, which said and kept secrets."""
    day = make_day(tmp_path)
    day.record.say(TEXT)
    day.record.end("devices", 1.0, TEXT)
    day.record.files.update({"server.log": TEXT, "devices.json": {"host": "fpga07", "api_token": "hunter2", "all": [TEXT, 7]}})
    return day


def members(file: Path) -> dict[str, str]:
    with tarfile.open(file) as opened:
        read = {member: opened.extractfile(member) for member in opened.getmembers()}
        assert all((member.uname, member.gname, member.uid, member.mtime) == ("", "", 0, 0) for member in read)
        return {member.name: content.read().decode() for member, content in read.items() if content}


def test_no_planted_secret_is_in_the_archive(day: Day, tmp_path: Path) -> None:
    write_archive(day, tmp_path / "day.tar.gz", PLANTED)
    texts = members(tmp_path / "day.tar.gz")
    for name, text in texts.items():
        for secret in [*SECRETS, str(Path.home()), str(Path.cwd())]:
            assert secret not in text, (name, secret)
        assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text), name
    assert texts["first-day/server.log"].count(REMOVED) >= 8
    assert b"day.tar" not in (tmp_path / "day.tar.gz").read_bytes(), "gzip's header has no file name"


def test_what_says_where_xrt_is_stays_and_json_stays_json(day: Day, tmp_path: Path) -> None:
    write_archive(day, tmp_path / "day.tar.gz", {**PLANTED, "XILINX_XRT": "/opt/xilinx/xrt"})
    texts = members(tmp_path / "day.tar.gz")
    assert set(texts) == {f"first-day/{name}" for name in ("summary.json", "steps/1-devices.txt", "server.log", "devices.json")}
    assert "library /opt/xilinx/xrt/lib/libxrt_coreutil.so.2" in texts["first-day/steps/1-devices.txt"]
    devices = json.loads(texts["first-day/devices.json"])
    assert (devices["host"], devices["api_token"], devices["all"][1]) == (REMOVED, REMOVED, 7)
    summary = json.loads(texts["first-day/summary.json"])
    assert {"hypersonic", "python", "xrt", "driver"} <= set(summary["versions"])
    assert summary["steps"][0]["step"] == "devices"


def test_of_a_long_file_the_end_is_kept(day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_CHARACTERS", 100)
    day.record.files["server.log"] = "a" * 500 + "the end"
    write_archive(day, tmp_path / "day.tar.gz", PLANTED)
    assert members(tmp_path / "day.tar.gz")["first-day/server.log"] == "a" * 93 + "the end"


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=6, max_size=40), st.text(max_size=30))
def test_the_value_of_a_variable_is_removed_wherever_it_is(value: str, around: str) -> None:
    if not value.startswith(("/opt/", "/usr/", "/lib/", "/lib64/", "/etc/", "/bin", "/sbin")):
        assert value not in cleaner({"NAME": value})(around + value + around).replace(REMOVED, "\n")
