# SPDX-License-Identifier: Apache-2.0
"""The real XRT library and drivers of other releases on the host, in a made-up sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersonic.host import library
from hypersonic.host.library import OVERRIDE
from hypersonic.host.release import release_differs, release_warning
from hypersonic.server.backends.fpga import backend
from hypersonic.server.backends.fpga.backend import FpgaBackend
from tests.support.xrt import needs_xrt


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(OVERRIDE, raising=False)
    (tmp_path / "module/xocl").mkdir(parents=True)
    return tmp_path


def load_driver(root: Path, version: str) -> None:
    (root / "module/xocl/version").write_text(version)


@needs_xrt
def test_a_driver_of_another_release_is_one_warning_that_says_what_to_do(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load_driver(root, "2.16.204,1a2b3c\n")
    text = release_warning(root)
    assert text.startswith("XRT's library is 2.13.0 (/")
    assert text.endswith(
        "), but the host's driver xocl is 2.16.204: install both from one package. In a container, use an image with XRT 2.16; "
        "on the host, install the driver of XRT 2.13"
    )
    monkeypatch.setattr(backend, "release_warning", lambda: release_warning(root))
    FpgaBackend()
    assert [record.getMessage() for record in caplog.records] == [text]


@needs_xrt
@pytest.mark.parametrize("version", ["2.13.466,abc", "2.13.0", "", "unknown"])
def test_the_same_release_and_an_unknown_one_are_no_warning(version: str, root: Path) -> None:
    load_driver(root, version)
    assert release_warning(root) == ""


def test_without_a_driver_xrt_is_not_even_loaded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "Library", lambda path: pytest.fail(f"loads {path}"))
    assert release_warning(root) == ""


def test_without_a_library_the_model_says_what_is_missing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERRIDE, "/nowhere/libxrt_coreutil.so.2")
    load_driver(root, "2.16.204")
    assert release_warning(root) == ""


def test_releases_are_compared_by_their_first_two_numbers() -> None:
    assert release_differs("2.13.0", "2.16.204")
    assert not release_differs("2.13.0", "2.13.466")
    assert not release_differs(None, "2.13.466")
    assert not release_differs("2.13.0", None)
